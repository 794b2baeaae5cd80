"""An evaluation, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from krill.cli.screen import console_of, counted, print_rows, told_duration, told_memory

if TYPE_CHECKING:
    from krill.training.evaluation import Report


def print_evaluation(report: Report) -> None:
    """The figures, what they are of, and what they took."""
    found = report.evaluation
    which = "" if report.step is None else f", step {report.step:,}"
    bits = "unknown: the tokenizer is not beside the model"
    if found.bits_per_byte is not None:
        bits = f"{found.bits_per_byte:.4f}" + ("" if report.exact else " (bytes of tokens estimated)")
    scored = counted(found.tokens, "token")
    if found.bytes is not None:
        scored += f", {counted(found.bytes, 'byte')} of text"
    rows = [
        ("model", f"{report.model}{which}"),
        ("data", report.data if report.split is None else f"{report.data} ({report.split})"),
        ("bits per byte", bits),
        ("loss", f"{found.loss:.4f} nats a token"),
        ("perplexity", f"{found.perplexity:,.2f}"),
        ("scored", scored),
        ("time", told_duration(report.seconds)),
        ("memory", told_memory(report.budget)),
    ]
    print_rows(console_of(), rows)
