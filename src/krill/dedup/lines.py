"""Lines and paragraphs, each of which may be a copy of an earlier one.

In: a column of documents. Out: the hashes of their lines or paragraphs, which `dedup_exact` and `dedup_bloom`
take as they take those of documents; then, with a flag for each, the documents without what is not kept. Held
in memory: 16 bytes for each line or paragraph, and the new column.

A line ends with its newline. A paragraph is a sequence of lines that are not blank, with the blank ones after
it. Either is compared without the whitespace at its ends. Blank lines are neither counted nor dropped. The
references are `reference_pieces` and `reference_keep_pieces`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from krill.corpus.buffers import text_buffers, text_column

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

Level = Literal["line", "paragraph"]


def line_hashes(text: pa.Array, level: Level) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """The hashes of all lines or paragraphs, shape (n, 2), and how many each document has."""
    from krill import _native

    return _native.piece_hashes(*text_buffers(text), level)


def keep_lines(text: pa.Array, flags: NDArray[np.uint8], level: Level) -> pa.Array:
    """The documents without the lines or paragraphs whose flag is 0. No document is dropped, though some may
    become empty."""
    from krill import _native

    return text_column(*_native.keep_pieces(*text_buffers(text), level, flags))
