"""A run whose output is in an object store.

Beside the output `OUT/` there is `.OUT.krill/` with what the run is (`run.json`) and, under a folder named by
its identity, what the stages have committed; all of it is gone when the dataset is finished. An object store
can't rename, so shards are written where they belong: the dataset is there when its manifest is, which comes
last. It can't lock either: whoever starts the same run twice does the work twice, and the bytes are the same.

While a run goes away, its `run.json` says nothing any more: what is left of it belongs to nobody. Objects
that Krill did not write are never removed: with such, nothing is begun and nothing published.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import orjson

from krill.errors import ConfigError, KrillError
from krill.storage.atomic import encode_json, listed, storage_errors
from krill.storage.decision import FINISHED, START, Differences, decide, not_ours
from krill.storage.files import RECORD_SUFFIX, Files
from krill.storage.mirror import Mirror
from krill.storage.object_store import ObjectStore
from krill.storage.outputs import MANIFEST, OutputKind, refuse_foreign
from krill.storage.scratch import Scratch

RUN: Final = "run.json"
_NOBODY: Final = b"{}"


@dataclass(frozen=True, slots=True)
class RemotePlaces:
    """Where the files of a run are, on this machine and in the store that they are mirrored from."""

    stages: Path
    dataset: Path
    files: Files

    @classmethod
    def of(cls, mirror: Mirror, name: str, identity: str) -> RemotePlaces:
        """Those of the run with this identity, for the output `name`."""
        places = cls(mirror.root / _work(name) / identity, mirror.root / name, mirror)
        for folder in (places.stages, places.dataset):
            with storage_errors(folder):
                folder.mkdir(parents=True, exist_ok=True)
        return places


class RemoteRun:
    """One run's hold on its output; a context manager, as `RunFolder` is.

    `scratch` is the folder for what is on its way, or None for the system's; where several processes work on
    one run, each holds it `shared` and removes nothing, as it may be another's.
    """

    def __init__(
        self,
        output: str,
        scratch: Path | None,
        *,
        setting: str,
        differences: Differences,
        kind: OutputKind,
        shared: bool = False,
    ) -> None:
        self.output = output.rstrip("/")
        parent, self._name = _split_url(self.output, setting)
        self._work = _work(self._name)
        self._shared = shared
        self._setting = setting
        self._differences = differences
        self._kind = kind
        self._store = ObjectStore(parent)
        self._scratch_parent = scratch
        self._scratch: Scratch | None = None
        self._places: RemotePlaces | None = None
        self._gone = False

    def __enter__(self) -> RemoteRun:
        self._scratch = Scratch(self._scratch_parent)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Keep what a later command can go on with, and nothing else."""
        try:
            if not self._gone and not self._shared and self._places is not None:
                before = self.begun()
                if before is not None and not self._anything_committed(before):
                    self.discard()
        except KrillError:
            if error is None:
                raise
        finally:
            if self._scratch is not None:
                self._scratch.close()

    @property
    def places(self) -> RemotePlaces:
        """Where its files are, once it is begun."""
        assert self._places is not None
        return self._places

    @property
    def stages(self) -> Path:
        """See `RunFolder`."""
        return self.places.stages

    @property
    def dataset(self) -> Path:
        """See `RunFolder`."""
        return self.places.dataset

    @property
    def files(self) -> Files:
        """See `RunFolder`."""
        return self.places.files

    @property
    def address(self) -> str:
        """Where a worker finds the run."""
        return self.output

    def note(self, name: str, value: Any) -> None:
        """Leave something for the workers, beside what the run is."""
        self._store.write(f"{self._work}/{name}", encode_json(value))

    def finished(self) -> dict[str, Any] | None:
        """The manifest of the output that is there, or None; refuses what is not ours."""
        found = _object(self._store.read(f"{self._name}/{MANIFEST}"))
        if found is None and self._store.read(f"{self._work}/{RUN}") is None and self._store.any(self._name):
            raise not_ours(self.output, self._setting)
        return found

    def begun(self) -> dict[str, Any] | None:
        """What an unfinished run here was, or None."""
        return _object(self._store.read(f"{self._work}/{RUN}"))

    def begin(self, run: Mapping[str, Any], *, overwrite: bool) -> str:
        """See `RunFolder.begin`; only that what `overwrite` replaces is removed now, and not in the end."""
        before, finished = self.begun(), self.finished()
        if finished is not None:
            self._kind.check_replaceable(finished, self.output, self._setting)
        decision = decide(
            finished,
            before,
            run,
            overwrite=overwrite,
            committed=self._anything_committed,
            differences=self._differences,
            output=self.output,
            setting=self._setting,
        )
        if decision == START:
            if not self._shared:  # another may have started it in this moment, and what it makes is right
                self._make_room()
            self._store.write(f"{self._work}/{RUN}", orjson.dumps({**run, "overwrite": overwrite}, listed))
        elif decision == FINISHED and not self._shared and self._store.any(self._work):
            self._remove_work()  # what a run that was killed after its last shard could not
        assert self._scratch is not None
        mirror = Mirror(self._scratch.folder, self._store)
        self._places = RemotePlaces.of(mirror, self._name, run["identity"])
        return decision

    def publish(self, *, threads: int = 1) -> None:
        """Send what belongs to the dataset as a whole, its manifest last, and remove everything else."""
        manifest = self.dataset / MANIFEST
        self._ours("the finished work is kept, without its manifest")
        small = [path for path in self.dataset.rglob(f"*{RECORD_SUFFIX}") if path != manifest]
        self.files.send([*sorted(small), manifest])
        self._gone = True
        self._remove_work()

    def discard(self, *, threads: int = 1) -> None:
        """Leave no trace of an unfinished run."""
        self._gone = True
        self._store.write(f"{self._work}/{RUN}", _NOBODY)
        self._store.remove_objects(self._objects()[0])
        self._remove_work()

    def _make_room(self) -> None:
        """Remove what is there of a finished or unfinished run; anything else there is refused."""
        ours = self._ours("nothing there was touched")
        self._store.write(f"{self._work}/{RUN}", _NOBODY)
        self._store.remove_objects([name for name in ours if name.endswith(f"/{MANIFEST}")])
        self._store.remove_objects([name for name in ours if not name.endswith(f"/{MANIFEST}")])
        self._remove_work()

    def _ours(self, kept: str) -> list[str]:
        """What Krill wrote in the output's place; a StorageError if there is anything else.

        It goes by the names: runs that were not finished have left no list.
        """
        ours, foreign = self._objects()
        refuse_foreign(
            foreign,
            self.output,
            kept=kept,
            hint=f"move that elsewhere and run the same command, or choose another `{self._setting}`",
        )
        return ours

    def _objects(self) -> tuple[list[str], list[str]]:
        """What is in the output's place: the names of our objects in the store, and those of others there."""
        ours, foreign = [], []
        for name in self._store.sizes(self._name):
            inside = name.removeprefix(f"{self._name}/")
            if self._kind.may_be_left(inside):
                ours.append(name)
            else:
                foreign.append(inside)
        return ours, foreign

    def _remove_work(self) -> None:
        self._store.write(f"{self._work}/{RUN}", _NOBODY)
        self._store.remove(self._work, first=RECORD_SUFFIX)

    def _anything_committed(self, before: Mapping[str, Any]) -> bool:
        return self._store.any(f"{self._work}/{before.get('identity')}")


class RemoteSide:
    """A worker's side of such a run: the same files, through a mirror of its own."""

    def __init__(self, output: str) -> None:
        parent, self._name = _split_url(output, "output")
        self._store = ObjectStore(parent)

    def read(self, name: str) -> dict[str, Any] | None:
        """What the run is, or what was left for workers; None if it is not there."""
        return _object(self._store.read(f"{_work(self._name)}/{name}"))

    def places(self, identity: str, scratch: Scratch) -> RemotePlaces:
        """Where its files are."""
        return RemotePlaces.of(Mirror(scratch.folder, self._store), self._name, identity)


def _split_url(output: str, setting: str) -> tuple[str, str]:
    """The folder that an output is in, and its name there."""
    protocol, _, path = output.rstrip("/").partition("://")
    folder, slash, name = path.rpartition("/")
    if not slash or not folder or not name:
        raise ConfigError(
            f"`{setting}` is `{output}`, which is a whole bucket",
            hint=f"name a folder in it, such as `{output}/dataset`",
        )
    return f"{protocol}://{folder}", name


def _work(name: str) -> str:
    return f".{name}.krill"


def _object(data: bytes | None) -> dict[str, Any] | None:
    """What a JSON object says; None if it says nothing."""
    try:
        found = None if data is None else orjson.loads(data)
    except ValueError:
        return None
    return found if isinstance(found, dict) and found else None
