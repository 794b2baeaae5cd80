"""Which bands and rows a threshold takes."""

from __future__ import annotations

import pytest

from krill.dedup import MinHash, bands_and_rows
from krill.dedup.minhash import threshold_of


def test_the_default_is_14_bands_of_8_with_its_threshold_at_0_72() -> None:
    assert MinHash() == MinHash(bands=14, rows=8, ngram=5)
    assert threshold_of(14, 8) == pytest.approx(0.72, abs=0.002)


@pytest.mark.parametrize(
    ("threshold", "expected"),
    [(0.3, (37, 3)), (0.5, (22, 5)), (0.72, (14, 8)), (0.8, (10, 11)), (0.9, (6, 17)), (1.0, (1, 112))],
)
def test_a_threshold_chooses_the_pair_whose_own_is_nearest(
    threshold: float, expected: tuple[int, int]
) -> None:
    assert bands_and_rows(threshold) == expected


def test_permutations_are_never_exceeded_and_the_threshold_is_near() -> None:
    for threshold in (0.4, 0.6, 0.75, 0.85, 0.95):
        for permutations in (64, 112, 1024):
            bands, rows = bands_and_rows(threshold, permutations)
            assert bands * rows <= permutations
            assert threshold_of(bands, rows) == pytest.approx(threshold, abs=0.04)


@pytest.mark.parametrize("threshold", [0.0, -1.0, 1.1])
def test_impossible_thresholds_are_refused(threshold: float) -> None:
    with pytest.raises(ValueError, match="above 0 and at most 1"):
        bands_and_rows(threshold)
