"""Exact dedup in tasks gives the bytes of exact dedup in one process, however the work is cut."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from krill.dedup import (
    MIN_SHARE,
    ShufflePlan,
    answer_hashes,
    cut_groups,
    dedup_exact,
    join_hashes,
    plan_hashes,
    split_hashes,
)
from krill.dedup import exact as exact_module
from krill.dedup.shuffle import SegmentStream, find_segment, write_split
from krill.dedup.streams import UnitHashes
from krill.dedup.tables import TableLayout
from krill.errors import StorageError
from oracles.dedup import reference_exact
from properties import tried

Hashes = list[bytes]


def tiny(table_keys: int, block: int) -> TableLayout:
    """A layout whose tables take `table_keys` keys and whose blocks have `block` hashes."""
    table = (table_keys + table_keys // 4 + 2) * 16
    return TableLayout(
        share=0,
        threads=1,
        table_bytes=table,
        whole_table_bytes=table,
        read_records=block,
        split_records=block,
        resplit_records=max(1, block // 2),
        max_width=2,
        key_bits=128,
    )


def write_units(folder: Path, units: list[Hashes], name: str = "unit") -> list[Path]:
    folder.mkdir(exist_ok=True)
    files = [folder / f"{name}{number}.hash" for number in range(len(units))]
    for file, unit in zip(files, units, strict=True):
        file.write_bytes(b"".join(unit))
    return files


def random_units(seed: int, sizes: list[int], distinct: int) -> list[Hashes]:
    random = np.random.default_rng(seed)
    keys = random.integers(0, 2**64, (distinct, 2), dtype=np.uint64)
    return [[keys[i].tobytes() for i in random.integers(0, distinct, size)] for size in sizes]


def packed(flags: list[bool]) -> bytes:
    return np.packbits(np.array(flags, np.uint8), bitorder="little").tobytes()


def groups_of(files: list[Path], borders: list[int]) -> list[list[Path]]:
    """Files in groups of consecutive ones, empty groups among them where borders are equal."""
    edges = [0, *sorted(min(border, len(files)) for border in borders), len(files)]
    return [files[begin:end] for begin, end in pairwise(edges)]


def in_tasks(
    folder: Path,
    groups: list[list[Path]],
    prior: list[list[Path]],
    keep_files: list[Path],
    *,
    width: int,
    layout: TableLayout,
    block_records: int,
) -> int:
    """All tasks, each with nothing but files; returns the number of duplicates."""
    spill = folder / "spill"
    split_files, flag_files = [], []
    for number, group in enumerate([*prior, *groups]):
        split_files.append(folder / f"{number}.split")
        write_split(
            UnitHashes(group),
            split_files[-1],
            width,
            block_records=block_records,
            spill_records=layout.split_records,
            spill=spill,
        )
    for partition in range(1 << width):
        flag_files.append(folder / f"{partition}.flags")
        answer_hashes(split_files, partition, flag_files[-1], share=layout, spill=spill)
    for file in split_files:
        file.unlink()
    duplicates = 0
    for number, group in enumerate(groups, start=len(prior)):
        keep, keep_files = keep_files[: len(group)], keep_files[len(group) :]
        duplicates += join_hashes(group, number, flag_files, keep, share=layout, spill=spill)
    assert not spill.exists() or list(spill.iterdir()) == []
    return duplicates


hashes = st.lists(st.integers(0, 40).map(lambda n: n.to_bytes(8, "big") + bytes(7) + bytes([n])), max_size=50)
borders = st.lists(st.integers(0, 6), max_size=4)


@given(
    units=st.lists(hashes, max_size=6),
    prior=st.lists(hashes, max_size=3),
    unit_borders=borders,
    prior_borders=borders,
    width=st.integers(1, 4),
    table_keys=st.integers(1, 30),
    block=st.integers(1, 40),
    block_records=st.integers(1, 80),
)
@tried(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_tasks_give_the_bytes_of_one_process_and_the_answer_of_a_set(
    tmp_path: Path,
    units: list[Hashes],
    prior: list[Hashes],
    unit_borders: list[int],
    prior_borders: list[int],
    width: int,
    table_keys: int,
    block: int,
    block_records: int,
) -> None:
    files, prior_files = write_units(tmp_path, units), write_units(tmp_path, prior, "prior")
    ours = [tmp_path / f"{number}.tasks" for number in range(len(units))]
    theirs = [tmp_path / f"{number}.whole" for number in range(len(units))]
    duplicates = in_tasks(
        tmp_path,
        groups_of(files, unit_borders),
        groups_of(prior_files, prior_borders),
        ours,
        width=width,
        layout=tiny(table_keys, block),
        block_records=block_records,
    )
    expected = reference_exact([*prior, *units])[len(prior) :]
    assert [file.read_bytes() for file in ours] == [packed(flags) for flags in expected]
    assert duplicates == sum(flags.count(False) for flags in expected)
    assert duplicates == dedup_exact(
        files, theirs, share=MIN_SHARE, spill=tmp_path, threads=1, prior=prior_files
    )
    assert [file.read_bytes() for file in ours] == [file.read_bytes() for file in theirs]


@pytest.mark.parametrize("width", [1, 5])
def test_a_partition_that_does_not_fit_is_split_again_by_its_next_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    shifts = []
    on_disk = exact_module.flags_on_disk

    def counted(stream, shift, *rest):
        shifts.append(shift)
        return on_disk(stream, shift, *rest)

    monkeypatch.setattr(exact_module, "flags_on_disk", counted)
    units = random_units(0, [700, 300, 1000], distinct=1500)
    files, keep = write_units(tmp_path, units), [tmp_path / f"{number}.keep" for number in range(3)]
    in_tasks(
        tmp_path,
        [files[:2], files[2:]],
        [],
        keep,
        width=width,
        layout=tiny(10, 64),
        block_records=600,
    )
    assert [file.read_bytes() for file in keep] == [packed(flags) for flags in reference_exact(units)]
    assert shifts.count(width) == 1 << width and max(shifts) > width


def test_a_split_file_has_the_same_bytes_whether_it_was_split_in_memory_or_on_disk(tmp_path: Path) -> None:
    files = write_units(tmp_path, random_units(1, [400, 0, 333], distinct=500))
    written = []
    for number, block_records in enumerate([733, 732, 1]):
        out = tmp_path / f"{number}.split"
        stream = UnitHashes(files)
        assert (
            write_split(stream, out, 3, block_records=block_records, spill_records=50, spill=tmp_path) == 733
        )
        written.append(out.read_bytes())
    assert written[0] == written[1] == written[2]


def test_a_partition_is_the_hashes_with_its_lowest_bits_in_input_order(tmp_path: Path) -> None:
    units = random_units(2, [90, 30], distinct=100)
    split_files = []
    for number, file in enumerate(write_units(tmp_path, units)):
        split_files.append(tmp_path / f"{number}.split")
        split_hashes([file], split_files[-1], width=2, share=MIN_SHARE, spill=tmp_path)
    everything = [key for unit in units for key in unit]
    for partition in range(4):
        stream = SegmentStream(split_files, partition)
        found = [key.tobytes() for block in stream.blocks(7) for key in block]
        assert found == [key for key in everything if key[8] % 4 == partition]
        assert stream.lengths.tolist() == [sum(k[8] % 4 == partition for k in unit) for unit in units]


def test_tasks_with_the_least_share_give_the_bytes_of_one_process(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    distinct = random.integers(0, 2**64, (250_000, 2), dtype=np.uint64)
    files = [tmp_path / f"{number}.hash" for number in range(4)]
    for number, file in enumerate(files):
        distinct[random.integers(0, len(distinct), 130_000 + number)].tofile(file)
    shuffle = plan_hashes(520_006, share=MIN_SHARE, workers=2)
    groups = cut_groups([130_000 + number for number in range(4)], shuffle.group)
    assert groups == [range(0, 1), range(1, 2), range(2, 3), range(3, 4)]
    ours = [tmp_path / f"{number}.tasks" for number in range(4)]
    theirs = [tmp_path / f"{number}.whole" for number in range(4)]
    split_files = [tmp_path / f"{number}.split" for number in range(4)]
    flag_files = [tmp_path / f"{number}.flags" for number in range(shuffle.partitions)]
    limits = {"share": MIN_SHARE, "spill": tmp_path / "spill"}
    for file, out in zip(files, split_files, strict=True):
        split_hashes([file], out, width=shuffle.width, **limits)
    answered = [answer_hashes(split_files, number, out, **limits) for number, out in enumerate(flag_files)]
    assert sum(answered) == 520_006
    found = [
        join_hashes([file], number, flag_files, [keep], **limits)
        for number, (file, keep) in enumerate(zip(files, ours, strict=True))
    ]
    assert sum(found) == dedup_exact(files, theirs, threads=2, **limits) > 0
    assert [file.read_bytes() for file in ours] == [file.read_bytes() for file in theirs]
    assert list((tmp_path / "spill").iterdir()) == []


def test_no_groups_give_empty_answers(tmp_path: Path) -> None:
    out = tmp_path / "0.flags"
    assert answer_hashes([], 0, out, share=MIN_SHARE, spill=tmp_path) == 0
    with pytest.raises(StorageError, match="has `0` segments, none of number 0"):
        find_segment(out, 0, 1)


@pytest.mark.parametrize(
    ("counts", "most", "groups"),
    [
        ([], 5, []),
        ([9], 5, [range(0, 1)]),
        ([2, 3, 1, 9, 0, 5], 5, [range(0, 2), range(2, 3), range(3, 4), range(4, 6)]),
        ([0, 0, 0], 1, [range(0, 3)]),
    ],
)
def test_units_are_grouped_in_order_up_to_a_number_of_documents(
    counts: list[int], most: int, groups: list[range]
) -> None:
    assert cut_groups(counts, most) == groups


def test_a_plan_has_partitions_that_fit_a_table_and_something_for_every_worker() -> None:
    assert plan_hashes(0, share=MIN_SHARE, workers=1) == ShufflePlan(1, 1)
    # A table of 4 MiB takes 209,715 keys; a million of them in 8 partitions leave room for chance.
    assert plan_hashes(10**6, share=MIN_SHARE, workers=4) == ShufflePlan(3, 152_274)
    assert plan_hashes(10**6, share=10**9, workers=5) == ShufflePlan(3, 200_000)
    assert plan_hashes(10**9, share=10**8, workers=16) == ShufflePlan(8, 2_939_248)
    assert plan_hashes(10**12, share=MIN_SHARE, workers=16) == ShufflePlan(12, 4096 * 4096)


def prepared(folder: Path) -> tuple[list[Path], list[Path], list[Path]]:
    """Two groups of a unit each, split and answered in two partitions."""
    files = write_units(folder, random_units(4, [300, 200], distinct=350))
    split_files = [folder / "0.split", folder / "1.split"]
    flag_files = [folder / "0.flags", folder / "1.flags"]
    for file, out in zip(files, split_files, strict=True):
        split_hashes([file], out, width=1, share=MIN_SHARE, spill=folder)
    for number, out in enumerate(flag_files):
        answer_hashes(split_files, number, out, share=MIN_SHARE, spill=folder)
    return files, split_files, flag_files


@pytest.mark.parametrize("left", [0, 1, 23, 24, 100, 16 * 200, -1])
def test_a_cut_split_file_is_named(tmp_path: Path, left: int) -> None:
    _, split_files, _ = prepared(tmp_path)
    split_files[1].write_bytes(split_files[1].read_bytes()[:left])
    out = tmp_path / "again.flags"
    with pytest.raises(StorageError, match=r"1\.split`, kept by an earlier stage, is not a whole file"):
        answer_hashes(split_files, 0, out, share=MIN_SHARE, spill=tmp_path)
    assert not out.exists()


@pytest.mark.parametrize("left", [0, 30, -1])
def test_a_cut_flag_file_is_named(tmp_path: Path, left: int) -> None:
    files, _, flag_files = prepared(tmp_path)
    flag_files[1].write_bytes(flag_files[1].read_bytes()[:left])
    with pytest.raises(StorageError, match=r"1\.flags`, kept by an earlier stage, is not a whole file"):
        join_hashes(files[:1], 0, flag_files, [tmp_path / "0.keep"], share=MIN_SHARE, spill=tmp_path)
    assert not (tmp_path / "0.keep").exists()


def test_a_missing_split_file_is_named(tmp_path: Path) -> None:
    _, split_files, _ = prepared(tmp_path)
    split_files[0].unlink()
    with pytest.raises(StorageError, match=r"0\.split`, kept by an earlier stage, can't be read: No such"):
        answer_hashes(split_files, 0, tmp_path / "0.flags", share=MIN_SHARE, spill=tmp_path)


def test_a_split_file_that_shrinks_while_it_is_read_is_named(tmp_path: Path) -> None:
    _, split_files, _ = prepared(tmp_path)
    stream = SegmentStream(split_files, 1)
    split_files[0].write_bytes(b"")
    with pytest.raises(StorageError, match=r"0\.split`, kept by an earlier stage, shrank while it was read"):
        list(stream.blocks(100))


def test_split_files_of_different_widths_are_not_mixed(tmp_path: Path) -> None:
    files, split_files, _ = prepared(tmp_path)
    split_hashes(files[1:], split_files[1], width=2, share=MIN_SHARE, spill=tmp_path)
    with pytest.raises(StorageError, match=r"1\.split`.* has `4` segments, where others have 2"):
        answer_hashes(split_files, 0, tmp_path / "0.flags", share=MIN_SHARE, spill=tmp_path)


def test_a_segment_that_is_not_in_its_file_is_refused(tmp_path: Path) -> None:
    _, split_files, _ = prepared(tmp_path)
    content = bytearray(split_files[0].read_bytes())
    index = len(content) - 24 - 3 * 8
    content[index + 8 : index + 16] = (10**9).to_bytes(8, "little")
    split_files[0].write_bytes(bytes(content))
    with pytest.raises(StorageError, match=r"0\.split`.* has a segment that is not in it, number 0"):
        answer_hashes(split_files, 0, tmp_path / "0.flags", share=MIN_SHARE, spill=tmp_path)


def test_flags_of_other_documents_are_refused(tmp_path: Path) -> None:
    files, _, flag_files = prepared(tmp_path)
    keep = [tmp_path / "0.keep"]
    with pytest.raises(StorageError, match=r"0\.flags`.*: `200` flags for 300 documents of a group"):
        join_hashes(files[:1], 1, flag_files, keep, share=MIN_SHARE, spill=tmp_path)
    files[0].write_bytes(bytes(16 * 300))  # as many, but all of them in partition 0
    with pytest.raises(StorageError, match=r"0\.flags`.* has too few flags for the documents of a group"):
        join_hashes(files[:1], 0, flag_files, keep, share=MIN_SHARE, spill=tmp_path)
    assert not keep[0].exists()


def test_a_full_disk_is_a_storage_error_and_leaves_no_half_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, split_files, _ = prepared(tmp_path)
    before = sorted(tmp_path.iterdir())

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for task in (
        lambda: split_hashes(files, tmp_path / "new.split", width=1, share=MIN_SHARE, spill=tmp_path),
        lambda: answer_hashes(split_files, 0, tmp_path / "new.flags", share=MIN_SHARE, spill=tmp_path),
    ):
        with pytest.raises(StorageError, match=r"cannot write `.*new\.\w+`: no space left on the device"):
            task()
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("files", [0, 1, 3])
def test_flags_of_some_partitions_alone_are_refused(tmp_path: Path, files: int) -> None:
    hash_files, _, flag_files = prepared(tmp_path)
    some = (flag_files * 2)[:files]
    with pytest.raises(ValueError, match=f"{files} is not a number of partitions"):
        join_hashes(hash_files[:1], 0, some, [tmp_path / "0.keep"], share=MIN_SHARE, spill=tmp_path)


def test_a_share_below_the_least_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="below the least"):
        split_hashes([], tmp_path / "0.split", width=1, share=MIN_SHARE - 1, spill=tmp_path)


GROWTH = """
import sys
from pathlib import Path
from krill.dedup import answer_hashes, join_hashes, split_hashes

def status(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

folder, share = Path(sys.argv[1]), int(sys.argv[2])
limits = {"share": share, "spill": folder}
files, splits, flags = [], [], []
before = status("VmRSS")
for number in range(2):
    files.append(folder / f"{number}.hash")
    splits.append(folder / f"{number}.split")
    split_hashes(files[-1:], splits[-1], width=1, **limits)
for number in range(2):
    flags.append(folder / f"{number}.flags")
    answer_hashes(splits, number, flags[-1], **limits)
found = [join_hashes([file], n, flags, [folder / f"{n}.keep"], **limits) for n, file in enumerate(files)]
print(status("VmHWM") - before, *found)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("share", [MIN_SHARE, 4 * MIN_SHARE])
def test_all_three_tasks_stay_within_the_share(tmp_path: Path, share: int) -> None:
    random = np.random.default_rng(5)
    distinct = random.integers(0, 2**64, (700_000, 2), dtype=np.uint64)
    distinct.tofile(tmp_path / "0.hash")
    distinct[::-1].tofile(tmp_path / "1.hash")
    command = [sys.executable, "-c", GROWTH, str(tmp_path), str(share)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    growth, first, second = map(int, done.stdout.split())
    assert (first, second) == (0, 700_000)
    assert growth <= share + 1_000_000  # what was loaded meanwhile: code, interpreter objects
