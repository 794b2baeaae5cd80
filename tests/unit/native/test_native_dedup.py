"""The table of hashes, and the partitioning of a stream of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from krill import _native
from properties import tried

ROOMY = 1 << 16
word = st.one_of(st.integers(0, 3), st.integers(0, 2**64 - 1))
keys = st.lists(st.tuples(word, word), max_size=60)


def as_hashes(pairs: list[tuple[int, int]]) -> np.ndarray:
    return np.array(pairs, np.uint64).reshape(-1, 2)


@given(batches=st.lists(keys, max_size=5))
@tried(60)
def test_a_table_is_a_set(batches: list[list[tuple[int, int]]]) -> None:
    table = _native.HashSet(ROOMY)
    seen: set[tuple[int, int]] = set()
    for batch in batches:
        expected = []
        for key in batch:
            expected.append(key not in seen)
            seen.add(key)
        assert table.insert(as_hashes(batch)).tolist() == expected
    assert len(table) == len(seen)


@pytest.mark.parametrize("capacity", [32, 47, 48, 160, 1000])
def test_a_table_takes_its_keys_and_not_one_more(capacity: int) -> None:
    table = _native.HashSet(capacity)
    assert capacity - 16 < table.nbytes <= capacity
    full = as_hashes([(key, 7) for key in range(table.max_keys)])
    assert table.insert(full).all()
    assert not table.insert(full).any()
    with pytest.raises(_native.TableFull):
        table.insert(as_hashes([(10**6, 7)]))
    assert len(table) == table.max_keys
    assert not table.insert(full).any()


def test_the_all_zero_hash_is_a_key_like_any_other() -> None:
    table = _native.HashSet(ROOMY)
    assert table.insert(as_hashes([(0, 0), (0, 1), (0, 0), (1, 0)])).tolist() == [1, 1, 0, 1]
    assert len(table) == 3


def test_a_full_table_is_a_memory_error() -> None:
    assert issubclass(_native.TableFull, MemoryError)


def test_a_table_without_room_for_a_key_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 32 bytes"):
        _native.HashSet(31)


def test_threads_that_share_a_table_find_each_key_first_once() -> None:
    hashes = np.random.default_rng(0).integers(0, 2**64, (20_000, 2), dtype=np.uint64)
    table = _native.HashSet(1 << 20)
    with ThreadPoolExecutor(4) as pool:
        firsts = list(pool.map(table.insert, [hashes] * 4))
    assert np.sum(firsts, axis=0).tolist() == [1] * len(hashes)


def test_hashes_of_another_shape_or_type_are_refused() -> None:
    table = _native.HashSet(ROOMY)
    for wrong in (np.zeros((2, 3), np.uint64), np.zeros(4, np.uint64), np.zeros((2, 2), np.int64)):
        with pytest.raises(TypeError):
            table.insert(wrong)


@given(pairs=keys, shift=st.integers(0, 120), width=st.integers(1, 8))
@tried(60)
def test_partitions_hold_the_hashes_of_their_bits_in_order(
    pairs: list[tuple[int, int]], shift: int, width: int
) -> None:
    def partition(pair: tuple[int, int]) -> int:
        low, high = pair
        return ((low << 64 | high) >> shift) % (1 << width)

    hashes, counts = _native.partition_hashes(as_hashes(pairs), shift, width)
    assert [tuple(pair) for pair in hashes.tolist()] == sorted(pairs, key=partition)
    assert counts.tolist() == [sum(partition(pair) == p for pair in pairs) for p in range(1 << width)]

    flags = np.arange(len(pairs), dtype=np.uint8)
    joined = _native.join_flags(as_hashes(pairs), shift, width, flags)
    order = sorted(range(len(pairs)), key=lambda i: partition(pairs[i]))
    assert joined[order].tolist() == flags.tolist()


@pytest.mark.parametrize(("shift", "width"), [(0, 0), (0, 13), (121, 8), (200, 1)])
def test_bits_that_no_hash_has_are_refused(shift: int, width: int) -> None:
    with pytest.raises(ValueError, match="1 to 12 bits"):
        _native.partition_hashes(np.zeros((1, 2), np.uint64), shift, width)
    with pytest.raises(ValueError, match="1 to 12 bits"):
        _native.join_flags(np.zeros((1, 2), np.uint64), shift, width, np.zeros(1, np.uint8))


def test_flags_of_another_number_are_refused() -> None:
    with pytest.raises(ValueError, match="one flag for each hash"):
        _native.join_flags(np.zeros((2, 2), np.uint64), 0, 1, np.zeros(1, np.uint8))
