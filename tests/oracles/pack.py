"""Slow, obvious versions of the packings, one document and one number at a time: the oracles of the tests."""

from __future__ import annotations

from collections.abc import Sequence

Piece = tuple[int, int]
"""Where a piece begins among the tokens of all documents, and its length."""


def reference_best_fit(lengths: Sequence[int], sequence_len: int) -> list[list[Piece]]:
    """The rows of one window: each piece, longest first, where it leaves the least room.

    Of rows with equal room, the one that came to it first is taken.
    """
    pieces = [piece for row in reference_own_rows(lengths, sequence_len) for piece in row]
    rows: list[list[Piece]] = []
    room: list[tuple[int, int, int]] = []  # the room, when the row came to it, the row
    for turn, (start, length) in enumerate(sorted(pieces, key=lambda piece: -piece[1])):
        fitting = [place for place in room if place[0] >= length]
        if fitting:
            place = min(fitting)
            room.remove(place)
            left, _, row = place
        else:
            left, row = sequence_len, len(rows)
            rows.append([])
        rows[row].append((start, length))
        room.append((left - length, turn, row))
    return rows


def reference_own_rows(lengths: Sequence[int], sequence_len: int) -> list[list[Piece]]:
    """Each document in rows of its own, cut every `sequence_len` tokens."""
    rows: list[list[Piece]] = []
    start = 0
    for length in lengths:
        for cut in range(0, length, sequence_len):
            rows.append([(start + cut, min(sequence_len, length - cut))])
        start += length
    return rows


def reference_piece_lengths(document_lengths: list[int], sequence_len: int) -> list[list[int]]:
    """The lengths of documents' pieces in each full row, one token at a time."""
    rows: list[list[int]] = []
    row: list[int] = []
    for length in document_lengths:
        piece = 0
        for _ in range(length):
            piece += 1
            if sum(row) + piece == sequence_len:
                rows.append([*row, piece])
                row, piece = [], 0
        if piece:
            row.append(piece)
    return rows
