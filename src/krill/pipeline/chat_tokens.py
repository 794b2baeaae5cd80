"""The tokens of conversations, each with whether it is learned, fitted to a row.

In: a block of rendered conversations with their spans, an encoder. Out: masked tokens (`krill.pack.masked`),
how many each conversation has, and why some are dropped. Held in memory: the block's ids and a flag for each.

Nothing is predicted from another conversation, so the first token of one is never learned. A conversation
longer than a row is dropped, cut at the row's end, or after the last learned turn that ends in the row; one
in which nothing is learned then is dropped too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from krill.text.step import CONTENT_SPANS, TRAINED_SPANS

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from krill.chat import SpecialInContent
    from krill.config import KrillConfig
    from krill.tokenizer import Encoder

KEPT: Final = 0
LONGER: Final = 1
UNTRAINED: Final = 2
CUT_SHORT: Final = "cut_to_row"
"""Counts conversations that were cut to fit a row."""


@dataclass(frozen=True, slots=True)
class EncodedChats:
    """The tokens of a block; `codes` say of each conversation whether it is kept, or why not."""

    tokens: NDArray[np.uint32]
    lengths: NDArray[np.uint32]
    codes: NDArray[np.uint8]
    cut: int
    """Conversations that were cut to fit a row, and kept."""


@dataclass(frozen=True, slots=True)
class ChatTokens:
    """Encodes conversations for rows of `row` tokens."""

    row: int
    overflow: str
    special: SpecialInContent

    @classmethod
    def of(cls, config: KrillConfig) -> ChatTokens | None:
        """What a config of conversations asks for; None for others."""
        settings = config.preprocess
        if not config.is_chat:
            return None
        return cls(settings.sequence_len, settings.overflow, settings.special_in_content)

    def encode(self, encoder: Encoder, batch: pa.RecordBatch) -> EncodedChats:
        import numpy as np

        from krill.corpus.buffers import offsets_of
        from krill.pack.masked import masked_tokens

        ids, learned, lengths = self._ids(encoder, batch)
        offsets = offsets_of(lengths)
        learned[offsets[:-1][lengths > 0]] = False
        ends = self._ends(learned, offsets)
        kept = (ends - offsets[:-1]).astype(np.uint32)
        before = offsets_of(learned)
        codes = np.where(before[ends] == before[offsets[:-1]], UNTRAINED, KEPT).astype(np.uint8)
        if self.overflow == "drop":
            codes[lengths > self.row] = LONGER
        cut = kept < lengths
        tokens = masked_tokens(ids, learned)
        if cut.any():
            inside = np.arange(len(tokens)) < np.repeat(ends, lengths)
            tokens = tokens[inside]
        return EncodedChats(tokens, kept, codes, int((cut & (codes == KEPT)).sum()))

    def _ends(self, learned: NDArray[np.bool_], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where each conversation ends among all tokens, once it is cut."""
        import numpy as np

        ends = offsets[1:].copy()
        too_long = np.flatnonzero(np.diff(offsets) > self.row)
        if self.overflow == "drop" or not len(too_long):
            return ends
        ends[too_long] = offsets[:-1][too_long] + self.row
        if self.overflow == "turn":
            for each in too_long.tolist():
                start = int(offsets[each])
                # One token more, which says whether a turn ends with the row.
                inside = learned[start : start + self.row + 1]
                turn_ends = np.flatnonzero(inside[:-1] & ~inside[1:])
                ends[each] = start + (int(turn_ends[-1]) + 1 if len(turn_ends) else 0)
        return ends

    def _ids(
        self, encoder: Encoder, batch: pa.RecordBatch
    ) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.uint32]]:
        from krill.chat import encode_chat

        raise NotImplementedError((encode_chat, CONTENT_SPANS, TRAINED_SPANS))
