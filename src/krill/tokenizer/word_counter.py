"""The native word counter fed with blocks, and the spill file for what exceeds its cap.

In: blocks of any source, from any thread. Out: words and their counts, in the native counter. Held in memory:
the counter within its cap, and the block of each thread.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from krill import _native
from krill.corpus.formats import CorpusFile
from krill.errors import StorageError
from krill.storage.atomic import storage_errors
from krill.tokenizer.options import TrainOptions
from krill.tokenizer.patterns import PATTERNS
from krill.tokenizer.text_blocks import InputBlock, SplitPoints


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
    """Splits text by a regex that has no native scanner, with Hugging Face's pre-tokenizer; slower.

    The library takes text, so bytes that are not UTF-8 become U+FFFD first. Held in memory: what the library
    makes of one document.
    """

    def __init__(self, options: TrainOptions, boundaries: tuple[bytes, ...]) -> None:
        from tokenizers import Regex
        from tokenizers.pre_tokenizers import Split

        self._splitter = Split(Regex(options.pattern), "isolated")
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
        words = [word.encode() for word, _ in self._splitter.pre_tokenize_str(text)]
        if words:
            counter.add_words(np.cumsum([len(word) for word in words], dtype=np.uint64), b"".join(words))


@contextmanager
def damaged_spill(folder: Path) -> Iterator[None]:
    """Turns the native error for files of words that are not as they were written into ours."""
    try:
        yield
    except _native.DamagedFile as error:
        raise StorageError(
            f"what was counted, in `{folder}`, is damaged: {error}", hint="start anew with --overwrite"
        ) from None
