"""Exact dedup is held to a Python set, with tables so small that everything goes through the disk."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from krill import _native
from krill.dedup import MIN_SHARE, dedup_exact, table_bytes
from krill.dedup.tables import HASH_TABLES, TableLayout, keys_in, table_bytes_for
from krill.errors import StorageError
from oracles.dedup import reference_exact
from properties import tried


def tiny(table_keys: int, block: int, threads: int = 1, max_width: int = 2) -> TableLayout:
    """A layout whose tables take `table_keys` keys and whose blocks have `block` hashes."""
    table = (table_keys + table_keys // 4 + 2) * 16
    return TableLayout(
        share=0,
        threads=threads,
        table_bytes=table,
        whole_table_bytes=table,
        read_records=block,
        split_records=block,
        resplit_records=max(1, block // 2),
        max_width=max_width,
        key_bits=128,
    )


def write_units(folder: Path, units: list[list[bytes]]) -> tuple[list[Path], list[Path]]:
    hash_files = [folder / f"{i:05}.hash" for i in range(len(units))]
    for file, unit in zip(hash_files, units, strict=True):
        file.write_bytes(b"".join(unit))
    return hash_files, [folder / f"{i:05}.keep" for i in range(len(units))]


def read_keep(files: list[Path], units: list[list[bytes]]) -> list[list[bool]]:
    keep = []
    for file, unit in zip(files, units, strict=True):
        bits = np.fromfile(file, np.uint8)
        assert len(bits) == (len(unit) + 7) // 8
        keep.append(np.unpackbits(bits, count=len(unit), bitorder="little").astype(bool).tolist())
    return keep


def random_units(seed: int, sizes: list[int], distinct: int) -> list[list[bytes]]:
    random = np.random.default_rng(seed)
    keys = random.integers(0, 2**64, (distinct, 2), dtype=np.uint64)
    return [[keys[i].tobytes() for i in random.integers(0, distinct, size)] for size in sizes]


def dedup_and_compare(layout: TableLayout, units: list[list[bytes]], folder: Path) -> None:
    hash_files, keep_files = write_units(folder, units)
    expected = reference_exact(units)
    dropped = dedup_exact(hash_files, keep_files, share=layout, spill=folder / "spill", threads=1)
    assert read_keep(keep_files, units) == expected
    assert dropped == sum(flags.count(False) for flags in expected)


@pytest.mark.parametrize("threads", [1, 3])
def test_everything_spills_and_the_answer_is_that_of_a_set(tmp_path: Path, threads: int) -> None:
    units = random_units(0, [400, 0, 1, 777, 9, 0, 2000], distinct=1500)
    dedup_and_compare(tiny(100, 64, threads, max_width=3), units, tmp_path)


def test_partitions_that_do_not_fit_are_split_again_and_again(tmp_path: Path) -> None:
    units = random_units(1, [300, 300], distinct=510)
    dedup_and_compare(tiny(5, 100, threads=2, max_width=1), units, tmp_path)


def test_a_partition_of_one_repeated_hash_needs_no_second_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from krill.dedup import tables

    made = []

    class CountedSpill(tables.Spill):
        def split(self) -> None:
            made.append(self)
            super().split()

    monkeypatch.setattr(tables, "Spill", CountedSpill)
    units = [[b"\x07" * 16] * 3000, [b"\x07" * 16, b"\x08" * 16]]
    dedup_and_compare(tiny(10, 50), units, tmp_path)
    assert len(made) == 1


def test_keys_that_differ_only_in_their_last_bits_are_told_apart(tmp_path: Path) -> None:
    # All 64 low partition bits are equal, so splitting goes on into the other word, as far as bit 127.
    keys = [(number << 56).to_bytes(8, "little") + bytes(8) for number in range(100)]
    dedup_and_compare(tiny(4, 32, max_width=8), [keys, keys[::-1]], tmp_path)


@given(
    units=st.lists(
        st.lists(st.integers(0, 40).map(lambda n: n.to_bytes(8, "big") + bytes(7) + b"\x01"), max_size=60),
        max_size=6,
    ),
    table_keys=st.integers(1, 30),
    block=st.integers(1, 40),
    threads=st.integers(1, 3),
)
@tried(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_layout_gives_the_answer_of_a_set(
    tmp_path: Path, units: list[list[bytes]], table_keys: int, block: int, threads: int
) -> None:
    dedup_and_compare(tiny(table_keys, block, threads), units, tmp_path)


def test_the_least_share_resolves_more_documents_than_its_table_takes(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    distinct = random.integers(0, 2**64, (250_000, 2), dtype=np.uint64)
    first, second = tmp_path / "0.hash", tmp_path / "1.hash"
    distinct.tofile(first)
    distinct[::-1].tofile(second)
    keep_files = [tmp_path / "0.keep", tmp_path / "1.keep"]
    assert table_bytes(500_000) > MIN_SHARE
    dropped = dedup_exact([first, second], keep_files, share=MIN_SHARE, spill=tmp_path / "spill", threads=2)
    assert dropped == 250_000
    assert keep_files[0].read_bytes() == b"\xff" * 31_250
    assert keep_files[1].read_bytes() == b"\x00" * 31_250


def test_a_share_of_table_bytes_needs_no_disk(tmp_path: Path) -> None:
    units = random_units(3, [100_000, 150_000], distinct=250_000)
    hash_files, keep_files = write_units(tmp_path, units)
    nowhere = tmp_path / "spill"
    dedup_exact(hash_files, keep_files, share=table_bytes(250_000), spill=nowhere, threads=2)
    assert read_keep(keep_files, units) == reference_exact(units)
    assert not nowhere.exists()


@pytest.mark.parametrize("documents", [0, 1, 7, 1000, 123_457, 10_000_000])
def test_a_table_of_table_bytes_takes_all_documents(documents: int) -> None:
    table = _native.HashSet(table_bytes_for(documents))
    assert documents <= table.max_keys == keys_in(table_bytes_for(documents))


@pytest.mark.parametrize(("share", "threads"), [(MIN_SHARE, 8), (10**8, 2), (3 * 10**7, 5), (10**9, 64)])
def test_a_layout_stays_within_its_share(share: int, threads: int) -> None:
    layout = HASH_TABLES.layout(share, threads)
    reading = layout.read_records * 17
    assert layout.threads * (layout.table_bytes + reading) <= share
    assert layout.whole_table_bytes + reading <= share
    assert layout.split_records * 34 <= share
    assert layout.threads * layout.resplit_records * 34 <= share


def test_nothing_is_left_in_the_spill_folder(tmp_path: Path) -> None:
    dedup_and_compare(tiny(10, 50, threads=2), random_units(4, [500], distinct=400), tmp_path)
    assert list((tmp_path / "spill").iterdir()) == []


def test_no_units_give_no_files(tmp_path: Path) -> None:
    assert dedup_exact([], [], share=MIN_SHARE, spill=tmp_path, threads=1) == 0
    assert list(tmp_path.iterdir()) == []


def test_a_cut_hash_file_is_named(tmp_path: Path) -> None:
    hash_files, keep_files = write_units(tmp_path, [[bytes(16)], [bytes(16)]])
    hash_files[1].write_bytes(bytes(17))
    fact = r"00001\.hash`, kept by an earlier stage, has `17` bytes, not a multiple of 16"
    with pytest.raises(StorageError, match=fact):
        dedup_exact(hash_files, keep_files, share=MIN_SHARE, spill=tmp_path, threads=1)
    assert not keep_files[0].exists()


def test_a_missing_hash_file_is_named(tmp_path: Path) -> None:
    fact = r"gone\.hash`, kept by an earlier stage, can't be read: No such file"
    with pytest.raises(StorageError, match=fact):
        dedup_exact([tmp_path / "gone.hash"], [tmp_path / "k"], share=MIN_SHARE, spill=tmp_path, threads=1)


def test_a_spill_folder_that_can_not_be_made_is_named(tmp_path: Path) -> None:
    units = random_units(5, [100], distinct=100)
    hash_files, keep_files = write_units(tmp_path, units)
    with pytest.raises(StorageError, match=r"cannot write `.*00000\.hash/spill`"):
        spill = hash_files[0] / "spill"
        dedup_exact(hash_files, keep_files, share=tiny(10, 50), spill=spill, threads=1)
    assert not keep_files[0].exists()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_full_spill_disk_is_a_storage_error_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    units = random_units(6, [100], distinct=100)
    hash_files, keep_files = write_units(tmp_path, units)
    spill = tmp_path / "spill"
    written = 0

    def pwrite(descriptor: int, data: memoryview, offset: int) -> int:
        nonlocal written
        written += len(data)
        if written > 1700:  # all hashes and their counts fit, some flags don't
            raise OSError(errno.ENOSPC, "No space left on device")
        return real_pwrite(descriptor, data, offset)

    real_pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", pwrite)
    with pytest.raises(StorageError, match=r"cannot write `.*/spill`: no space left on the device"):
        dedup_exact(hash_files, keep_files, share=tiny(60, 100, threads), spill=spill, threads=threads)
    assert list(spill.iterdir()) == []
    assert not keep_files[0].exists()


@pytest.mark.parametrize("table_keys", [5, 5000])
def test_documents_seen_before_are_dropped_and_get_no_bits(tmp_path: Path, table_keys: int) -> None:
    prior, units = random_units(7, [301, 1], distinct=400), random_units(7, [500, 0, 77], distinct=400)
    prior_files = [tmp_path / "a.prior", tmp_path / "b.prior"]
    for file, unit in zip(prior_files, prior, strict=True):
        file.write_bytes(b"".join(unit))
    hash_files, keep_files = write_units(tmp_path, units)
    layout = tiny(table_keys, 64, threads=2)
    dropped = dedup_exact(
        hash_files, keep_files, share=layout, spill=tmp_path / "spill", threads=2, prior=prior_files
    )
    expected = reference_exact([*prior, *units])[2:]
    assert read_keep(keep_files, units) == expected
    assert dropped == sum(flags.count(False) for flags in expected)


def test_a_share_below_the_least_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="below the least"):
        dedup_exact([], [], share=MIN_SHARE - 1, spill=tmp_path, threads=1)
