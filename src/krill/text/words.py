"""The word splitter: what the filters take for words and for sentences.

In: text. Out: its words or its sentences, as strings. Held in memory: those. The native splitter does the
work; the filters use it without making strings. Its rules are in `tests/oracles/words.py`: in all but rare
cases those of spaCy's blank English tokenizer (docs/filters.md says how rare).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from krill import _native


def split_words(text: str) -> list[str]:
    """The words of a text. Without the whitespace between them they are all of it."""
    return _slices(text, _native.word_spans)


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, which together are all of it; whitespace belongs to the one before it."""
    return _slices(text, _native.sentence_spans)


def _slices(text: str, spans: Callable[[bytes], NDArray[np.uint32]]) -> list[str]:
    data = text.encode()
    numbers = iter(spans(data).tolist())
    return [data[begin : begin + size].decode() for begin, size in zip(numbers, numbers, strict=True)]
