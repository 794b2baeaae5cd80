"""Windows over contexts that are longer than a feature.

Comes in: how many tokens each question and its context have. Goes out: the windows, as columns. Held in
memory: a few numbers for each window.

As Hugging Face's `return_overflowing_tokens` with truncation of the context alone: each window has as many
tokens as the question leaves room for, the next one begins so that `stride` tokens are in both, and the last
is the first that reaches the end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Windows:
    """One entry for each window; `example` rises, and `segment` counts from 0 in each example."""

    example: Numbers
    segment: Numbers
    begin: Numbers
    length: Numbers
    counts: Numbers
    """Windows of each example; 0 where the question leaves no room."""


def find_windows(
    questions: Numbers, contexts: Numbers, *, room: int, stride: int, most: int | None
) -> Windows:
    """`room` is what fixed tokens leave of a feature; `most` windows of an example are kept, None = all."""
    rooms = room - questions
    fits = contexts <= rooms
    steps = np.where(fits, 1, rooms - stride)
    possible = fits | ((rooms > 0) & (steps > 0))
    # Of a context that fits there is one window, whatever the room.
    beyond = np.where(fits, 0, contexts - rooms)
    counts = np.where(possible, 1 - (-beyond // np.maximum(steps, 1)), 0)
    if most is not None:
        counts = np.minimum(counts, most)
    example = np.repeat(np.arange(len(counts)), counts)
    segment = np.arange(len(example)) - np.repeat(np.cumsum(counts) - counts, counts)
    begin = segment * steps[example]
    length = np.minimum(rooms[example], contexts[example] - begin)
    return Windows(example, segment, begin, length, counts)
