"""The order is computed: each row once, the same from any place, as the reference says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from krill.loading.order import SHUFFLE_WINDOW, InOrder, Shuffled
from oracles.loading import reference_order
from shuffle_quality import neighbour_distances

SIZES = st.integers(1, 300)


@settings(max_examples=50)
@given(st.integers(0, 200), SIZES, SIZES, st.integers(0, 2**64 - 1), st.integers(0, 5))
def test_the_kernel_gives_what_the_reference_gives(rows, block_rows, window, seed, epoch):
    found = Shuffled(rows, block_rows, window).rows((seed, epoch), 0, rows).tolist()
    assert found == reference_order(rows, block_rows, window, (seed, epoch))


@pytest.mark.parametrize("rows", range(40))
def test_every_row_comes_once_whatever_the_blocks_and_windows(rows):
    for block_rows in range(1, rows + 2):
        for window in range(1, rows + 2):
            order = Shuffled(rows, block_rows, window).rows((7, 1), 0, rows)
            assert sorted(order.tolist()) == list(range(rows))


@given(st.data())
def test_any_stretch_is_the_same_as_in_the_whole(data):
    rows = data.draw(st.integers(1, 500))
    order = Shuffled(rows, data.draw(SIZES), data.draw(SIZES))
    start = data.draw(st.integers(0, rows))
    stop = data.draw(st.integers(start, rows))
    whole = order.rows((3, 4), 0, rows)
    assert order.rows((3, 4), start, stop).tolist() == whole[start:stop].tolist()


def test_seeds_and_epochs_give_other_orders():
    order = Shuffled(1000, 10, 100)
    orders = [order.rows(key, 0, 1000).tolist() for key in ((0, 0), (0, 1), (1, 0), (-1, 0))]
    assert all(a != b for number, a in enumerate(orders) for b in orders[:number])


def test_a_stretch_far_into_a_huge_dataset_is_there_at_once():
    order = Shuffled(2**40 + 3, 256, SHUFFLE_WINDOW)
    rows = order.rows((0, 0), 2**39, 2**39 + 1000)
    assert len(set(rows.tolist())) == 1000
    assert rows.min() >= 0
    assert rows.max() < 2**40 + 3


def test_a_window_reads_from_no_more_blocks_than_it_needs():
    order = Shuffled(100_000, 100, 1000)
    blocks = [len(set((order.rows((0, 0), at, at + 1000) // 100).tolist())) for at in range(0, 100_000, 1000)]
    assert max(blocks) <= 11


@pytest.mark.parametrize("start, stop", [(0, 11), (5, 4), (11, 11)])
def test_places_beyond_the_last_row_are_refused(start, stop):
    with pytest.raises(ValueError, match="not so many rows"):
        Shuffled(10, 4, 4).rows((0,), start, stop)


def test_in_order_is_in_order():
    assert InOrder(10).rows((0, 0), 3, 6).tolist() == [3, 4, 5]


def test_neighbours_end_up_as_far_apart_as_the_window_allows():
    """In a full shuffle two rows are a third of all apart on average; here it is a third of the window,
    wherever neighbours share a block."""
    rows = 200_000
    full = neighbour_distances(np.random.default_rng(0).permutation(rows))
    assert full.mean == pytest.approx(1 / 3, abs=0.01)
    ours = neighbour_distances(Shuffled(rows, 256, SHUFFLE_WINDOW).rows((0, 0), 0, rows))
    assert SHUFFLE_WINDOW / 3 < ours.mean * rows < SHUFFLE_WINDOW / 2
    assert ours.within_a_batch < 2 * 32 / SHUFFLE_WINDOW
