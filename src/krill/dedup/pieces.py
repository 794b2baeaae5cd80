"""Lines and paragraphs: documents in pieces, each of which may be a copy of an earlier one.

In: a column of documents. Out: the hashes of their pieces, which `resolve_exact` and `resolve_bloom` take as
they take those of documents; then, with a flag for each piece, the documents without what is not kept. Held
in memory: 16 bytes for each piece, and the new column.

A line ends with its newline. A paragraph is a run of lines that are not blank, with the blank ones after it.
A piece is known by its text without the whitespace at either end. What is only whitespace is no piece: it is
neither counted nor dropped. The references are `reference_pieces` and `reference_keep_pieces`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from krill.corpus.buffers import text_buffers, text_column

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

Level = Literal["line", "paragraph"]


def piece_hashes(text: pa.Array, level: Level) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """The hashes of all pieces, shape (n, 2), and how many pieces each document has."""
    from krill import _native

    return _native.piece_hashes(*text_buffers(text), level)


def keep_pieces(text: pa.Array, flags: NDArray[np.uint8], level: Level) -> pa.Array:
    """The documents without the pieces whose flag is 0; none is lost, though some may be left with
    nothing."""
    from krill import _native

    return text_column(*_native.keep_pieces(*text_buffers(text), level, flags))
