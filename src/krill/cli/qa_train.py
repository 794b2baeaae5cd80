"""`krill qa train`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from krill.budget import format_size
from krill.cli.formats import Row, format_count, format_duration, format_memory
from krill.cli.options import BudgetOptions, OutputOptions, Switch, VerifyOptions


@Parameter(name="*")
@dataclass(frozen=True)
class ReaderFlags:
    """The model and its training."""

    hidden: int | None = None
    """Numbers in a hidden state. Default: 128."""

    layers: int | None = None
    """Layers of the encoder. Default: 4."""

    heads: int | None = None
    """Attention heads in a layer. Default: so many that each has 32 numbers, or a few more."""

    memory_tokens: int | None = None
    """Vectors that are carried from segment to segment; 0 reads each segment by itself. Default: as many as
    the features have memory tokens, else 16."""

    bptt: int | None = None
    """Segments that a gradient goes back through. Default: all of a document."""

    max_segments: int | None = None
    """Segments of a document that are read in a step, in a row. Default: all."""

    segment_selection: Literal["answer_centered", "random_continuous", "first_n"] | None = None
    """Which ones, of a document that has more. Default: answer_centered."""

    batch_size: int | None = None
    """Documents in a step. Default: 8."""

    epochs: int | None = None
    """Times that every document is read. Default: 2."""

    max_steps: int | None = None
    """Steps of training. Default: as many as the epochs have."""

    learning_rate: float | None = None
    """Peak learning rate. Default: 0.0005."""

    weight_decay: float | None = None
    """By which matrices shrink at each step, times the learning rate. Default: 0.01."""

    seed: int | None = None
    """Seed of everything that is drawn at random. Default: 42."""

    log_every: int | None = None
    """Steps between lines of progress. Default: 10."""

    save_every: int | None = None
    """Steps between checkpoints. Default: 1000."""

    evaluate_every: int | None = None
    """Steps between evaluations. Default: with every checkpoint."""

    keep_checkpoints: int | None = None
    """Newest checkpoints that are kept, beside the best. Default: 2."""


def train(
    features: Path,
    /,
    *,
    tokenizer: Path,
    output_dir: Path,
    evaluation: Annotated[Path | None, Parameter(name="--eval")] = None,
    overwrite: Switch = False,
    flags: ReaderFlags = ReaderFlags(),
    budget: BudgetOptions = BudgetOptions(),  # noqa: B008
    verify: VerifyOptions = VerifyOptions(),  # noqa: B008
    display: OutputOptions = OutputOptions(),  # noqa: B008
) -> None:
    """A reader of long documents from prepared features, inside the budget.

    It reads a document segment by segment and carries a memory from each to the next. What a step holds
    does not grow with the number of segments. The same command on a training that was killed continues it
    from its last checkpoint; on a finished one it says so and does nothing.

    Parameters
    ----------
    features
        What `krill qa prepare` made.
    tokenizer
        The tokenizer.json, or its folder, that made the features.
    output_dir
        The folder for the model.
    evaluation
        Features that the model is scored on with every checkpoint, and at the end.
    overwrite
        Start anew: what an earlier training left in the output folder is removed when the first step is
        ready; refused while it holds files that Krill did not write.
    """
    from krill.cli.progress import watch
    from krill.cli.screen import print_result
    from krill.training.qa.job import train_reader
    from krill.training.qa.settings import ReaderSettings

    given = {name: value for name, value in asdict(flags).items() if value is not None}
    memory, threads = budget.resolve()
    with watch(display, memory) as progress:
        summary = train_reader(
            features,
            tokenizer=tokenizer,
            output_dir=output_dir,
            evaluation=evaluation,
            settings=ReaderSettings(**given),
            memory=memory,
            threads=threads,
            overwrite=overwrite,
            verify=verify.enabled,
            progress=progress,
            floor=0,
        )
    facts = summary.to_json()
    then = f"krill qa evaluate {facts['output']} FEATURES"
    print_result(facts, display, lambda: _rows(facts), made="from the same features", then=then)


def _rows(facts: Mapping[str, Any]) -> list[Row]:
    model, plan, scores = facts["model"], facts["plan"], facts["evaluation"]
    shape = f"{format_count(model['layers'], 'layer')} of width {model['width']}"
    memory = format_count(facts["memory_tokens"], "memory vector")
    cut = "" if plan["microbatch"] == plan["documents"] else f", {plan['microbatch']} at once"
    size = f"{plan['documents']} documents of up to {plan['segments']} segments"
    return [
        ("model", f"{facts['parameters']:,} parameters: {shape}, {memory}"),
        ("steps", f"{facts['steps']:,} of {size}{cut}"),
        ("loss", "unknown" if facts["final_loss"] is None else f"{facts['final_loss']:.4f} in training"),
        *([] if scores is None else [("scores", _format_scores(scores))]),
        ("speed", f"{facts['documents_per_second'] or 0:,.1f} documents/s"),
        ("time", format_duration(facts["seconds"])),
        ("memory", f"{format_memory(facts['budget'])}; the step {format_size(plan['step_bytes'])}"),
        ("output", str(facts["output"])),
    ]


def _format_scores(scores: Mapping[str, Any]) -> str:
    return f"exact {scores['exact']:.2f} %, F1 {scores['f1']:.2f} % of {scores['documents']:,} questions"
