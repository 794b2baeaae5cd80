"""Candidates are verified by what they truly share, and nothing else is read again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from krill.dedup import CLUSTER_RECORD, MinHash, MinhashResult, Verify, dedup_minhash, verify_share
from krill.dedup.tables import GROUP_TABLES, TableLayout

MIN_SHARE = GROUP_TABLES.min_share


class Units:
    """Texts in units, bands made by hand, and a note of which units were read."""

    def __init__(self, folder: Path, units: list[list[str]], bands: list[list[list[int]]]) -> None:
        self.folder = folder
        self.units = units
        self.read: list[int] = []
        self.files = [folder / f"{number}.bands" for number in range(len(units))]
        for file, rows in zip(self.files, bands, strict=True):
            np.array(rows, np.uint64).tofile(file)
        self.width = next(len(row) for rows in bands for row in rows)

    def read_unit(self, unit: int) -> Iterator[pa.Array]:
        self.read.append(unit)
        for begin in range(0, len(self.units[unit]), 2):
            yield pa.array(self.units[unit][begin : begin + 2], pa.large_string())

    def resolve(
        self,
        threshold: float,
        layout: TableLayout | None = None,
        prior: list[Path] | None = None,
        ngram: int = 1,
    ) -> tuple[list[list[int]], MinhashResult]:
        """Keep bits of each unit, and the summary."""
        names = [self.folder / f"{number}.keep" for number in range(len(self.units))]
        found = dedup_minhash(
            self.files,
            names,
            bands=self.width,
            share=layout or MIN_SHARE,
            spill=self.folder / "spill",
            threads=2,
            prior=prior or [],
            verify=Verify(threshold, self.read_unit, ngram),
        )
        keep = [
            np.unpackbits(np.fromfile(name, np.uint8), count=len(unit), bitorder="little").tolist()
            for name, unit in zip(names, self.units, strict=True)
        ]
        return keep, found


def test_a_pair_that_only_its_band_joins_stays_apart(tmp_path: Path) -> None:
    units = Units(tmp_path, [["a b c d", "a b c e", "w x y z"]], [[[1], [1], [1]]])
    assert units.resolve(0.6)[0] == [[1, 0, 1]]
    assert units.resolve(0.61)[0] == [[1, 1, 1]]


def test_two_that_fail_with_the_smallest_are_compared_with_each_other(tmp_path: Path) -> None:
    texts = ["p q r s", "a b c d", "a b c d e", "w x y z", "w x y z v", "m n"]
    units = Units(tmp_path, [texts], [[[7]] * 6])
    keep, found = units.resolve(0.8)
    assert keep == [[1, 1, 0, 1, 0, 1]]
    assert found == MinhashResult(2, 2, 2)


def test_units_without_a_candidate_are_not_read_again(tmp_path: Path) -> None:
    texts = [["a b", "c d"], ["e f", "g h"], ["a b", "x y"], []]
    units = Units(tmp_path, texts, [[[1], [2]], [[3], [4]], [[1], [5]], []])
    keep, _ = units.resolve(0.5)
    assert keep == [[1, 1], [1, 1], [0, 1], []]
    assert units.read == [0, 2]


def test_agreement_with_a_document_seen_before_is_trusted(tmp_path: Path) -> None:
    units = Units(tmp_path, [["a b", "c d", "c e"]], [[[1], [2], [2]]])
    prior = tmp_path / "prior.bands"
    np.array([[9], [1]], np.uint64).tofile(prior)
    assert units.resolve(0.9, prior=[prior])[0] == [[0, 1, 1]]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("share", [500, 10_000, 10**7])
def test_any_share_and_threads_give_the_same(tmp_path: Path, share: int, threads: int) -> None:
    random = np.random.default_rng(0)
    texts = [" ".join(map(str, row)) for row in (random.integers(0, 9, (90, 6)) + ord("a")).tolist()]
    texts = ["".join(chr(int(code)) + " " for code in text.split()) for text in texts]
    bands = random.integers(0, 25, (90, 2)).tolist()
    units = Units(tmp_path, [texts[:40], texts[40:41], texts[41:]], [bands[:40], bands[40:41], bands[41:]])
    table = (10 + 4) * 16
    layout = TableLayout(share, threads, table, table, 16, 16, max_width=2, key_bits=64, read_records=8)
    assert units.resolve(0.5, layout) == units.resolve(0.5)
    assert units.resolve(0.5)[1].duplicates > 0


def test_a_unit_that_gives_other_documents_is_refused(tmp_path: Path) -> None:
    units = Units(tmp_path, [["a", "a", "a"]], [[[1], [1], [1]]])
    units.units[0].pop()
    with pytest.raises(ValueError, match="unit 0 gave 2 documents, not 3"):
        units.resolve(0.5)


def test_the_longest_document_takes_five_times_its_bytes() -> None:
    assert verify_share(4_000_000) == 20_000_000


def test_bands_of_texts_are_verified_end_to_end(tmp_path: Path) -> None:
    text = "the quick brown fox jumps over the lazy dog and runs into the dark wood behind the old mill " * 5
    texts = [text, text + "today", text.replace("fox", "cat"), "something else altogether, and long enough"]
    column = pa.array(texts, pa.large_string())
    MinHash().bands_of(column).tofile(tmp_path / "0.bands")
    found = dedup_minhash(
        [tmp_path / "0.bands"],
        [tmp_path / "0.keep"],
        bands=14,
        share=MIN_SHARE,
        spill=tmp_path,
        threads=1,
        verify=Verify(0.9, lambda _: iter([column])),
        cluster_files=[tmp_path / "0.clusters"],
    )
    assert found == MinhashResult(1, 1, 2)
    assert np.fromfile(tmp_path / "0.clusters", CLUSTER_RECORD).tolist() == [(0, 2), (0, 2), (2, 1), (3, 1)]
