"""Features as rows of numbers: question, window and special tokens put together, padded, labelled.

Comes in: a unit, which of its features are wanted, and rows to fill. Goes out: the rows. Held in memory: the
rows. The native core puts them together; `reference.py` does the same one feature at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from krill import _native
from krill.errors import InputError
from krill.qa.layout import Layout
from krill.qa.tables import Unit

Numbers = npt.NDArray[np.int64]
_KINDS: Final = {"fixed": 0, "question": 1, "context": 2}


@dataclass(frozen=True, slots=True)
class FeatureRows:
    """Rows of features. `offset_mapping` has begin and end of each context token."""

    input_ids: npt.NDArray[np.int32]
    attention_mask: npt.NDArray[np.int32]
    token_type_ids: npt.NDArray[np.int32]
    start_positions: npt.NDArray[np.int32]
    end_positions: npt.NDArray[np.int32]
    cls_index: npt.NDArray[np.int32]
    offset_mapping: npt.NDArray[np.int32] | None


class Assembler:
    """Makes rows of `width` tokens in a layout. Any thread may."""

    def __init__(self, layout: Layout, width: int) -> None:
        self._layout = layout
        self._width = width
        cls_piece, cls_place = layout.cls or (-1, 0)
        self._native = _native.FeatureLayout(
            np.array([_KINDS[piece.kind] for piece in layout.pieces], np.int32),
            np.array([piece.type_id for piece in layout.pieces], np.int32),
            np.array([len(piece.ids) for piece in layout.pieces], np.int32),
            np.array([token for piece in layout.pieces for token in piece.ids], np.int32),
            layout.pad_left,
            cls_piece,
            cls_place,
        )

    def padding(self, rows: int, *, offsets: bool = True) -> FeatureRows:
        """So many rows of padding."""
        shape = (rows, self._width)
        return FeatureRows(
            np.full(shape, self._layout.pad_id, np.int32),
            np.zeros(shape, np.int32),
            np.full(shape, self._layout.pad_type, np.int32),
            np.zeros(rows, np.int32),
            np.zeros(rows, np.int32),
            np.zeros(rows, np.int32),
            np.zeros((*shape, 2), np.int32) if offsets else None,
        )

    def fill(self, rows: FeatureRows, places: Numbers, unit: Unit, wanted: Numbers) -> None:
        """Put the features `wanted` of a unit into the rows at `places`, which are padding."""
        features, examples, contexts = unit.features, unit.examples, unit.paragraphs
        tables = _native.FeatureTables(
            features.example,
            features.begin,
            features.length,
            features.first,
            features.last,
            examples.paragraph,
            examples.tokens.starts,
            examples.tokens.values,
            contexts.tokens.starts,
            contexts.tokens.values,
            contexts.spans.values,
        )
        filled = _native.fill_feature_rows(
            self._native,
            tables,
            wanted,
            places,
            rows.input_ids,
            rows.attention_mask,
            rows.token_type_ids,
            rows.start_positions,
            rows.end_positions,
            rows.cls_index,
            rows.offset_mapping,
        )
        if filled < len(wanted):
            raise InputError(
                f"feature {int(wanted[filled])} of a unit contradicts the unit's tables",
                hint="the cache is damaged: remove its folder and prepare it again",
            )
