"""Renderings to ids, and which of them are trained.

In: renderings, with spans in bytes. Out: all ids one after the other, a flag for each, and the length of each
conversation. Held in memory: the texts and ids of one call.

Each rendering is encoded once, as a whole; nothing is added to it. A token is trained if it shares a byte
with a trained span, but for the first of a conversation, which nothing predicts. Control tokens in a row's
own text are not found there, so they are encoded as the text they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from krill.chat.control import ControlTokens
from krill.chat.render import RenderedChat
from krill.corpus.buffers import offsets_of
from krill.tokenizer.native import NativeEncoder


class EncodedChats(NamedTuple):
    """Of each conversation its ids; `lengths` says how many. `trained` is 0 or 1 for each id."""

    ids: NDArray[Any]
    lengths: NDArray[np.uint32]
    trained: NDArray[np.uint8]
    imitated: NDArray[np.uint8]
    """1 where a conversation's own text gave a control token all the same (`control_in_text`)."""


def encode_chat(
    encoder: NativeEncoder, rendered: Sequence[RenderedChat], control: ControlTokens
) -> EncodedChats:
    """The conversations, encoded in one call."""
    offsets = offsets_of([len(chat.text) for chat in rendered]).astype(np.int64, copy=False)
    trained = _moved([chat.trained for chat in rendered], offsets, 2)
    guards = _moved([chat.content for chat in rendered], offsets, 3)
    found = encoder.encode_spans(
        offsets,
        b"".join(chat.text for chat in rendered),
        trained,
        guards,
        control.id_levels(encoder.vocab_size),
    )
    return EncodedChats(*found)


def _moved(
    spans: Sequence[Sequence[tuple[int, ...]]], offsets: NDArray[np.int64], width: int
) -> NDArray[np.int64]:
    """The spans of all texts, in bytes of all texts together: begins, ends, and perhaps levels."""
    counts = [len(each) for each in spans]
    flat = np.array([span for each in spans for span in each], np.int64).reshape(-1, width)
    flat[:, :2] += np.repeat(offsets[:-1], counts)[:, None]
    return np.ascontiguousarray(flat.T)
