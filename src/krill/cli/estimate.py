"""`krill estimate`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from krill.budget import format_size
from krill.cli.formats import Row, format_count, format_duration
from krill.cli.options import ConfigOptions, OutputOptions

if TYPE_CHECKING:
    from krill.model.outline import ModelOutline
    from krill.pipeline import Estimate


def estimate(
    config: str,
    /,
    *,
    workers: int = 1,
    options: ConfigOptions = ConfigOptions(),  # noqa: B008  a frozen value, never changed
    display: OutputOptions = OutputOptions(),  # noqa: B008
) -> None:
    """The plan of a run before it runs: predicted peak, disk, output size and rough time.

    Where the config has a section `train`, also the model: its shape, its parameters by part, and what a step
    of its training holds.

    Parameters
    ----------
    config
        The config file (YAML).
    workers
        How many workers of an engine share the work, each with this budget and these threads.
    """
    if workers < 1:
        from krill.errors import ConfigError

        raise ConfigError(f"--workers is `{workers}`: must be at least 1")
    from krill.cli.screen import print_json, print_notices, print_rows

    loaded = options.load(config)
    from krill.pipeline.estimation import run_estimate
    from krill.tokenizer.open import fallback_notice

    result = run_estimate(loaded, workers=workers)
    model = None
    if loaded.trains and result.vocab_size is not None:
        from krill.model.outline import outline

        model = outline(
            loaded.train, result.vocab_size, loaded.train.seq_len or loaded.preprocess.sequence_len
        )
    if display.json:
        print_json({**result.to_json(), **({"model": model.to_json()} if model else {})})
    elif not display.quiet:
        slower = fallback_notice(loaded.tokenizer) if loaded.preprocess.output != "text" else None
        print_notices([*loaded.notices, *([slower] if slower else [])])
        print_rows([*_estimate_rows(result), *([] if model is None else outline_rows(model))])


def _estimate_rows(estimate: Estimate) -> list[Row]:
    plan = estimate.plan
    each = "" if estimate.workers == 1 else " of each worker"
    rows = [
        ("input", f"{format_count(estimate.files, 'file')}, {format_size(estimate.input_bytes)}"),
        (
            "memory",
            f"{format_size(plan.predicted_peak)} predicted peak{each}, {format_size(plan.limit)} given",
        ),
        ("  always", f"{format_size(plan.base)} the program and its libraries"),
    ]
    rows += [
        (f"  {share.during}", f"{format_size(share.size)} {share.name} ({share.kind.value})")
        for share in plan.shares
    ]
    predicted = estimate.predicted
    rows += [
        ("documents", f"about {predicted.documents:,} before deduplication"),
        ("disk", f"about {format_size(predicted.spill_bytes)} between stages, removed at the end"),
        ("output", f"about {format_size(predicted.output_bytes)}"),
    ]
    if predicted.tokens:
        rows.insert(-2, ("tokens", f"about {predicted.tokens:,}"))
    threads = format_count(estimate.threads, "thread")
    if estimate.workers > 1:
        threads = f"{format_count(estimate.workers, 'worker')} of {threads}"
    rows.append(("time", f"about {format_duration(predicted.seconds)} with {threads}"))
    rows += [(f"  {name}", f"about {format_duration(seconds)}") for name, seconds in predicted.stages.items()]
    return rows


def outline_rows(model: ModelOutline) -> list[Row]:
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
    return rows
