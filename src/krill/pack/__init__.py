"""Packing: runs of tokens become rows of a fixed width.

In: the token runs of all units, in order, with the length of each document. Out: rows of exactly
`sequence_len` tokens and, for each row, the lengths of the documents' pieces in it. Held in memory: one batch
of rows.
"""

from krill.pack.stream import TokenRuns, TokenStream
from krill.pack.wrapped import piece_lengths

__all__ = ["TokenRuns", "TokenStream", "piece_lengths"]
