"""A run's output in an object store.

In: the output's URL. Out: its objects, the manifest last. Held in memory: names of objects while they are
listed.

Beside the output `OUT/` there is `.OUT.krill/` with what the run is (`run.json`) and, under a folder named by
its identity, what the stages have committed; all of it is gone when the dataset is finished. An object store
can't rename, so shards are written where they belong: the dataset is there when its manifest is, which comes
last. It can't lock either: whoever starts the same run twice does the work twice, and the bytes are the same.

While a run is being removed, its `run.json` is empty: what is left of it belongs to nobody. Objects
that Krill did not write are never removed: with such, nothing is begun and nothing published.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final

import orjson

from krill.errors import ConfigError, KrillError
from krill.storage.atomic import encode_json, listed, make_folder
from krill.storage.commits import RECORD_SUFFIX, RunPaths
from krill.storage.mirror import Mirror, Scratch
from krill.storage.object_store import ObjectStore
from krill.storage.outputs import MANIFEST, OutputKind, not_ours, refuse_foreign
from krill.storage.run import CONTINUE, RUN, State

_NOBODY: Final = b"{}"


class ObjectStorage:
    """Storage for a run whose output is in an object store. `scratch` is the folder for what is on its way,
    or None for the system's; where several processes work on one run, each holds it `shared` and removes
    nothing, as it may be another's. What `overwrite` replaces is removed when the run starts.
    """

    def __init__(
        self, output: str, scratch: Path | None, *, setting: str, kind: OutputKind, shared: bool = False
    ) -> None:
        self.output = output.rstrip("/")
        self.setting = setting
        self.command = kind.command
        parent, self._name = _split_url(self.output, setting)
        self._work = _work(self._name)
        self._shared = shared
        self._kind = kind
        self._store = ObjectStore(parent)
        self._scratch_parent = scratch
        self._scratch: Scratch | None = None
        self._paths: RunPaths | None = None
        self._gone = False

    def open(self) -> None:
        self._scratch = Scratch(self._scratch_parent)

    def close(self, *, failing: bool) -> None:
        try:
            if not self._gone and not self._shared and self._paths is not None:
                begun = self.begun()
                if begun is not None and not self.committed(begun):
                    self.discard()
        except KrillError:
            if not failing:
                raise
        finally:
            if self._scratch is not None:
                self._scratch.close()

    def exclusive(self) -> AbstractContextManager[None]:
        return nullcontext()

    @property
    def paths(self) -> RunPaths:
        assert self._paths is not None, "the run was not begun"
        return self._paths

    @property
    def address(self) -> str:
        return self.output

    def note(self, name: str, value: Any) -> None:
        self._store.write(f"{self._work}/{name}", encode_json(value))

    def noted(self, name: str) -> dict[str, Any] | None:
        return _object(self._store.read(f"{self._work}/{name}"))

    def finished(self) -> dict[str, Any] | None:
        found = _object(self._store.read(f"{self._name}/{MANIFEST}"))
        if found is None and self._store.read(f"{self._work}/{RUN}") is None and self._store.any(self._name):
            raise not_ours(self.output, self.setting)
        return found

    def begun(self) -> dict[str, Any] | None:
        return _object(self._store.read(f"{self._work}/{RUN}"))

    def committed(self, begun: Mapping[str, Any]) -> bool:
        return self._store.any(f"{self._work}/{begun.get('identity')}")

    def prepare(self, run: Mapping[str, Any], finished: Mapping[str, Any] | None) -> None:
        if not self._shared:  # another may have started it in this moment, and what it makes is right
            self._make_room()
        self._store.write(f"{self._work}/{RUN}", orjson.dumps(run, listed))
        self._open_paths(run)

    def resume(
        self, begun: Mapping[str, Any], run: Mapping[str, Any], finished: Mapping[str, Any] | None
    ) -> State:
        self._open_paths(run)
        return CONTINUE

    def _open_paths(self, run: Mapping[str, Any]) -> None:
        assert self._scratch is not None
        self._paths = _paths_of(Mirror(self._scratch.folder, self._store), self._name, run["identity"])

    def tidy(self) -> None:
        if not self._shared and self._store.any(self._work):
            self._remove_work()

    def publish(self, *, threads: int = 1) -> None:
        """Upload what belongs to the dataset as a whole, its manifest last, and remove everything else."""
        manifest = self.paths.dataset / MANIFEST
        self._ours("the finished work is kept, without its manifest")
        small = [path for path in self.paths.dataset.rglob(f"*{RECORD_SUFFIX}") if path != manifest]
        self.paths.files.publish([*sorted(small), manifest])
        self._gone = True
        self._remove_work()

    def discard(self, *, threads: int = 1) -> None:
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
        refuse_foreign(foreign, self.output, self.setting, kept=kept)
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


class RunReader:
    """A worker's side of such a run: the same files, through a mirror of its own."""

    def __init__(self, output: str) -> None:
        parent, self._name = _split_url(output, "output")
        self._store = ObjectStore(parent)

    def read(self, name: str) -> dict[str, Any] | None:
        """What the run is, or what was left for workers; None if it is not there."""
        return _object(self._store.read(f"{_work(self._name)}/{name}"))

    def paths(self, identity: str, scratch: Scratch) -> RunPaths:
        return _paths_of(Mirror(scratch.folder, self._store), self._name, identity)


def _paths_of(mirror: Mirror, name: str, identity: str) -> RunPaths:
    paths = RunPaths(mirror.root / _work(name) / identity, mirror.root / name, mirror)
    for folder in (paths.stages, paths.dataset):
        make_folder(folder)
    return paths


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
