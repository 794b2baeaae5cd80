"""The slow, obvious way from rows back to documents, which export is held to."""

from __future__ import annotations

from krill.dataset.export.documents import Joining


def reference_documents(rows: list[list[list[int]]], joining: Joining) -> list[list[int]]:
    """The documents of rows of pieces, one piece at a time."""
    found: list[list[int]] = []
    goes_on = False
    for number, row in enumerate(rows):
        for place, piece in enumerate(row):
            if place == 0 and goes_on and number not in joining.first_rows:
                found[-1] = found[-1] + piece
            else:
                found.append(piece)
        full = sum(map(len, row)) == joining.sequence_len
        goes_on = joining.eos_id is not None and full and row[-1][-1] != joining.eos_id
    return found
