"""Conversations that are longer than a row are cut as asked, and none is kept in which nothing is learned."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from krill.chat.control import ControlTokens
from krill.pack.masked import ids_and_labels
from krill.pipeline.chat_tokens import IMITATED, KEPT, LONGER, UNTRAINED, ChatTokens

Chat = list[bool]


def cut(learned: Chat, row: int, overflow: str) -> Chat:
    """What is left of a conversation, given by what of it is learned."""
    if len(learned) <= row or overflow == "drop":
        return learned
    if overflow == "truncate":
        return learned[:row]
    ends = [at + 1 for at in range(row) if learned[at] and not learned[at + 1]]
    return learned[: ends[-1]] if ends else []


chats = st.lists(
    st.tuples(st.lists(st.booleans(), max_size=12).map(lambda mask: [False, *mask]), st.booleans())
)


@given(chats, st.integers(1, 8), st.sampled_from(["drop", "truncate", "turn"]))
def test_each_is_cut_or_dropped_as_the_reference_says(
    given_chats: list[tuple[Chat, bool]], row: int, overflow: str
) -> None:
    masks = [mask for mask, _ in given_chats]
    trained = np.array([flag for mask in masks for flag in mask], np.uint8)
    lengths = np.array([len(mask) for mask in masks], np.uint32)
    imitated = np.array([flag for _, flag in given_chats], np.uint8)
    ids = np.arange(len(trained), dtype=np.uint16)
    tokens = ChatTokens(row, overflow, ControlTokens({}, {}, ()), "a template")
    found = tokens.fitted(ids, lengths, trained, imitated, np.zeros(len(masks), bool))
    left = [cut(mask, row, overflow) for mask in masks]
    assert found.lengths.tolist() == [len(mask) for mask in left]
    starts = np.cumsum(lengths) - lengths
    numbers = [
        start + at for start, mask in zip(starts.tolist(), left, strict=True) for at in range(len(mask))
    ]
    kept_ids, labels = ids_and_labels(found.tokens, "uint16")
    assert kept_ids.tolist() == numbers
    assert (labels != -100).tolist() == [flag for mask in left for flag in mask]
    expected = []
    for mask, (whole, imitates) in zip(left, given_chats, strict=True):
        code = KEPT if any(mask) else UNTRAINED
        if overflow == "drop" and len(whole) > row:
            code = LONGER
        expected.append(IMITATED if imitates else code)
    assert found.codes.tolist() == expected
    kept_short = [
        len(mask) < len(whole) and code == KEPT
        for mask, (whole, _), code in zip(left, given_chats, expected, strict=True)
    ]
    assert found.counts == {"cut_to_row": sum(kept_short), "control_as_text": 0}
