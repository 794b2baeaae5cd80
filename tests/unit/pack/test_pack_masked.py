"""Tokens and what is learned of them, as one number and apart again."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from krill.pack.masked import MOST_IDS, ids_and_labels, is_learned, masked_tokens


@given(st.lists(st.tuples(st.integers(0, MOST_IDS - 1), st.booleans())))
def test_ids_and_flags_come_back(pairs: list[tuple[int, bool]]) -> None:
    ids = np.array([number for number, _ in pairs], np.uint32)
    learned = np.array([flag for _, flag in pairs], bool)
    tokens = masked_tokens(ids, learned)
    assert is_learned(tokens).tolist() == learned.tolist()
    found, labels = ids_and_labels(tokens, "uint32")
    assert found.tolist() == ids.tolist()
    assert labels.dtype == np.int32
    assert labels.tolist() == [number if flag else -100 for number, flag in pairs]


def test_ids_take_the_datasets_type() -> None:
    ids, labels = ids_and_labels(
        masked_tokens(np.array([7, 9], np.uint16), np.array([True, False])), "uint16"
    )
    assert (ids.dtype, ids.tolist(), labels.tolist()) == (np.uint16, [7, 9], [7, -100])
