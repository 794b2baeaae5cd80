"""The native word counter fed with blocks, and the spill file for what exceeds its cap.

In: blocks of any source, from any thread. Out: words and their counts, in the native counter. Held in memory:
the counter within its cap, and the block of each thread.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from krill import _native
from krill.config.messages import shown
from krill.corpus.formats import CorpusFile
from krill.errors import InputError, StorageError
from krill.storage.atomic import storage_errors
from krill.tokenizer.options import TrainOptions
from krill.tokenizer.patterns import PATTERNS
from krill.tokenizer.text_blocks import InputBlock, SplitPoints

# Set in the end of a stretch that is no match.
_BETWEEN: Final = 1 << 31


def boundary_tokens(options: TrainOptions, files: Iterable[CorpusFile]) -> tuple[bytes, ...]:
    """What is removed from the text: special tokens, but not where Hugging Face would read line by line."""
    lines = options.boundaries == "lines" and options.tie_break == "huggingface"
    tokens = [] if lines else list(options.special_tokens)
    tokens += [file.source.separator for file in files if file.source.separator]
    return tuple(dict.fromkeys(token.encode() for token in tokens))


def split_points(options: TrainOptions, boundaries: tuple[bytes, ...], longest: int) -> SplitPoints:
    """Where plain text may be split into blocks."""
    return SplitPoints(
        boundaries,
        any_pattern=options.pattern not in PATTERNS,
        lines=options.boundaries == "lines",
        longest=longest,
    )


class BlockCounter:
    """Counts the words of blocks; `segments` are what an interrupted run has spilled into `spill`."""

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
                np.empty((0, 3), np.uint64) if segments is None else segments,
                spill_size,
            )
        self._splitter = None if known else RegexSplitter(options, boundaries)

    def add(self, block: InputBlock) -> int:
        """Count the words of a block; returns the bytes of input that it stood for."""
        offsets, data = block.read()
        if self._splitter is not None:
            self._splitter.count(self.words, offsets, data)
        else:
            self.words.add(offsets, data)
        return block.size


class RegexSplitter:
    """Splits text by a regex that has no scanner of its own.

    A pattern is for text, so bytes that are not UTF-8 become U+FFFD first. Held in memory: one document, and
    four bytes for each of its words.
    """

    def __init__(self, options: TrainOptions, boundaries: tuple[bytes, ...]) -> None:
        self._pattern = options.pattern
        self._split = _native_split(options.pattern) or _library_split(options.pattern)
        self._lines = options.boundaries == "lines"
        longest_first = sorted((re.escape(token.decode()) for token in boundaries), key=len, reverse=True)
        self._boundaries = re.compile("|".join(longest_first)) if boundaries else None

    def count(self, counter: _native.WordCounter, offsets: NDArray[np.int64], data: Any) -> None:
        """Add the words of some documents to the counter."""
        view = memoryview(data)
        for start, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            text = str(view[start:end], "utf-8", "replace")
            for part in self._boundaries.split(text) if self._boundaries else [text]:
                # Lines are split after newlines only, and keep them.
                for line in re.findall(r"[^\n]*\n|[^\n]+", part) if self._lines else [part]:
                    self._count_text(counter, line)

    def _count_text(self, counter: _native.WordCounter, text: str) -> None:
        try:
            ends = self._split(text)
        except RuntimeError as error:
            raise InputError(
                f"the pattern `{self._pattern}` gave up on the text that begins `{shown(text)}`: {error}",
                hint="mend the pattern: one that can match the same text in many ways takes too long",
            ) from None
        counter.add_words(ends, text.encode())


def _native_split(pattern: str) -> Callable[[str], NDArray[np.uint64]] | None:
    """Where the words of a text end: matches, and what lies between them; None if the pattern has what the
    native engine does not do."""
    try:
        regex = _native.Regex(pattern)
    except ValueError:
        return None

    def split(text: str) -> NDArray[np.uint64]:
        ends = regex.split(text.encode()) & np.uint32(_BETWEEN - 1)
        return ends[np.diff(ends, prepend=np.uint32(0)) > 0].astype(np.uint64)

    return split


def _library_split(pattern: str) -> Callable[[str], NDArray[np.uint64]]:
    from tokenizers import Regex
    from tokenizers.pre_tokenizers import Split

    splitter = Split(Regex(pattern), "isolated")

    def split(text: str) -> NDArray[np.uint64]:
        lengths = [len(word.encode()) for word, _ in splitter.pre_tokenize_str(text)]
        return np.cumsum(lengths, dtype=np.uint64)

    return split


@contextmanager
def damaged_spill(folder: Path) -> Iterator[None]:
    """Turns the native error for files of words that are not as they were written into ours."""
    try:
        yield
    except _native.DamagedFile as error:
        raise StorageError(
            f"what was counted, in `{folder}`, is damaged: {error}", hint="start anew with --overwrite"
        ) from None
