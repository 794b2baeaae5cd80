"""What `krill train` prints for people."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from krill.budget.size import format_size
from krill.cli.screen import console_of, counted, print_rows, told_duration, told_memory

if TYPE_CHECKING:
    from krill.model.outline import ModelOutline


def print_training(facts: Mapping[str, Any]) -> None:
    """The end of a training; `facts` as its summary's `to_json` has them."""
    console = console_of()
    console.print()
    output = facts["output"]
    if facts["status"] == "finished":
        console.print(f"nothing to do: {output} is finished, made by the same config and data\n")
    model, plan = facts["model"], facts["plan"]
    shape = (
        f"{counted(model['layers'], 'layer')} of width {model['width']}, {counted(model['heads'], 'head')}"
    )
    rows = [
        ("model", f"{facts['parameters']:,} parameters: {shape}, {model['vocab_size']:,} tokens"),
        ("steps", f"{facts['steps']:,} of {plan['rows']} rows, {facts['tokens']:,} tokens{_cut(plan)}"),
        ("loss", _told_loss(facts)),
        ("speed", f"{facts['tokens_per_second'] or 0:,.0f} tokens/s"),
        ("time", told_duration(facts["seconds"])),
        ("memory", f"{told_memory(facts['budget'])}; the step {format_size(plan['step_bytes'])}"),
        ("output", str(output)),
    ]
    if "pushed" in facts:
        rows.append(("pushed", facts["pushed"]))
    print_rows(console, rows)
    console.print(f'\nnext: krill generate {shlex.quote(str(output))} --prompt "Once upon a time"')


def print_outline(model: ModelOutline) -> None:
    """The model that a config would train."""
    shape = model.shape
    shared = "" if shape.kv_heads == shape.heads else f" ({shape.kv_heads} of keys and values)"
    rows = [
        ("model", f"{model.parameters:,} parameters, a vocabulary of {shape.vocab_size:,}"),
        ("  shape", f"{shape.layers} layers of width {shape.width}, {shape.heads} heads{shared}"),
        *((f"  {name.replace('_', ' ')}", f"{count:,} parameters") for name, count in model.parts.items()),
        ("training", f"{model.step_rows} rows of {model.row_tokens:,} tokens a step"),
        ("  weights", format_size(model.weights)),
        ("  gradients", format_size(model.gradients)),
        ("  optimizer", format_size(model.optimizer)),
        ("  activations", f"about {format_size(model.activations)} for a batch in one piece, all kept"),
    ]
    if model.shuffle_buffer:
        rows.append(("  shuffling", f"{format_size(model.shuffle_buffer)} of rows that wait"))
    print_rows(console_of(), rows)


def _cut(plan: Mapping[str, Any]) -> str:
    if plan["microbatch"] == plan["rows"]:
        return ""
    return f" (each step in pieces of {plan['microbatch']} rows)"


def _told_loss(facts: Mapping[str, Any]) -> str:
    validation = facts["validation"]
    told = [] if facts["final_loss"] is None else [f"{facts['final_loss']:.4f} in training"]
    if validation is not None:
        told.append(f"{validation['loss']:.4f} on {validation['tokens']:,} tokens of validation")
    if facts["bits_per_byte"] is not None:
        told.append(f"{facts['bits_per_byte']:.3f} bits per byte of {facts['bits_per_byte_on']} text")
    return ", ".join(told)
