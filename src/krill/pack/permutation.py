"""An order that is computed, not stored: a keyed permutation of the numbers below `count`.

A Feistel network over the smallest square of a power of two that holds `count` permutes numbers of that many
bits; one that lands at `count` or above is sent through again until it does not, which takes fewer than four
turns on average. The order depends on `count` and the key alone. Held in memory: what is asked for.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

# Four rounds suffice for a pseudorandom permutation from good round functions; two more where a half has so
# few bits that round functions are hardly random.
_ROUNDS: Final = 6
_MASK: Final = 2**64 - 1


class Permutation:
    """`permutation(i)` for numbers `i` below `count` is each number below `count` once."""

    def __init__(self, count: int, *key: int) -> None:
        self.count = count
        self._half = max(1, -(-max(1, count - 1).bit_length() // 2))
        self._round_keys = _round_keys(key)

    def __call__(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where each number goes."""
        result = self._shuffled(numbers.astype(np.uint64))
        outside = np.flatnonzero(result >= self.count)
        while len(outside):
            result[outside] = self._shuffled(result[outside])
            outside = outside[result[outside] >= self.count]
        return result.astype(np.int64)

    def _shuffled(self, numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
        bits = np.uint64(self._half)
        mask = np.uint64((1 << self._half) - 1)
        left, right = numbers >> bits, numbers & mask
        for key in self._round_keys:
            left, right = right, left ^ (_mixed(right ^ np.uint64(key)) & mask)
        return (left << bits) | right


def _round_keys(key: tuple[int, ...]) -> list[int]:
    state = 0
    for part in key:
        state = _mixed_int((state + part + 0x9E3779B97F4A7C15) & _MASK)
    return [_mixed_int((state + turn * 0x9E3779B97F4A7C15) & _MASK) for turn in range(1, _ROUNDS + 1)]


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of SplitMix64: every bit of the input reaches every bit of the output."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _mixed_int(value: int) -> int:
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
