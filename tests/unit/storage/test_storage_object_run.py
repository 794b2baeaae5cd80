"""A run in an object store may be killed between any two requests: the same command ends it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from krill.errors import ConfigError, StorageError
from krill.storage import CommitLog
from krill.storage.mirror import Scratch
from krill.storage.object_storage import ObjectStorage, RunReader
from krill.storage.outputs import OutputKind
from krill.storage.run import LAYOUT, RUN, Run

OUTPUT = "memory://bucket/out/set"
WORK = "/bucket/out/.set.krill"
NAMES = re.compile(r"data-\d+\.arrow|state\.json")
KIND = OutputKind(
    "test", lambda manifest: [*(f"data-{unit}.arrow" for unit in range(3)), "state.json"], NAMES
)


@pytest.fixture
def store() -> Iterator[Any]:
    files = fsspec.filesystem("memory")
    yield files
    files.store.clear()


class Killed(BaseException):
    """The process is no more: nothing that it would do at its end happens."""


class Power:
    """Fails for good after so many changes of the store."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left: int | None = None
        for name in ("pipe_file", "_rm"):
            monkeypatch.setattr(MemoryFileSystem, name, self._counted(getattr(MemoryFileSystem, name)))

    def _counted(self, change: Any) -> Any:
        def counted(*arguments: Any, **options: Any) -> Any:
            if self.left == 0:
                raise Killed
            if self.left is not None:
                self.left -= 1
            return change(*arguments, **options)

        return counted


def identified(identity: str) -> dict[str, Any]:
    return {"krill": "1", "identity": identity, "config": {"name": identity}}


def manifest(identity: str) -> bytes:
    return json.dumps({"identity": identity, "krill": "1", "command": "test"}).encode()


def opened(folder: Path) -> Run:
    return Run(ObjectStorage(OUTPUT, folder, setting="output", kind=KIND))


def work(folder: Path, identity: str, *, overwrite: bool = False, units: int = 2) -> str:
    """A run that commits some units, writes a shard for each, and publishes; what it found to do."""

    with opened(folder) as run:
        state = run.begin(identified(identity), overwrite=overwrite)
        if state == "finished":
            return state
        encoded, packed = (CommitLog(run.stages / stage, run.paths.files) for stage in ("encode", "pack"))
        for unit in range(units):
            if unit not in encoded:
                files = encoded.begin(unit, "tokens")
                files.write("tokens", identity.encode() * 3)
                files.commit({})
        for unit in range(units):
            if unit not in packed:
                shard = run.dataset / f"data-{unit}.arrow"
                shard.write_bytes(encoded.path(unit, "tokens").read_bytes())
                packed.commit(unit, {}, [shard])
        (run.dataset / "state.json").write_bytes(identity.encode())
        (run.dataset / "krill-run.json").write_bytes(manifest(identity))
        run.publish()
        return state


def expected(identity: str, units: int = 2) -> dict[str, bytes]:
    return {
        **{f"/bucket/out/set/data-{unit}.arrow": identity.encode() * 3 for unit in range(units)},
        "/bucket/out/set/krill-run.json": manifest(identity),
        "/bucket/out/set/state.json": identity.encode(),
    }


def there(store: Any) -> dict[str, bytes]:
    return {name: store.cat(name) for name in store.find("/bucket")}


def test_a_run_publishes_its_dataset_and_nothing_else(tmp_path: Path, store: Any) -> None:
    assert work(tmp_path, "a") == "start"
    assert there(store) == expected("a")
    assert work(tmp_path, "a") == "finished"
    assert list(tmp_path.iterdir()) == []


def kill_at_every_change(
    store: Any, power: Power, folder: Path, before: dict[str, bytes], identity: str, **options: Any
) -> Iterator[int]:
    """Kill a run after each number of changes; yields each time, with the store as the kill left it."""
    for changes in range(1000):
        store.store.clear()
        for name, data in before.items():
            store.pipe(name, data)
        power.left = changes
        try:
            work(folder, identity, **options)
        except Killed:
            power.left = None
            yield changes
        else:
            assert changes > 8
            power.left = None
            return


def test_a_first_run_killed_at_any_change_is_ended_by_the_same_command(
    tmp_path: Path, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    power = Power(monkeypatch)
    for _ in kill_at_every_change(store, power, tmp_path, {}, "a"):
        work(tmp_path, "a")
        assert there(store) == expected("a")


def test_a_run_killed_at_any_change_makes_room_for_one_that_overwrites_it(
    tmp_path: Path, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    power = Power(monkeypatch)
    for _ in kill_at_every_change(store, power, tmp_path, {}, "a", units=3):
        assert work(tmp_path, "b", overwrite=True) == "start"
        assert there(store) == expected("b")


def test_an_overwriting_run_killed_at_any_change_is_ended_by_the_same_command(
    tmp_path: Path, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    power = Power(monkeypatch)
    before = expected("a", units=3)
    for changes in kill_at_every_change(store, power, tmp_path, before, "b", overwrite=True):
        left = there(store)
        whole = all(left.get(name) == data for name, data in before.items())
        assert whole or "/bucket/out/set/krill-run.json" not in left or left.items() >= expected("b").items()
        if changes < 2:
            work(tmp_path, "b", overwrite=True)
        else:
            work(tmp_path, "b")
        assert there(store) == expected("b")


def test_an_unfinished_run_that_was_made_differently_is_not_mixed_with(
    tmp_path: Path, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    power = Power(monkeypatch)
    power.left = 12
    with pytest.raises(Killed):
        work(tmp_path, "a")
    power.left = None
    with pytest.raises(ConfigError, match="an unfinished run for `memory://bucket/out/set` was made diff"):
        work(tmp_path, "b")


def test_a_run_that_fails_before_its_first_commit_leaves_nothing(tmp_path: Path, store: Any) -> None:
    with (
        pytest.raises(ZeroDivisionError),
        opened(tmp_path) as run,
    ):
        run.begin(identified("a"), overwrite=False)
        run.note("worker.json", {})
        raise ZeroDivisionError
    assert there(store) == {}
    assert list(tmp_path.iterdir()) == []


def test_a_worker_reads_what_was_left_for_it(tmp_path: Path, store: Any) -> None:
    with opened(tmp_path) as run:
        run.begin(identified("a"), overwrite=False)
        run.note("worker.json", {"settings": 1})
        CommitLog(run.stages / "scan", run.paths.files).commit(3, {"documents": 5})
        side = RunReader(run.storage.address)
        assert side.read(RUN) == {**identified("a"), "layout": LAYOUT, "overwrite": False}
        assert side.read("worker.json") == {"settings": 1}
        assert side.read("nothing.json") is None
        scratch = Scratch(tmp_path)
        paths = side.paths("a", scratch)
        assert CommitLog(paths.stages / "scan", paths.files).record(3) == {"documents": 5}
        scratch.close()


NOTES = "/bucket/out/set/NOTES.md"


def test_an_output_with_objects_of_others_is_not_overwritten(tmp_path: Path, store: Any) -> None:
    work(tmp_path, "a")
    store.pipe(NOTES, b"mine")
    with pytest.raises(
        StorageError, match=r"holds `NOTES\.md`, which Krill did not write: nothing there"
    ) as no:
        work(tmp_path, "b", overwrite=True)
    assert no.value.hint is not None and "move that elsewhere" in no.value.hint
    assert there(store) == {**expected("a"), NOTES: b"mine"}
    store.rm(NOTES)
    assert work(tmp_path, "b", overwrite=True) == "start"
    assert there(store) == expected("b")


def test_an_object_that_comes_while_a_run_works_holds_up_its_publication(
    tmp_path: Path, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = ObjectStorage.publish

    def late(storage: ObjectStorage, **options: Any) -> None:
        store.pipe(NOTES, b"mine")
        publish(storage, **options)

    monkeypatch.setattr(ObjectStorage, "publish", late)
    with pytest.raises(StorageError, match="which Krill did not write: the finished work is kept"):
        work(tmp_path, "a")
    monkeypatch.undo()
    assert store.cat(NOTES) == b"mine"
    assert "/bucket/out/set/krill-run.json" not in there(store)
    store.rm(NOTES)
    assert work(tmp_path, "a") == "continue"
    assert there(store) == expected("a")


def test_a_run_that_leaves_no_trace_leaves_the_objects_of_others(tmp_path: Path, store: Any) -> None:
    with opened(tmp_path) as run:
        run.begin(identified("a"), overwrite=False)
        store.pipe(NOTES, b"mine")
        store.pipe("/bucket/out/set/data-0.arrow", b"ours")
        run.discard()
    assert there(store) == {NOTES: b"mine"}
