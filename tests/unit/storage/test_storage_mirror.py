"""What is committed in a mirror is committed in the store, and found there by whoever looks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from krill.errors import StorageError
from krill.storage import CommitLog
from krill.storage.mirror import Mirror, Scratch
from krill.storage.object_store import PART_BYTES, ObjectStore

URL = "memory://bucket/run"


@pytest.fixture
def store() -> Iterator[Any]:
    files = fsspec.filesystem("memory")
    yield files
    files.store.clear()


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A store that refuses whatever is sent from now on."""

    def refuse() -> None:
        def pipe_file(*_: Any, **__: Any) -> None:
            raise PermissionError("Access Denied")

        monkeypatch.setattr("fsspec.implementations.memory.MemoryFileSystem.pipe_file", pipe_file)

    return refuse


def mirror(folder: Path, **options: Any) -> Mirror:
    """One machine's side."""
    return Mirror(folder, ObjectStore(URL), **options)


def log_of(side: Mirror, stage: str = "scan") -> CommitLog:
    return CommitLog(side.root / stage, side)


def commit(log: CommitLog, unit: int, data: bytes, **record: Any) -> int:
    files = log.begin(unit, "hashes")
    files.write("hashes", data)
    return files.commit(record)


def test_another_machine_finds_what_was_committed(tmp_path: Path, store: Any) -> None:
    here, there = mirror(tmp_path / "here"), mirror(tmp_path / "there")
    for unit in (2**63, 5, 1 << 40):
        assert commit(log_of(here), unit, b"of %d" % unit, number=unit) > 0
    found = log_of(there)
    assert len(found) == 3
    assert found.units() == [5, 1 << 40, 2**63]
    assert list(found) == [(unit, {"number": unit}) for unit in (5, 1 << 40, 2**63)]
    assert found.path(5, "hashes").read_bytes() == b"of 5"
    assert found.path(5, "hashes").is_relative_to(tmp_path / "there")
    assert 6 not in found


def test_a_stage_is_not_mistaken_for_one_whose_name_it_begins_with(tmp_path: Path, store: Any) -> None:
    side = mirror(tmp_path)
    commit(log_of(side, "scan-runs"), 1, b"")
    assert len(log_of(mirror(tmp_path / "other"), "scan")) == 0


@pytest.mark.parametrize("units", [3, 300])
def test_asking_for_many_units_and_for_few_tells_the_same(tmp_path: Path, store: Any, units: int) -> None:
    log = log_of(mirror(tmp_path / "here"))
    for unit in range(0, units, 2):
        log.commit(unit, {})
    found = log_of(mirror(tmp_path / "there"))
    assert [unit for unit in range(units) if unit in found] == list(range(0, units, 2))


def test_a_unit_without_its_record_is_not_done(tmp_path: Path, store: Any, refused: Any) -> None:
    log = log_of(mirror(tmp_path / "here"))
    files = log.begin(7, "hashes")
    files.write("hashes", b"abc")
    refused()
    with pytest.raises(StorageError, match=r"cannot write `memory://bucket/run/scan/.*`: Access Denied"):
        files.commit({})
    assert 7 not in log_of(mirror(tmp_path / "there"))
    assert 7 not in log


def test_two_machines_that_commit_the_same_unit_do_no_harm(tmp_path: Path, store: Any) -> None:
    logs = [log_of(mirror(tmp_path / name)) for name in ("one", "two")]
    both = [log.begin(3, "hashes") for log in logs]
    for files in both:
        files.write("hashes", b"the same")
    for files in both:
        files.commit({"documents": 1})
    found = log_of(mirror(tmp_path / "three"))
    assert list(found) == [(3, {"documents": 1})]
    assert found.path(3, "hashes").read_bytes() == b"the same"


@pytest.mark.parametrize("size", [0, 1, PART_BYTES, PART_BYTES + 1, 3 * PART_BYTES])
def test_files_of_any_size_come_back_as_they_went(tmp_path: Path, store: Any, size: int) -> None:
    data = bytes(range(251)) * (size // 251 + 1)
    commit(log_of(mirror(tmp_path / "here")), 1, data[:size])
    assert log_of(mirror(tmp_path / "there")).path(1, "hashes").read_bytes() == data[:size]


def test_between_stages_what_can_be_fetched_again_goes_and_records_stay(tmp_path: Path, store: Any) -> None:
    side = mirror(tmp_path, kept_bytes=250)
    log = log_of(side)
    for unit in range(4):
        commit(log, unit, bytes([unit]) * 100)
    side.evict()
    kept = sorted(path.name for path in (tmp_path / "scan").iterdir() if path.suffix != ".json")
    assert len(kept) == 2
    assert len(list((tmp_path / "scan").glob("*.json"))) == 4
    for unit in range(4):
        assert log.path(unit, "hashes").read_bytes() == bytes([unit]) * 100


def test_sizes_are_told_without_fetching(tmp_path: Path, store: Any) -> None:
    log = log_of(mirror(tmp_path / "here"))
    for unit in range(3):
        commit(log, unit, bytes(unit * 10))
    there = mirror(tmp_path / "there")
    found = log_of(there)
    assert there.sizes(found.place(unit, "hashes") for unit in range(3)) == [0, 10, 20]
    assert not found.place(1, "hashes").exists()
    with pytest.raises(StorageError, match="is gone"):
        there.sizes([found.place(9, "hashes")])


def test_a_cleared_stage_is_empty_for_all(tmp_path: Path, store: Any) -> None:
    log = log_of(mirror(tmp_path / "here"))
    commit(log, 1, b"abc")
    log.clear()
    assert 1 not in log
    assert len(log_of(mirror(tmp_path / "there"))) == 0
    assert store.find("/bucket") == []


def test_a_record_that_is_gone_is_an_error_that_names_it(tmp_path: Path, store: Any) -> None:
    with pytest.raises(StorageError, match=f"{3:020d}.json"):
        log_of(mirror(tmp_path)).record(3)


def test_scratch_of_living_processes_stays(tmp_path: Path) -> None:
    first = Scratch(tmp_path)
    second = Scratch(tmp_path)
    assert first.folder.is_dir() and second.folder.is_dir()
    first.close()
    second.close()
    assert list(tmp_path.iterdir()) == []
