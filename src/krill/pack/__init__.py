"""Packing: token files become rows.

In: the token files of all units, in order, with the length of each document. Out: rows of exactly
`sequence_len` tokens (`wrapped`) or of at most that (`bfd`, `none`) and, for each row, the lengths of the
documents' pieces in it; and an order to write them in that is computed, not stored. Held in memory: one batch
of rows, and for `bfd` up to 28 bytes for each document of a window.
"""

from krill.lazy import lazy_names
from krill.pack.fitted import FittedRows, Fitting, PackingWindows, fitting_of
from krill.pack.permutation import Permutation
from krill.pack.rows import PackedRows, WrappedRows, piece_lengths
from krill.pack.stored import StoredRows, stored_row_files
from krill.pack.token_files import TokenFiles, TokenStream

__all__ = [
    "FittedRows",
    "Fitting",
    "PackedRows",
    "PackingWindows",
    "Permutation",
    "StoredRows",
    "TokenFiles",
    "TokenStream",
    "WrappedRows",
    "fitting_of",
    "piece_lengths",
    "stored_row_files",
]

__getattr__ = lazy_names(__name__)[0]  # former names
