"""Arrays of different lengths that lie one after the other.

Comes in: flat values and where each array begins. Goes out: a sequence of arrays, each made when it is looked
at: most readers of a batch look at few of them, and making all took as long as reading the rows. Held in
memory: the values, shared.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex, overload

import numpy.typing as npt


class ArrayList(Sequence[npt.NDArray[Any]]):
    """`arrays[i]` is `values[offsets[i]:offsets[i + 1]]`; a slice is a list."""

    __slots__ = ("_offsets", "_values")

    def __init__(self, values: npt.NDArray[Any], offsets: npt.NDArray[Any]) -> None:
        self._values = values
        self._offsets = offsets

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @overload
    def __getitem__(self, key: SupportsIndex) -> npt.NDArray[Any]: ...
    @overload
    def __getitem__(self, key: slice) -> list[npt.NDArray[Any]]: ...
    def __getitem__(self, key: SupportsIndex | slice) -> Any:
        if isinstance(key, slice):
            return [self[place] for place in range(*key.indices(len(self)))]
        place = operator.index(key)
        if not -len(self) <= place < len(self):
            raise IndexError(f"there are {len(self)} arrays, and none at {place}")
        place %= len(self)
        return self._values[self._offsets[place] : self._offsets[place + 1]]

    def __repr__(self) -> str:
        return repr(list(self))
