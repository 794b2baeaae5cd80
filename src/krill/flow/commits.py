"""The commit log: one small JSON record per finished unit of a stage.

A unit's artifacts are written first, each under a temporary name, synced and renamed; then its record, the
same way. A unit is done if and only if its record is there, so a run may be killed at any moment. Records
are files rather than lines of one journal, because units of one stage may be finished by several processes
or machines, and because object stores can't append. Held in memory: one number per finished unit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from krill.errors import StorageError
from krill.flow.atomic import AtomicFile, atomic_writer, storage_errors

_SUFFIX = ".json"


class CommitLog:
    """The finished units of one stage, in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with storage_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self._done = {int(path.stem) for path in folder.glob("*" + _SUFFIX) if path.stem.isdigit()}

    def __contains__(self, unit: int) -> bool:
        return unit in self._done

    def __len__(self) -> int:
        return len(self._done)

    def __iter__(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Finished units and their records, in input order, read one at a time."""
        for unit in sorted(self._done):
            yield unit, self.record(unit)

    def record(self, unit: int) -> dict[str, Any]:
        """What was committed for `unit`."""
        path = self._record_path(unit)
        try:
            record = orjson.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            raise StorageError(
                f"the record `{path}` can't be read: {error}", hint="start anew with --overwrite"
            ) from None
        assert isinstance(record, dict)
        return record

    def path(self, unit: int, name: str) -> Path:
        """Where the unit's artifact `name` is."""
        return self.folder / f"{unit:020d}.{name}"

    def begin(self, unit: int, *names: str) -> UnitFiles:
        """Open the artifacts `names` of a unit for writing."""
        return UnitFiles(self, unit, names)

    def commit(self, unit: int, record: dict[str, Any]) -> None:
        """The unit is done; its artifacts must be in place."""
        with atomic_writer(self._record_path(unit)) as file:
            file.write(orjson.dumps(record, option=orjson.OPT_SORT_KEYS))
        self._done.add(unit)

    def _record_path(self, unit: int) -> Path:
        return self.folder / f"{unit:020d}{_SUFFIX}"


@contextmanager
def reading_artifact(path: Path) -> Iterator[None]:
    """Turn an OSError of the body, which reads what an earlier stage has committed, into a StorageError."""
    try:
        yield
    except OSError as error:
        raise damaged(path, f"can't be read: {error.strerror or error}") from error


def damaged(path: Path, fact: str) -> StorageError:
    """An artifact is not as it was committed: somebody else has changed it."""
    return StorageError(f"`{path}`, kept by an earlier stage, {fact}", hint="start anew with --overwrite")


class UnitFiles:
    """The artifacts of one unit while they are written; they appear with the commit, or not at all."""

    def __init__(self, log: CommitLog, unit: int, names: tuple[str, ...]) -> None:
        self._log = log
        self._unit = unit
        self._files = {name: AtomicFile(log.path(unit, name)) for name in names}

    def write(self, name: str, data: Any) -> int:
        """Append to an artifact; returns where the data begins."""
        file = self._files[name]
        start = file.tell()
        file.write(data)
        return start

    def commit(self, record: dict[str, Any]) -> int:
        """Put the artifacts in place, then the record; returns the artifacts' bytes."""
        for file in self._files.values():
            file.commit()
        self._log.commit(self._unit, record)
        return sum(file.tell() for file in self._files.values())

    def abort(self) -> None:
        """Leave nothing behind."""
        for file in self._files.values():
            file.abort()
