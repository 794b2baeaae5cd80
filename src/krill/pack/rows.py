"""What every packing gives: so many rows, and any range of them without those before it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rows = tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]
    """Tokens and where rows begin among them, the lengths of documents' pieces and where rows begin there."""


class PackedRows(Protocol):
    """The rows of one stream of documents."""

    @property
    def rows(self) -> int: ...

    @property
    def tokens(self) -> int:
        """Tokens in all rows."""
        ...

    def read(self, first: int, count: int, most: int) -> Iterator[Rows]:
        """Rows `first` to `first + count`, at most `most` at a time."""
        ...
