"""Near-duplicates in tasks: the bytes of one process, however the work is cut."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from krill.dedup import (
    MinhashResult,
    ShufflePlan,
    answer_bands,
    cluster_edges,
    cut_groups,
    dedup_minhash,
    plan_bands,
    split_bands,
    tables,
)
from krill.dedup.shuffle import SegmentStream, write_segment_index, write_split
from krill.dedup.streams import BandRecords, records_in
from krill.dedup.tables import GROUP_TABLES, TableLayout
from krill.errors import StorageError
from krill.storage.atomic import atomic_writer
from oracles.dedup import reference_clusters
from properties import tried

MIN_SHARE = GROUP_TABLES.min_share
Bands = list[list[int]]
BANDS = 2


def tiny(table_keys: int, block: int, *, share: int, threads: int = 1) -> TableLayout:
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
        max_width=2,
        key_bits=64,
    )


def write_units(folder: Path, units: list[Bands], name: str = "unit") -> list[Path]:
    files = [folder / f"{name}{number}.bands" for number in range(len(units))]
    for file, unit in zip(files, units, strict=True):
        np.array(unit, np.uint64).tofile(file)
    return files


def random_units(seed: int, sizes: list[int], distinct: int) -> list[Bands]:
    random = np.random.default_rng(seed)
    values = random.integers(0, 2**64, distinct, dtype=np.uint64)
    return [values[random.integers(0, distinct, (size, BANDS))].tolist() for size in sizes]


def groups_of(files: list[Path], borders: list[int]) -> list[list[Path]]:
    """Files in groups of consecutive ones, empty groups among them where borders are equal."""
    edges = [0, *sorted(min(border, len(files)) for border in borders), len(files)]
    return [files[begin:end] for begin, end in pairwise(edges)]


def documents_in(files: Sequence[Path]) -> list[int]:
    return [records_in(file, 8 * BANDS) for file in files]


def edges_in_tasks(
    folder: Path, groups: list[list[Path]], *, width: int, layout: TableLayout, block_records: int
) -> list[Path]:
    """The edge files of all partitions, made by tasks that meet only in files."""
    spill = folder / "spill"
    split_files, edge_files = [], []
    first = 0
    for number, group in enumerate(groups):
        split_files.append(folder / f"{number}.split")
        stream = BandRecords(group, BANDS, first=first)
        first += stream.documents
        write_split(
            stream,
            split_files[-1],
            width,
            block_records=block_records,
            spill_records=layout.split_records,
            spill=spill,
        )
    for partition in range(1 << width):
        edge_files.append(folder / f"{partition}.edges")
        answer_bands(split_files, partition, edge_files[-1], share=layout, spill=spill)
    return edge_files


bands = st.lists(st.lists(st.integers(0, 60), min_size=BANDS, max_size=BANDS), max_size=20)
borders = st.lists(st.integers(0, 5), max_size=3)


@given(
    units=st.lists(bands, max_size=4),
    prior=st.lists(bands, max_size=2),
    unit_borders=borders,
    prior_borders=borders,
    width=st.integers(1, 4),
    table_keys=st.integers(1, 30),
    block=st.integers(1, 5).map(lambda half: 2 * half),
    block_records=st.integers(1, 60),
    share=st.sampled_from([800, 2_000, 10**6]),
    threads=st.integers(1, 2),
)
@tried(30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_tasks_give_the_bytes_of_one_process_and_the_answer_of_a_plain_walk(
    tmp_path: Path,
    units: list[Bands],
    prior: list[Bands],
    unit_borders: list[int],
    prior_borders: list[int],
    width: int,
    table_keys: int,
    block: int,
    block_records: int,
    share: int,
    threads: int,
) -> None:
    files, prior_files = write_units(tmp_path, units), write_units(tmp_path, prior, "prior")
    ours, theirs = (
        [
            [tmp_path / f"{number}.{kind}.{way}" for number in range(len(units))]
            for kind in ("keep", "clusters")
        ]
        for way in ("tasks", "whole")
    )
    edge_files = edges_in_tasks(
        tmp_path,
        [*groups_of(prior_files, prior_borders), *groups_of(files, unit_borders)],
        width=width,
        layout=tiny(table_keys, block, share=share),
        block_records=block_records,
    )
    found = cluster_edges(
        edge_files,
        documents_in(files),
        ours[0],
        prior=sum(documents_in(prior_files)),
        share=tiny(table_keys, block, share=share, threads=threads),
        spill=tmp_path / "spill",
        threads=threads,
        cluster_files=ours[1],
    )
    expected = dedup_minhash(
        files,
        theirs[0],
        bands=BANDS,
        share=MIN_SHARE,
        spill=tmp_path,
        threads=1,
        prior=prior_files,
        cluster_files=theirs[1],
    )
    assert found == expected
    for mine, other in zip([*ours[0], *ours[1]], [*theirs[0], *theirs[1]], strict=True):
        assert mine.read_bytes() == other.read_bytes()
    first = reference_clusters([row for unit in (*prior, *units) for row in unit])
    seen = sum(map(len, prior))
    assert found.duplicates == sum(first[number] != number for number in range(seen, len(first)))


def test_a_partition_that_does_not_fit_is_split_again_by_its_next_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shifts = []
    on_disk = tables.visit_on_disk

    def counted(stream, shift, *rest, **options):
        shifts.append(shift)
        return on_disk(stream, shift, *rest, **options)

    monkeypatch.setattr(tables, "visit_on_disk", counted)
    units = random_units(0, [300, 200], distinct=600)
    files = write_units(tmp_path, units)
    layout = tiny(10, 32, share=10**6)
    edge_files = edges_in_tasks(
        tmp_path, [[file] for file in files], width=3, layout=layout, block_records=400
    )
    keep = [tmp_path / "0.keep", tmp_path / "1.keep"]
    found = cluster_edges(
        edge_files, [300, 200], keep, prior=0, share=layout, spill=tmp_path / "spill", threads=1
    )
    first = reference_clusters([row for unit in units for row in unit])
    kept = np.unpackbits(np.frombuffer(keep[0].read_bytes(), np.uint8), count=300, bitorder="little")
    assert kept.tolist() == [int(first[number] == number) for number in range(300)]
    assert found.duplicates == sum(first[number] != number for number in range(500))
    assert shifts.count(3) == 8 and max(shifts) > 3
    assert list((tmp_path / "spill").iterdir()) == []


def test_edges_lead_to_the_smallest_document_counted_over_all_groups(tmp_path: Path) -> None:
    files = write_units(tmp_path, [[[1, 2]], [[3, 4], [1, 4]], [[5, 2]]])
    split_files = []
    for number, file in enumerate(files):
        split_files.append(tmp_path / f"{number}.split")
        first = (0, 1, 3)[number]
        limits = {"width": 1, "share": MIN_SHARE, "spill": tmp_path}
        assert (
            split_bands([file], split_files[-1], bands=BANDS, first_document=first, **limits)
            == (2, 4, 2)[number]
        )
    edges = []
    for partition in range(2):
        out = tmp_path / f"{partition}.edges"
        assert answer_bands(split_files, partition, out, share=MIN_SHARE, spill=tmp_path) == (2, 1)[partition]
        edges += [edge for block in SegmentStream([out], 0).blocks(10) for edge in block.tolist()]
    assert edges == [[2, 1], [3, 0], [2, 0]]


def test_tasks_with_the_least_share_give_the_bytes_of_one_process(tmp_path: Path) -> None:
    units = random_units(1, [60_000, 1, 50_000], distinct=400_000)
    files = write_units(tmp_path, units)
    counts = documents_in(files)
    shuffle = plan_bands(sum(counts), BANDS, share=MIN_SHARE, workers=3)
    groups = cut_groups(counts, shuffle.group)
    assert (shuffle.partitions, groups) == (4, [range(0, 1), range(1, 2), range(2, 3)])
    limits = {"share": MIN_SHARE, "spill": tmp_path / "spill"}
    split_files, first = [], 0
    for group in groups:
        split_files.append(tmp_path / f"{group.start}.split")
        split_bands(
            files[group.start : group.stop],
            split_files[-1],
            bands=BANDS,
            first_document=first,
            width=shuffle.width,
            **limits,
        )
        first += sum(counts[group.start : group.stop])
    edge_files = [tmp_path / f"{number}.edges" for number in range(shuffle.partitions)]
    for number, out in enumerate(edge_files):
        answer_bands(split_files, number, out, **limits)
    ours = [tmp_path / f"{number}.tasks" for number in range(3)]
    theirs = [tmp_path / f"{number}.whole" for number in range(3)]
    found = cluster_edges(edge_files, counts, ours, prior=0, threads=2, **limits)
    assert found == dedup_minhash(files, theirs, bands=BANDS, threads=1, **limits)
    assert found.duplicates > 0
    assert [file.read_bytes() for file in ours] == [file.read_bytes() for file in theirs]


def test_a_plan_counts_bands_for_partitions_and_documents_for_groups() -> None:
    assert plan_bands(0, 14, share=MIN_SHARE, workers=1) == ShufflePlan(1, 1)
    # 14 million bands in tables of 209,715 keys.
    assert plan_bands(10**6, 14, share=MIN_SHARE, workers=2) == ShufflePlan(7, 4096 * 128 // 14)
    assert plan_bands(10**6, 14, share=10**9, workers=4) == ShufflePlan(2, 250_000)


def test_no_groups_and_no_documents_give_no_clusters(tmp_path: Path) -> None:
    edge_files = [tmp_path / "0.edges", tmp_path / "1.edges"]
    for number, out in enumerate(edge_files):
        assert answer_bands([], number, out, share=MIN_SHARE, spill=tmp_path) == 0
    found = cluster_edges(edge_files, [], [], prior=0, share=MIN_SHARE, spill=tmp_path, threads=1)
    assert found == MinhashResult(0, 0, 0)


@pytest.mark.parametrize("left", [0, 40, -1])
def test_a_cut_split_file_is_named_and_leaves_no_edges(tmp_path: Path, left: int) -> None:
    file = tmp_path / "0.split"
    limits = {"share": MIN_SHARE, "spill": tmp_path}
    files = write_units(tmp_path, random_units(2, [100], distinct=50))
    split_bands(files, file, bands=BANDS, first_document=0, width=1, **limits)
    file.write_bytes(file.read_bytes()[:left])
    with pytest.raises(StorageError, match=r"0\.split`, kept by an earlier stage, is not a whole file"):
        answer_bands([file], 0, tmp_path / "0.edges", **limits)
    assert sorted(tmp_path.iterdir()) == [file, files[0]]


def write_edges(path: Path, edges: list[list[int]]) -> None:
    with atomic_writer(path) as file:
        file.write(np.array(edges, np.uint64).tobytes())
        write_segment_index(file, np.array([len(edges)]), 16)


def test_a_cut_edge_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "0.edges"
    write_edges(file, [[1, 0], [2, 0]])
    file.write_bytes(file.read_bytes()[16:-8])
    with pytest.raises(StorageError, match=r"0\.edges`, kept by an earlier stage, is not a whole file"):
        cluster_edges([file], [3], [tmp_path / "k"], prior=0, share=MIN_SHARE, spill=tmp_path, threads=1)
    assert not (tmp_path / "k").exists()


def test_an_edge_to_a_document_that_there_is_not_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "0.edges"
    write_edges(file, [[1, 0], [3, 0]])
    fact = r"has an edge to document `3`; there are 3"
    with pytest.raises(StorageError, match=fact):
        cluster_edges([file], [2], [tmp_path / "k"], prior=1, share=MIN_SHARE, spill=tmp_path, threads=1)
    assert not (tmp_path / "k").exists()


def test_a_share_below_the_least_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="below the least"):
        answer_bands([], 0, tmp_path / "0.edges", share=MIN_SHARE - 1, spill=tmp_path)


GROWTH = """
import sys
from pathlib import Path
from krill.dedup import answer_bands, cluster_edges, split_bands

def status(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

folder, share, documents = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
limits = {"share": share, "spill": folder}
split, edges = folder / "split", [folder / "0.edges", folder / "1.edges"]
before = status("VmRSS")
split_bands([folder / "bands"], split, bands=2, first_document=0, width=1, **limits)
for number, out in enumerate(edges):
    answer_bands([split], number, out, **limits)
found = cluster_edges(edges, [documents], [folder / "keep"], prior=0, threads=1, **limits)
print(status("VmHWM") - before, found.duplicates)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("share", [MIN_SHARE, 4 * MIN_SHARE])
def test_all_three_tasks_stay_within_the_share(tmp_path: Path, share: int) -> None:
    random = np.random.default_rng(3)
    documents = 600_000
    random.integers(0, documents, (documents, 2), dtype=np.uint64).tofile(tmp_path / "bands")
    command = [sys.executable, "-c", GROWTH, str(tmp_path), str(share), str(documents)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    growth, duplicates = map(int, done.stdout.split())
    assert duplicates > documents // 2
    assert growth <= share + 1_000_000  # what was loaded meanwhile: code, interpreter objects
