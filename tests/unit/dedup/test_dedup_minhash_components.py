"""Near-duplicates are held to a plain walk over bands, with shares so small that every path is taken."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from krill.dedup import (
    CLUSTER_RECORD,
    SEEN_BEFORE,
    MinhashResult,
    components,
    dedup_minhash,
    minhash_min_share,
    minhash_spill_bytes,
    minhash_useful_share,
    tables,
)
from krill.dedup.tables import GROUP_TABLES, TableLayout
from krill.errors import StorageError
from oracles.dedup import reference_clusters, reference_largest
from properties import tried

MIN_SHARE = GROUP_TABLES.min_share
Bands = list[list[int]]


def tiny(table_keys: int, block: int, *, share: int, threads: int = 1, max_width: int = 2) -> TableLayout:
    """A layout whose tables take `table_keys` keys and whose blocks have `block` records."""
    table = (table_keys + table_keys // 4 + 2) * 16
    return TableLayout(
        share=share,
        threads=threads,
        table_bytes=table,
        whole_table_bytes=table,
        read_records=block,
        split_records=2 * block,
        resplit_records=2 * block,
        max_width=max_width,
        key_bits=64,
    )


def write_units(folder: Path, units: list[Bands], name: str = "unit") -> list[Path]:
    files = [folder / f"{name}{number}.bands" for number in range(len(units))]
    for file, unit in zip(files, units, strict=True):
        np.array(unit, np.uint64).tofile(file)
    return files


def outcome(folder: Path, units: list[Bands]) -> tuple[list[list[bool]], list[list[tuple[int, int]]]]:
    """Keep bits and clusters of all units, from the files."""
    keep, clusters = [], []
    for number, unit in enumerate(units):
        bits = np.fromfile(folder / f"{number}.keep", np.uint8)
        assert len(bits) == (len(unit) + 7) // 8
        keep.append(np.unpackbits(bits, count=len(unit), bitorder="little").astype(bool).tolist())
        clusters.append(np.fromfile(folder / f"{number}.clusters", CLUSTER_RECORD).tolist())
    return keep, clusters


def expected(
    units: list[Bands], prior: Bands
) -> tuple[list[list[bool]], list[list[tuple[int, int]]], MinhashResult]:
    first = reference_clusters([*prior, *(bands for unit in units for bands in unit)])
    seen = len(prior)
    sizes = Counter(first[seen:])
    keep = [first[document] == document for document in range(seen, len(first))]
    clusters = [(SEEN_BEFORE if head < seen else head - seen, sizes[head]) for head in first[seen:]]
    dropped = {head for head, kept in zip(first[seen:], keep, strict=True) if not kept}
    largest = max((sizes[head] for head in dropped), default=0)
    cut_keep, cut_clusters = [], []
    for unit in units:
        cut_keep.append(keep[: len(unit)])
        cut_clusters.append(clusters[: len(unit)])
        keep, clusters = keep[len(unit) :], clusters[len(unit) :]
    total = sum(flags.count(False) for flags in cut_keep)
    shown = reference_largest(first, seen)
    return cut_keep, cut_clusters, MinhashResult(total, len(dropped), largest, shown=shown)


def dedup_and_compare(layout: TableLayout, units: list[Bands], prior: Bands, folder: Path) -> None:
    bands = next((len(row) for rows in (prior, *units) for row in rows), 1)
    found = dedup_minhash(
        write_units(folder, units),
        [folder / f"{number}.keep" for number in range(len(units))],
        bands=bands,
        share=layout,
        spill=folder / "spill",
        threads=1,
        prior=write_units(folder, [prior], "prior"),
        cluster_files=[folder / f"{number}.clusters" for number in range(len(units))],
    )
    keep, clusters, resolution = expected(units, prior)
    assert outcome(folder, units) == (keep, clusters)
    assert found == resolution and found.shown == resolution.shown
    assert list((folder / "spill").iterdir()) == []


def random_units(seed: int, sizes: list[int], bands: int, distinct: int) -> list[Bands]:
    random = np.random.default_rng(seed)
    values = random.integers(0, 2**64, distinct, dtype=np.uint64)
    return [values[random.integers(0, distinct, (size, bands))].tolist() for size in sizes]


class Paths:
    """Counts which ways were taken."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.splits: list[int] = []
        self.in_memory = self.on_disk = 0
        real_on_disk, real_memory, real_disk = (
            tables.visit_on_disk,
            components.ClustersInMemory.of,
            components.ClustersOnDisk.of,
        )

        def on_disk(stream, shift, *rest, **options):
            self.splits.append(shift)
            return real_on_disk(stream, shift, *rest, **options)

        def memory(*arguments):
            self.in_memory += 1
            return real_memory(*arguments)

        def disk(*arguments):
            self.on_disk += 1
            return real_disk(*arguments)

        monkeypatch.setattr(tables, "visit_on_disk", on_disk)
        monkeypatch.setattr(components.ClustersInMemory, "of", memory)
        monkeypatch.setattr(components.ClustersOnDisk, "of", disk)


@pytest.mark.parametrize("threads", [1, 3])
def test_bands_that_do_not_fit_are_split_and_clusters_connected_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    paths = Paths(monkeypatch)
    units = random_units(0, [100, 0, 1, 150, 0], bands=3, distinct=700)
    dedup_and_compare(tiny(40, 32, share=100_000, threads=threads), units, [], tmp_path)
    assert 0 in paths.splits and max(paths.splits) > 0
    assert (paths.in_memory, paths.on_disk) == (1, 0)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("share", [8_000, 2_100])  # the bitmap fits, but not the members; neither fits
def test_clusters_that_do_not_fit_are_connected_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int, share: int
) -> None:
    paths = Paths(monkeypatch)
    units = random_units(1, [1300, 3, 0], bands=2, distinct=2000)
    layout = tiny(60, 20, share=share, threads=threads, max_width=3)
    dedup_and_compare(layout, units, [], tmp_path)
    assert (paths.in_memory, paths.on_disk) == (0, 1)


def test_everything_that_fits_touches_neither_splits_nor_stars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = Paths(monkeypatch)
    units = random_units(2, [200, 100], bands=4, distinct=1500)
    dedup_and_compare(tiny(1200, 64, share=10**6), units, [], tmp_path)
    assert (paths.splits, paths.in_memory, paths.on_disk) == ([], 1, 0)


@pytest.mark.parametrize("share", [10**6, 3_000])
def test_a_chain_is_one_cluster_however_long(tmp_path: Path, share: int) -> None:
    # Each document agrees with the next alone, and the order of the chain is not that of the documents.
    order = np.random.default_rng(3).permutation(400).tolist()
    links: list[list[int]] = [[] for _ in order]
    for link, (one, other) in enumerate(pairwise(order)):
        links[one].append(link)
        links[other].append(link)
    unit = [[*row, 1000 + number][:2] for number, row in enumerate(links)]
    dedup_and_compare(tiny(50, 16, share=share), [unit], [], tmp_path)
    keep, clusters = outcome(tmp_path, [unit])
    assert keep[0] == [True] + [False] * 399
    assert set(clusters[0]) == {(0, 400)}


@pytest.mark.parametrize("share", [10**6, 3_000])
def test_a_huge_group_takes_one_slot(tmp_path: Path, share: int) -> None:
    unit = [[7, 7]] * 500 + [[8, number + 100] for number in range(10)]
    dedup_and_compare(tiny(14, 16, share=share), [unit], [], tmp_path)


def test_keys_that_differ_only_in_their_last_bits_are_told_apart(tmp_path: Path) -> None:
    unit = [[number << 56] for number in range(200)] * 2
    dedup_and_compare(tiny(4, 16, share=10**6, max_width=8), [unit], [], tmp_path)


@pytest.mark.parametrize("share", [10**6, 3_000])
def test_who_hangs_together_with_a_document_seen_before_is_dropped(tmp_path: Path, share: int) -> None:
    prior = [[1, 2], [3, 4]]
    units = [[[1, 9], [9, 10], [50, 51]], [[51, 60], [4, 70], [80, 81]]]
    dedup_and_compare(tiny(3, 2, share=share), units, prior, tmp_path)
    keep, clusters = outcome(tmp_path, units)
    assert keep == [[False, False, True], [False, False, True]]
    assert clusters[0] == [(SEEN_BEFORE, 2), (SEEN_BEFORE, 2), (2, 2)]
    assert clusters[1] == [(2, 2), (SEEN_BEFORE, 1), (5, 1)]


@given(
    units=st.lists(st.lists(st.lists(st.integers(0, 60), min_size=2, max_size=2), max_size=20), max_size=4),
    prior=st.lists(st.lists(st.integers(0, 60), min_size=2, max_size=2), max_size=10),
    table_keys=st.integers(1, 30),
    block=st.integers(1, 5).map(lambda half: 2 * half),
    share=st.sampled_from([800, 2_000, 10**6]),
    threads=st.integers(1, 3),
)
@tried(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_layout_gives_the_answer_of_a_plain_walk(
    tmp_path: Path,
    units: list[Bands],
    prior: Bands,
    table_keys: int,
    block: int,
    share: int,
    threads: int,
) -> None:
    dedup_and_compare(tiny(table_keys, block, share=share, threads=threads), units, prior, tmp_path)


def test_every_share_and_number_of_threads_gives_the_same_files(tmp_path: Path) -> None:
    units = random_units(4, [30_000, 20_000], bands=14, distinct=400_000)
    files = write_units(tmp_path, units)
    results = []
    for share, threads in ((MIN_SHARE, 1), (3 * MIN_SHARE, 3), (minhash_useful_share(50_000, 14), 2)):
        folder = tmp_path / f"{share}-{threads}"
        folder.mkdir()
        names = [[folder / f"{number}.{kind}" for number in range(2)] for kind in ("keep", "clusters")]
        found = dedup_minhash(
            files, names[0], bands=14, share=share, spill=folder, threads=threads, cluster_files=names[1]
        )
        results.append((found, [file.read_bytes() for kind in names for file in kind]))
    assert results[0] == results[1] == results[2]
    assert results[0][0].duplicates > 0


def test_a_useful_share_splits_nothing_if_there_is_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = Paths(monkeypatch)
    units = random_units(5, [20_000], bands=14, distinct=10**6)
    share = minhash_useful_share(20_000, 14)
    dedup_minhash(
        write_units(tmp_path, units), [tmp_path / "0.keep"], bands=14, share=share, spill=tmp_path, threads=2
    )
    assert (paths.splits, paths.in_memory, paths.on_disk) == ([], 1, 0)


@pytest.mark.parametrize("documents", [0, 1000, 10**6, 10**9, 5 * 10**9])
def test_the_least_share_has_a_range_of_labels_for_any_number_of_documents(documents: int) -> None:
    ranges = components.DocumentRanges.of(documents, minhash_min_share(documents) // 2)
    assert ranges.bits.partitions <= 4096
    assert (1 << ranges.bits.shift) * 48 <= minhash_min_share(documents)


GROWTH = """
import sys
from pathlib import Path
from krill.dedup import dedup_minhash
from krill.dedup import components

def status(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

bands, keep, share = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
ways = []
of = components.ClustersOnDisk.of
components.ClustersOnDisk.of = lambda *arguments: ways.append("disk") or of(*arguments)
before = status("VmRSS")
found = dedup_minhash([bands], [keep], bands=2, share=share, spill=keep.parent, threads=2)
print(status("VmHWM") - before, found.duplicates, *ways)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(("share", "ways"), [(MIN_SHARE, ["disk"]), (4 * MIN_SHARE, [])])
def test_a_million_documents_stay_within_the_share(tmp_path: Path, share: int, ways: list[str]) -> None:
    random = np.random.default_rng(6)
    documents = 1_200_000
    random.integers(0, documents, (documents, 2), dtype=np.uint64).tofile(tmp_path / "bands")
    command = [sys.executable, "-c", GROWTH, str(tmp_path / "bands"), str(tmp_path / "keep"), str(share)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    growth, duplicates, *taken = done.stdout.split()
    assert taken == ways
    assert int(growth) <= share + 1_000_000  # what was loaded meanwhile: code, interpreter objects
    assert int(duplicates) > documents // 2


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("allowed", [0, 3_000, 60_000])
def test_a_full_spill_disk_is_a_storage_error_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int, allowed: int
) -> None:
    units = random_units(8, [1300], bands=2, distinct=2000)
    files = write_units(tmp_path, units)
    written = 0

    def pwrite(descriptor: int, data: memoryview, offset: int) -> int:
        nonlocal written
        written += len(data)
        if written > allowed:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real_pwrite(descriptor, data, offset)

    real_pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", pwrite)
    layout = tiny(60, 20, share=2_100, threads=threads)
    with pytest.raises(StorageError, match=r"cannot write `.*/spill`: no space left on the device"):
        keep = [tmp_path / "0.keep"]
        dedup_minhash(files, keep, bands=2, share=layout, spill=tmp_path / "spill", threads=1)
    assert list((tmp_path / "spill").iterdir()) == []
    assert not (tmp_path / "0.keep").exists()


def test_no_units_give_no_files(tmp_path: Path) -> None:
    found = dedup_minhash([], [], bands=14, share=MIN_SHARE, spill=tmp_path, threads=1)
    assert found == MinhashResult(0, 0, 0)
    assert list(tmp_path.iterdir()) == []


def test_a_cut_band_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "0.bands"
    file.write_bytes(bytes(8 * 14 + 8))
    with pytest.raises(StorageError, match=r"0\.bands`, kept by an earlier stage, has `120` bytes, not"):
        dedup_minhash([file], [tmp_path / "k"], bands=14, share=MIN_SHARE, spill=tmp_path, threads=1)
    assert not (tmp_path / "k").exists()


def test_a_share_below_the_least_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="below the least"):
        dedup_minhash([], [], bands=14, share=MIN_SHARE - 1, spill=tmp_path, threads=1)


def test_the_disk_that_is_planned_holds_all_edges_and_both_copies_of_the_bands() -> None:
    assert minhash_spill_bytes(1000, 14, MIN_SHARE) == 1000 * 14 * 16
    assert minhash_spill_bytes(10**6, 14, MIN_SHARE) == 3 * 10**6 * 14 * 16
