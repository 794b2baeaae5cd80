"""The tokens of conversations, each with whether it is learned, fitted to a row.

In: a block of rendered conversations with their spans, an encoder. Out: masked tokens (`krill.pack.masked`),
how many each conversation has, and why some are dropped. Held in memory: the block's ids and a flag for each.

Nothing is predicted from another conversation, so the first token of one is never learned. A conversation
longer than a row is dropped, cut at the row's end, or after the last learned turn that ends in the row; one
in which nothing is learned then is dropped too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from krill.text.step import CONTROL_SPANS, TRAINED_SPANS

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from krill.chat import ChatRenderer
    from krill.chat.control import ControlTokens
    from krill.config import KrillConfig
    from krill.text import Step
    from krill.tokenizer import Encoder

KEPT: Final = 0
LONGER: Final = 1
UNTRAINED: Final = 2
IMITATED: Final = 3
CUT_SHORT: Final = "cut_to_row"
"""Counts conversations that were cut to fit a row."""
AS_TEXT: Final = "control_as_text"
"""Counts conversations whose control tokens were encoded as text."""


@runtime_checkable
class Renders(Protocol):
    """The step that makes text of conversations."""

    @property
    def renderer(self) -> ChatRenderer: ...


@dataclass(frozen=True, slots=True)
class FittedChats:
    """The tokens of a block; `codes` say of each conversation whether it is kept, or why not."""

    tokens: NDArray[np.uint32]
    lengths: NDArray[np.uint32]
    codes: NDArray[np.uint8]
    counts: dict[str, int]
    """Conversations that were changed, and kept."""


@dataclass(frozen=True, slots=True)
class ChatTokens:
    """Encodes conversations for rows of `row` tokens."""

    row: int
    overflow: str
    control: ControlTokens
    template: str
    """What it is called in messages."""

    @classmethod
    def of(cls, config: KrillConfig, steps: Sequence[Step]) -> ChatTokens | None:
        """What a config of conversations asks for, rendered by one of `steps`; None for others."""
        renderers = [step.renderer for step in steps if isinstance(step, Renders)]
        if not renderers:
            return None
        settings, renderer = config.preprocess, renderers[0]
        return cls(settings.sequence_len, settings.overflow, renderer.control, renderer.origin)

    def encode(self, encoder: Encoder, batch: pa.RecordBatch) -> FittedChats:
        return self.fitted(*self._encoded(encoder, batch))

    def fitted(
        self,
        ids: NDArray[Any],
        lengths: NDArray[np.uint32],
        trained: NDArray[np.uint8],
        imitated: NDArray[np.uint8],
        guarded: NDArray[np.bool_],
    ) -> FittedChats:
        """Encoded conversations, cut to a row or dropped."""
        import numpy as np

        from krill.corpus.buffers import offsets_of
        from krill.pack.masked import masked_tokens

        learned = trained.view(np.bool_)
        offsets = offsets_of(lengths)
        ends = self._ends(learned, offsets)
        kept = (ends - offsets[:-1]).astype(np.uint32)
        before = np.zeros(len(ids) + 1, np.uint32)
        np.cumsum(trained, out=before[1:])
        codes = np.where(before[ends] == before[offsets[:-1]], UNTRAINED, KEPT).astype(np.uint8)
        if self.overflow == "drop":
            codes[lengths > self.row] = LONGER
        codes[imitated != 0] = IMITATED
        cut = kept < lengths
        tokens = masked_tokens(ids, learned)
        if cut.any():
            inside = np.arange(len(tokens)) < np.repeat(ends, lengths)
            tokens = tokens[inside]
        counts = {CUT_SHORT: cut, AS_TEXT: guarded}
        numbers = {name: int((flags & (codes == KEPT)).sum()) for name, flags in counts.items()}
        return FittedChats(tokens, kept, codes, numbers)

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

    def _encoded(
        self, encoder: Encoder, batch: pa.RecordBatch
    ) -> tuple[NDArray[Any], NDArray[np.uint32], NDArray[np.uint8], NDArray[np.uint8], NDArray[np.bool_]]:
        """Ids, lengths, whether each id is learned, whether a conversation gave a control token of its own
        all the same, and whether control tokens of its own were kept text."""
        import numpy as np
        import orjson

        from krill.chat import RenderedChat, encode_chat
        from krill.corpus.buffers import text_buffers
        from krill.tokenizer.native import NativeEncoder

        assert isinstance(encoder, NativeEncoder), "the template was opened for a native tokenizer"
        columns = []
        for name in ("text", TRAINED_SPANS, CONTROL_SPANS):
            offsets, data = text_buffers(batch.column(name))
            whole = memoryview(data.data)
            columns.append([whole[start:end] for start, end in pairwise(offsets.tolist())])
        chats = [
            RenderedChat(bytes(text), orjson.loads(trained), orjson.loads(guards))
            for text, trained, guards in zip(*columns, strict=True)
        ]
        guarded = np.fromiter((bool(chat.content) for chat in chats), np.bool_, len(chats))
        return *encode_chat(encoder, chats, self.control), guarded
