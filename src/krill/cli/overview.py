"""What `krill --help` prints: the commands, each with a sentence.

The sentences are those of the commands' own help; they stand here too, so that nobody who asks for the list
waits until all commands are loaded.
"""

from __future__ import annotations

import shutil
import textwrap
from typing import Final, NamedTuple


class Command(NamedTuple):
    """`function` is its place in `krill.cli`; None for a group of commands."""

    function: str | None
    summary: str
    other_names: tuple[str, ...] = ()


INTRODUCTION: Final = """\
Prepare text for language models, and train small ones, inside a memory budget that you state.

Say `--memory 512MB` and the run stays under it, as `/usr/bin/time -v` would see it. A dataset is the
same, byte for byte, at any budget, with any number of threads, and however often it was killed and
resumed."""
TOKENIZER: Final = "tokenizer"
QA: Final = "qa"
COMMANDS: Final = {
    "estimate": Command(
        "estimate:estimate",
        "The plan of a run before it runs: predicted peak, disk, output size and rough time.",
    ),
    "evaluate": Command(
        "evaluate:evaluate",
        "How well a model predicts: loss, perplexity, and bits per byte, on a dataset or on any text.",
    ),
    "export": Command("export:export", "Write a prepared dataset in another tool's format."),
    "generate": Command(
        "generate:generate",
        "Continue a prompt with a trained model; the text appears as it is made.",
        ("inference",),
    ),
    "inspect": Command(
        "inspect:inspect",
        "Look into an output: samples, lengths, reasons for drops, stages, memory.",
        ("inspect-dataset",),
    ),
    "preprocess": Command(
        "preprocess:preprocess",
        "Documents in, packed dataset out: read, clean, deduplicate, tokenise, pack.",
    ),
    QA: Command(None, "Question answering on long documents: prepare features, train a reader, score it."),
    "report": Command(
        "report:report",
        "Make a page to look at: where documents went and why, memory, time, tokens, curves.",
    ),
    "run": Command("run:run", "Everything that a config asks for, each step only if its output is missing."),
    TOKENIZER: Command(None, "Train tokenizers in bounded memory, and use them."),
    "train": Command("train:train", "A model from prepared rows, or straight from text, inside the budget."),
    "train-tokenizer": Command(
        "tokenizer_train:train_tokenizer",
        "Train the tokenizer of a config on its datasets, into `tokenizer.path`.",
    ),
    "validate": Command(
        "validate:validate",
        "Check an output: every row, every checksum. Exits with 3 at the first fault.",
    ),
}
_OPTIONS: Final = {
    "--help (-h)": "The same of one command: `krill preprocess --help`.",
    "--version (-V)": "The version of Krill.",
}
ASKED: Final[tuple[list[str], ...]] = ([], ["--help"], ["-h"])
"""The arguments that ask for it."""


def print_overview() -> None:
    # One column is left free, as some terminals break a line that fills them.
    width = min(shutil.get_terminal_size().columns, 130) - 1
    print("Usage: krill COMMAND\n")
    for paragraph in INTRODUCTION.split("\n\n"):
        print(textwrap.fill(" ".join(paragraph.split()), width), end="\n\n")
    names = {
        f"{name} ({', '.join(c.other_names)})" if c.other_names else name: c.summary
        for name, c in COMMANDS.items()
    }
    column = 2 + max(map(len, names)) + 2
    for title, rows in (("Commands", names), ("Options", _OPTIONS)):
        print(f"{title}:")
        for name, meaning in rows.items():
            lines = textwrap.wrap(meaning, max(width - column, 20))
            print(f"  {name}".ljust(column) + f"\n{' ' * column}".join(lines))
        print()
