"""Blocks into the native counter: how they are cut into words, and where what goes over its cap is kept.

In: blocks of any source, from any thread. Out: words and their counts, in the native counter. Held in memory:
the counter within its cap, and the block that each thread is at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from krill import _native
from krill.corpus.formats import CorpusFile
from krill.errors import StorageError
from krill.storage.atomic import storage_errors
from krill.tokenizer.options import TrainOptions
from krill.tokenizer.patterns import PATTERNS
from krill.tokenizer.pieces import Piece
from krill.tokenizer.plain_text import Cuts

if TYPE_CHECKING:
    from krill.tokenizer.foreign_words import ForeignWords


def boundaries_of(options: TrainOptions, files: Iterable[CorpusFile]) -> tuple[bytes, ...]:
    """What is cut out of the text: special tokens, but not where Hugging Face would read line by line."""
    lines = options.boundaries == "lines" and options.tie_break == "huggingface"
    tokens = [] if lines else list(options.special_tokens)
    tokens += [file.source.separator for file in files if file.source.separator]
    return tuple(dict.fromkeys(token.encode() for token in tokens))


def cuts_of(options: TrainOptions, boundaries: tuple[bytes, ...], longest: int) -> Cuts:
    """Where plain text may be cut into blocks."""
    return Cuts(
        boundaries,
        any_pattern=options.pattern not in PATTERNS,
        lines=options.boundaries == "lines",
        longest=longest,
    )


class BlockCounter:
    """Counts the words of blocks; `segments` are what an earlier life has spilled into `spill`."""

    def __init__(
        self,
        options: TrainOptions,
        boundaries: tuple[bytes, ...],
        *,
        cap_bytes: int,
        threads: int,
        spill: Path,
        segments: NDArray[np.uint64] | None = None,
        spill_size: int = 0,
    ) -> None:
        known = options.pattern in PATTERNS
        with storage_errors(spill), damaged_spill(spill.parent):
            self.words = _native.WordCounter(
                options.pattern if known else "",
                list(boundaries),
                options.boundaries == "lines",
                cap_bytes,
                threads,
                str(spill),
                no_segments() if segments is None else segments,
                spill_size,
            )
        self._foreign: ForeignWords | None = None
        if not known:
            from krill.tokenizer.foreign_words import ForeignWords

            self._foreign = ForeignWords(options, boundaries)

    def add(self, block: Piece) -> int:
        """The words of a block; returns the bytes of input that it stood for."""
        offsets, data = block.read()
        if self._foreign is not None:
            self._foreign.add_to(self.words, offsets, data)
        else:
            self.words.add(offsets, data)
        return block.size


def no_segments() -> NDArray[np.uint64]:
    """Nothing was spilled before: rows of shard, begin, end."""
    return np.empty((0, 3), np.uint64)


@contextmanager
def damaged_spill(folder: Path) -> Iterator[None]:
    """Files of words that are not as they were written, said to the user."""
    try:
        yield
    except _native.DamagedFile as error:
        raise StorageError(
            f"what was counted, in `{folder}`, is damaged: {error}", hint="start anew with --overwrite"
        ) from None
