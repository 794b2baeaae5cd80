"""Packing: runs of tokens become rows.

In: the token runs of all units, in order, with the length of each document. Out: rows of exactly
`sequence_len` tokens (`wrapped`) or of at most that (`bfd`, `none`) and, for each row, the lengths of the
documents' pieces in it; and an order to write them in that is computed, not stored. Held in memory: one batch
of rows, and for `bfd` up to 28 bytes for each document of a window.
"""

from krill.pack.fitted import FittedRows, Fitting, Windows, fitting_of
from krill.pack.permutation import Permutation
from krill.pack.rows import PackedRows
from krill.pack.stored import StoredRows, stored_row_files
from krill.pack.stream import TokenRuns, TokenStream
from krill.pack.wrapped import WrappedRows, piece_lengths

__all__ = [
    "FittedRows",
    "Fitting",
    "PackedRows",
    "Permutation",
    "StoredRows",
    "TokenRuns",
    "TokenStream",
    "Windows",
    "WrappedRows",
    "fitting_of",
    "piece_lengths",
    "stored_row_files",
]
