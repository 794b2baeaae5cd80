"""Features as rows of numbers: question, window and special tokens put together, padded, labelled.

Comes in: a unit, which of its features are wanted, and arrays to fill. Goes out: the arrays. Held in memory:
a few numbers for each token of the rows while they are filled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from krill.qa.answers import NOWHERE
from krill.qa.layout import Layout
from krill.qa.tables import Unit

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FeatureRows:
    """Rows of features, all padding to begin with. `offsets` has begin and end of each context token."""

    input_ids: npt.NDArray[np.int32]
    attention_mask: npt.NDArray[np.int32]
    token_type_ids: npt.NDArray[np.int32]
    start_positions: npt.NDArray[np.int32]
    end_positions: npt.NDArray[np.int32]
    cls_index: npt.NDArray[np.int32]
    offset_mapping: npt.NDArray[np.int32] | None

    @classmethod
    def empty(cls, rows: int, width: int, layout: Layout, *, offsets: bool) -> FeatureRows:
        """So many rows of padding."""
        return cls(
            np.full((rows, width), layout.pad_id, np.int32),
            np.zeros((rows, width), np.int32),
            np.full((rows, width), layout.pad_type, np.int32),
            np.zeros(rows, np.int32),
            np.zeros(rows, np.int32),
            np.zeros(rows, np.int32),
            np.zeros((rows, width, 2), np.int32) if offsets else None,
        )


def fill_rows(rows: FeatureRows, places: Numbers, unit: Unit, wanted: Numbers, layout: Layout) -> None:
    """Put the features `wanted` of a unit into the rows at `places`."""
    features, examples, contexts = unit.features, unit.examples, unit.paragraphs
    example = features.example[wanted].astype(np.int64)
    paragraph = examples.paragraph[example]
    question_begin = examples.tokens.starts[example]
    question_length = examples.tokens.starts[example + 1] - question_begin
    window_begin = contexts.tokens.starts[paragraph] + features.begin[wanted]
    window_length = features.length[wanted].astype(np.int64)
    width = rows.input_ids.shape[1]
    used = layout.fixed + question_length + window_length
    at = width - used if layout.pad_left else np.zeros(len(wanted), np.int64)
    _fill_between(rows.attention_mask, places, at, at + used, 1)
    context_at = cls_at = np.zeros(len(wanted), np.int64)
    for number, piece in enumerate(layout.pieces):
        if piece.kind == "fixed":
            rows.input_ids[places[:, None], at[:, None] + np.arange(len(piece.ids))] = piece.ids
            length = np.full(len(wanted), len(piece.ids))
            if layout.cls is not None and layout.cls[0] == number:
                cls_at = at + layout.cls[1]
        elif piece.kind == "question":
            length = question_length
            _copy(rows.input_ids, places * width + at, examples.tokens.values, question_begin, length)
        else:
            length, context_at = window_length, at
            _copy(rows.input_ids, places * width + at, contexts.tokens.values, window_begin, length)
            if rows.offset_mapping is not None:
                spans = contexts.spans.values
                _copy(rows.offset_mapping, 2 * (places * width + at), spans, 2 * window_begin, 2 * length)
        if piece.type_id != layout.pad_type:
            _fill_between(rows.token_type_ids, places, at, at + length, piece.type_id)
        at = at + length
    for target, column in ((rows.start_positions, features.first), (rows.end_positions, features.last)):
        token = column[wanted]
        target[places] = np.where(token == NOWHERE, cls_at, context_at + token)
    rows.cls_index[places] = cls_at


def _copy(
    out: npt.NDArray[np.int32], to: Numbers, values: npt.NDArray[Any], begin: Numbers, length: Numbers
) -> None:
    """`length[i]` values from `begin[i]` on to `to[i]` of the flattened array."""
    within = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
    out.reshape(-1)[np.repeat(to, length) + within] = values[np.repeat(begin, length) + within]


def _fill_between(
    out: npt.NDArray[np.int32], places: Numbers, begin: Numbers, end: Numbers, value: int
) -> None:
    """One value from column `begin[i]` to `end[i]` of row `places[i]`."""
    length = end - begin
    within = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
    out.reshape(-1)[np.repeat(places * out.shape[1] + begin, length) + within] = value
