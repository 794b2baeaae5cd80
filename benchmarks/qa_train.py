"""A reader over long documents: what its training holds by segments, and what its memory is worth.

    python benchmarks/qa_train.py memory    # the peak with 2, 8 and 32 segments
    python benchmarks/qa_train.py recall    # a fact many segments before, with memory and without

Both run the commands, each in a process of its own: `krill qa prepare`, `train`, `evaluate`, on documents of
`recall_task.py`. The peak is the kernel's `VmHWM`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measured import run_measured
from recall_task import AROUND, write_questions, write_tokenizer
from results import again

KRILL = Path(sys.executable).with_name("krill")
MEMORY_TOKENS = 2


@dataclass(frozen=True)
class Task:
    """Documents of up to `segments` segments of `length` tokens; all as long where `mixed` is false."""

    segments: int
    length: int
    mixed: bool

    def prepare(self, folder: Path, name: str, documents: int, *, seed: int) -> Path:
        """Features of so many documents, with the tokenizer beside them."""
        tokenizer = write_tokenizer(folder / "tokenizer.json", memory_tokens=MEMORY_TOKENS)
        least = 2 if self.mixed else self.segments
        words = self.length - AROUND - 2 * MEMORY_TOKENS
        questions = folder / f"{name}.jsonl"
        write_questions(questions, documents, segments=(least, self.segments), words=words, seed=seed)
        shape = ("--max-seq-length", self.length, "--doc-stride", 0)
        run("qa", "prepare", questions, "--tokenizer", tokenizer, "--output", folder / name, *shape)
        return folder / name


def run(*arguments: object) -> tuple[dict[str, Any], int]:
    """A command's result and its peak in bytes."""
    outcome = run_measured([KRILL, *map(str, arguments), "--json"], timeout=3600)
    if outcome.code:
        raise RuntimeError(outcome.err)
    return outcome.result, outcome.peak


def train(features: Path, output: Path, *flags: object) -> tuple[dict[str, Any], int]:
    """One training, and its peak."""
    tokenizer = features.parent / "tokenizer.json"
    return run("qa", "train", features, "--tokenizer", tokenizer, "--output-dir", output, *flags)


def memory(options: argparse.Namespace) -> None:
    """The peak of a training step over ever longer documents."""
    results = again("qa_train_memory", "jax")
    first = 0
    for segments in options.segments:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            features = Task(segments, options.length, mixed=False).prepare(folder, "train", 16, seed=1)
            sizes = ("--hidden", options.hidden, "--layers", options.layers, "--batch-size", 8)
            made, peak = train(features, folder / "model", *sizes, "--max-steps", 2, "--memory", "1GB")
        first = first or peak
        results.add(
            segments=segments,
            peak=peak / 1e6,
            parameters=made["parameters"],
            step_by_xla=made["plan"]["step_bytes"] / 1e6,
            predicted=made["budget"]["predicted_peak"] / 1e6,
            against_the_first=peak / first,
        )
    results.save()


def recall(options: argparse.Namespace) -> None:
    """Exact match on documents in which the fact is as far away as it gets."""
    results = again("qa_train_recall", "jax")
    for segments in options.segments:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            task = Task(segments, 28, mixed=True)
            features = task.prepare(folder, "train", options.documents, seed=1)
            held_out = Task(segments, 28, mixed=False).prepare(folder, "held-out", 256, seed=2)
            for slots in (MEMORY_TOKENS, 0):
                output = folder / f"model-{slots}"
                sizes = ("--hidden", 32, "--layers", 2, "--heads", 2, "--memory-tokens", slots)
                rhythm = ("--batch-size", 32, "--max-steps", options.steps, "--learning-rate", 0.0015)
                made, _ = train(features, output, *sizes, *rhythm, "--seed", options.seed)
                found, _ = run("qa", "evaluate", output, held_out)
                rate = made["documents_per_second"] * (segments + 2) / 2
                results.add(
                    segments=segments,
                    memory="with" if slots else "without",
                    exact=found["exact"],
                    steps=options.steps,
                    segments_per_second=rate,
                    seconds=made["seconds"],
                )
    results.save()


def main() -> None:
    """One of the two tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    tables = parser.add_subparsers(required=True)
    peak = tables.add_parser("memory")
    peak.set_defaults(print_table=memory)
    peak.add_argument("--segments", type=int, nargs="+", default=[2, 8, 32])
    peak.add_argument("--length", type=int, default=384)
    peak.add_argument("--hidden", type=int, default=128)
    peak.add_argument("--layers", type=int, default=4)
    solved = tables.add_parser("recall")
    solved.set_defaults(print_table=recall)
    solved.add_argument("--segments", type=int, nargs="+", default=[4, 8])
    solved.add_argument("--steps", type=int, default=800)
    solved.add_argument("--documents", type=int, default=8000)
    solved.add_argument("--seed", type=int, default=42)
    options = parser.parse_args()
    options.print_table(options)


if __name__ == "__main__":
    main()
