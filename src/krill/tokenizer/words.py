"""How often each word of a corpus occurs: the first half of training, for those who want to see it.

In: a file or several. Out: a dictionary from the word's bytes to its count. Held in memory: counting stays
within the budget; the dictionary that is returned is the caller's, some 150 bytes for each different word.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from krill.budget import resident_bytes
from krill.budget.process import metered_process
from krill.corpus import DatasetSource
from krill.threads.progress import Silent
from krill.tokenizer.count import Counting, count
from krill.tokenizer.needs import TEXT, WORDS, counting_needs
from krill.tokenizer.options import TrainOptions
from krill.tokenizer.reading import open_sources


def word_counts(
    inputs: str | Path | Sequence[str | Path],
    *,
    pattern: str = "gpt2",
    special_tokens: Sequence[str] = ("<|endoftext|>",),
    memory: str | int = "auto",
    threads: int | str = "auto",
) -> dict[bytes, int]:
    """The words that `pattern` cuts the text into, and how often each occurs; special tokens are borders."""
    options = TrainOptions(pattern=pattern, special_tokens=tuple(special_tokens))
    many = [inputs] if isinstance(inputs, str | Path) else inputs
    with (
        metered_process(memory, threads, floor=resident_bytes()) as meter,
        tempfile.TemporaryDirectory(prefix="krill-") as folder,
    ):
        workers = meter.threads
        corpus = open_sources([DatasetSource(str(path)) for path in many], options, None)
        plan = meter.plan(counting_needs(corpus, workers))
        counting = Counting(
            corpus,
            options,
            Path(folder),
            cap_bytes=plan.share(WORDS),
            in_flight=plan.share(TEXT),
            threads=workers,
            longest_piece=plan.share(TEXT) // (workers + 1),
            progress=Silent(),
            throttle=meter,
        )
        with count(counting).path.open("rb") as file:
            return dict(_words(file))


def _words(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """The records of an inventory: a count, a length, the bytes."""
    while (occurrences := _number(file)) is not None:
        size = _number(file)
        assert size is not None
        yield file.read(size), occurrences


def _number(file: BinaryIO) -> int | None:
    """A number in groups of seven bits, the lowest first; None at the end of the file."""
    value = shift = 0
    while byte := file.read(1):
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return value
        shift += 7
    return None
