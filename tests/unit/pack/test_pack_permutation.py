"""The computed order: each number once, the same for the same key, and without a pattern."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from krill.pack import Permutation
from properties import tried


@tried(40)
@given(count=st.integers(1, 3000), key=st.lists(st.integers(0, 2**64), max_size=3), step=st.integers(1, 500))
def test_every_number_comes_once_however_the_order_is_asked_for(
    count: int, key: list[int], step: int
) -> None:
    permutation = Permutation(count, *key)
    numbers = np.arange(count, dtype=np.int64)
    order = permutation(numbers)
    assert sorted(order.tolist()) == list(range(count))
    step = max(step, count // 40)  # each is a walk through all rounds, however few it asks for
    steps = [permutation(numbers[start : start + step]) for start in range(0, count, step)]
    assert np.concatenate(steps).tolist() == order.tolist()


def test_the_order_is_the_same_for_ever() -> None:
    assert Permutation(10, 42)(np.arange(10, dtype=np.int64)).tolist() == [3, 8, 4, 9, 1, 2, 6, 7, 5, 0]
    assert Permutation(2**40, 42, 1)(np.arange(3, dtype=np.int64)).tolist() == [
        606251697122,
        1031437532940,
        342477944331,
    ]


def test_keys_and_counts_give_other_orders() -> None:
    numbers = np.arange(1000, dtype=np.int64)
    orders = [Permutation(1000, 1), Permutation(1000, 2), Permutation(1000, 1, 0), Permutation(1001, 1)]
    assert len({tuple(order(numbers).tolist()) for order in orders}) == 4


def test_neighbours_are_torn_apart() -> None:
    count = 100_000
    order = Permutation(count, 7)(np.arange(count, dtype=np.int64))
    # The mean distance of two random places is a third of the count.
    assert abs(np.abs(np.diff(order)).mean() - count / 3) < count / 100
    # Places are as likely in each tenth, wherever they came from: 1,000 a cell, with a deviation of 30.
    cells = np.histogram2d(np.arange(count), order, bins=10)[0]
    assert abs(cells - count / 100).max() < 200
