"""Bloom dedup finds every copy, and mistakes as many documents as was stated, not more."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from krill import _native
from krill.dedup import bloom_bytes, dedup_bloom
from krill.dedup.bloom import false_positives, filter_blocks, filter_shape


def hashes(seed: int, count: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64, (count, 2), dtype=np.uint64)


def resolve(
    folder: Path, units: list[np.ndarray], *, prior: np.ndarray | None = None, **options
) -> list[np.ndarray]:
    """Keep bits of each unit."""
    files = [folder / f"{number}.hash" for number in range(len(units))]
    keep = [folder / f"{number}.keep" for number in range(len(units))]
    for file, unit in zip(files, units, strict=True):
        unit.tofile(file)
    before = []
    if prior is not None:
        before = [folder / "prior.hash"]
        prior.tofile(before[0])
    dropped = dedup_bloom(files, keep, prior=before, **options)
    flags = [
        np.unpackbits(np.fromfile(name, np.uint8), count=len(unit), bitorder="little")
        for name, unit in zip(keep, units, strict=True)
    ]
    assert dropped == sum(int((unit == 0).sum()) for unit in flags)
    return flags


@pytest.mark.parametrize("rate", [0.2, 0.01, 0.001])
def test_the_stated_rate_holds_when_the_filter_is_full(tmp_path: Path, rate: float) -> None:
    expected = 200_000
    flags = resolve(tmp_path, [hashes(0, expected)], expected_documents=expected, false_positive_rate=rate)
    # The last twentieth meets a filter that is nearly full: about the rate, three standard deviations spared.
    last = flags[0][-expected // 20 :]
    mistaken = float((last == 0).mean())
    assert mistaken < rate + 3 * (rate / len(last)) ** 0.5
    assert float((flags[0] == 0).mean()) < rate / 2


def test_a_full_filter_mistakes_nearly_as_many_as_it_may() -> None:
    # A filter for 60,000 hashes at one in a hundred, asked about many new ones, a few at a time.
    bits, load = filter_shape(0.01)
    mistaken = 0
    for seed in range(20):
        table = _native.BloomFilter(filter_blocks(60_000, load), bits)
        table.insert(hashes(seed, 60_000))
        mistaken += int((table.insert(hashes(1000 + seed, 500)) == 0).sum())
    assert 0.007 < mistaken / 10_000 < 0.013


def test_every_copy_is_dropped_and_the_first_is_kept(tmp_path: Path) -> None:
    first = hashes(1, 5000)
    flags = resolve(
        tmp_path, [first, first[::-1], hashes(2, 0)], expected_documents=10_000, false_positive_rate=1e-9
    )
    assert flags[0].all() and not flags[1].any() and len(flags[2]) == 0


def test_documents_seen_before_are_dropped_and_have_no_bits(tmp_path: Path) -> None:
    known = hashes(3, 1003)
    fresh = hashes(4, 50)
    flags = resolve(
        tmp_path,
        [np.concatenate((known[:7], fresh))],
        prior=known,
        expected_documents=2000,
        false_positive_rate=1e-9,
    )
    assert flags[0].tolist() == [0] * 7 + [1] * 50


def test_more_documents_than_expected_only_raise_the_rate(tmp_path: Path) -> None:
    flags = resolve(tmp_path, [hashes(5, 20_000)], expected_documents=100, false_positive_rate=0.001)
    assert 0 < flags[0].sum() < 20_000


@pytest.mark.parametrize(("rate", "bits_per_document"), [(0.01, 10.0), (0.001, 15.7), (1e-6, 39.6)])
def test_a_filter_takes_so_many_bits_for_a_document(rate: float, bits_per_document: float) -> None:
    assert bloom_bytes(10**9, rate) * 8 / 10**9 == pytest.approx(bits_per_document, abs=0.06)


def test_the_plan_holds_the_filter_that_is_made() -> None:
    bits, load = filter_shape(0.001)
    table = _native.BloomFilter(filter_blocks(10**6, load), bits)
    assert table.nbytes < bloom_bytes(10**6, 0.001) < table.nbytes + 400_000


def test_a_filter_in_one_block_is_what_the_formula_says() -> None:
    # One hash held, two bits: a new one is mistaken if both its places are among the set ones.
    assert false_positives(1e-9, 1) == pytest.approx(1e-9 / 512, rel=1e-3)


@pytest.mark.parametrize(("blocks", "bits"), [(0, 3), (5, 0), (5, 65), (2**60, 1)])
def test_impossible_filters_are_refused(blocks: int, bits: int) -> None:
    with pytest.raises((ValueError, MemoryError)):
        _native.BloomFilter(blocks, bits)


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.5])
def test_impossible_rates_are_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="above 0 and below 1"):
        bloom_bytes(10, rate)
