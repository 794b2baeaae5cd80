"""Words of a pattern that Krill has no scanner for, cut by Hugging Face's own pre-tokenizer.

In: documents. Out: their words, given to the native counter. Slower, and the same words. The library takes
text, so bytes that are not UTF-8 become U+FFFD first. Held in memory: what the library makes of one document.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from krill.tokenizer.options import TrainOptions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from krill import _native


class ForeignWords:
    """Cuts documents with any regular expression that the library takes."""

    def __init__(self, options: TrainOptions, boundaries: tuple[bytes, ...]) -> None:
        from tokenizers import Regex
        from tokenizers.pre_tokenizers import Split

        self._splitter = Split(Regex(options.pattern), "isolated")
        self._lines = options.boundaries == "lines"
        longest_first = sorted((re.escape(token.decode()) for token in boundaries), key=len, reverse=True)
        self._boundaries = re.compile("|".join(longest_first)) if boundaries else None

    def add_to(self, counter: _native.WordCounter, offsets: NDArray[np.int64], data: Any) -> None:
        """Count the words of some documents."""
        view = memoryview(data)
        for start, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            text = str(view[start:end], "utf-8", "replace")
            for piece in self._boundaries.split(text) if self._boundaries else [text]:
                for part in self._parts(piece):
                    self._add(counter, part)

    def _parts(self, piece: str) -> list[str]:
        """The piece itself, or its lines with their endings: cut after newlines only."""
        return re.findall(r"[^\n]*\n|[^\n]+", piece) if self._lines else [piece]

    def _add(self, counter: _native.WordCounter, piece: str) -> None:
        words = [word.encode() for word, _ in self._splitter.pre_tokenize_str(piece)]
        if words:
            counter.add_words(np.cumsum([len(word) for word in words], dtype=np.uint64), b"".join(words))
