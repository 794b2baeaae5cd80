"""The databases that an index can be stored in: SQLite, a file that any language opens, and DuckDB, whose
columns are quick to query, in half of SQLite's space.

Held in memory: of SQLite its page cache of 4 MB, and a block of rows as Python's objects; of DuckDB 32 MB by
its own limit, one thread, and about 50 MB that its code and its heap take beyond and that no setting bounds:
the plan watches it (`index_database.DUCKDB_HELD`).
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from krill.corpus.arrays import as_arrow
from krill.corpus.buffers import text_column_of
from krill.errors import MissingExtra, StorageError
from krill.storage.atomic import undo_on_error

_SQLITE_CACHE_KIB: Final = 4096
_SQLITE_ROWS: Final = 4096
# A value that is longer is none of ours: it is refused before it is read.
_LONGEST_VALUE: Final = 1 << 20
# Seconds that another program may keep the file: a query, say.
_PATIENCE: Final = 60.0

_DUCKDB_ROWS: Final = 16_384
# The file may come from elsewhere: nothing else is read, and nothing is loaded, because it says so.
_DUCKDB_SETTINGS: Final = {
    "threads": 1,
    "memory_limit": "32MB",
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
}


class Database(ABC):
    """An open database. Errors of the library are raised as `StorageError`."""

    _begin: str
    """The statement that begins a transaction."""

    def __init__(self, path: Path, library: Any) -> None:
        self._path = path
        self._library = library
        self._connection: Any = None

    def execute(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement; returns its rows, which must be few."""
        with self._library_errors():
            found: list[tuple[Any, ...]] = self._connection.execute(sql, list(values)).fetchall()
        return found

    @abstractmethod
    def insert(self, run: int, hashes: NDArray[np.uint8], positions: NDArray[np.int64]) -> None:
        """A block of rows; `hashes` has one of them in each row."""

    @abstractmethod
    def insert_sources(self, run: int, paths: Sequence[str]) -> None:
        """The files that a run has read, in their order."""

    def hashes(self, runs: Sequence[int]) -> Iterator[list[tuple[bytes]]]:
        """The hashes of these runs, some at a time."""
        if runs:
            yield from self._hashes(f"run IN ({', '.join(str(int(run)) for run in runs)})")

    @abstractmethod
    def _hashes(self, which: str) -> Iterator[list[tuple[bytes]]]: ...

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What is done inside is done whole, or not at all."""
        self.execute(self._begin)
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            with suppress(self._library.Error):  # another error is on its way
                self._connection.rollback()
            raise

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def _library_errors(self) -> Iterator[None]:
        try:
            yield
        except self._library.Error as error:
            lines = str(error).strip().splitlines()
            message = lines[0] if lines else "no reason given"
            if (busy := self._busy(error, message)) is not None:
                hint = "close it there, then start the same command again"
                raise StorageError(busy, hint=hint) from None
            if self._unwritable(error, message):
                raise StorageError(
                    f"cannot write `{self._path}`: {message}",
                    hint="free some space or change its permissions, then start the same command again",
                ) from None
            raise damaged_database(self._path, message) from None

    @abstractmethod
    def _busy(self, error: Any, message: str) -> str | None:
        """What to say if another program keeps the file."""

    @abstractmethod
    def _unwritable(self, error: Any, message: str) -> bool: ...


def damaged_database(path: Path, fact: str) -> StorageError:
    return StorageError(
        f"the index of duplicates `{path}` is damaged: {fact}",
        hint="put back a copy of it, or remove its folder: what earlier runs kept is then unknown",
    )


class SqliteDatabase(Database):
    """The database at `path`; opened to `write`, it is made if it is not there."""

    _begin = "BEGIN IMMEDIATE"

    def __init__(self, path: Path, *, write: bool) -> None:
        import sqlite3

        super().__init__(path, sqlite3)
        with self._library_errors():
            # Also for reading: only a connection that may write can undo what a process left half done when
            # it was killed.
            mode = "rwc" if write else "rw"
            address = f"file:{quote(os.fsencode(path.absolute()))}?mode={mode}"
            self._connection = sqlite3.connect(address, uri=True, timeout=_PATIENCE, isolation_level=None)
        with undo_on_error(self.close):
            self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
            for pragma in ("trusted_schema = OFF", f"cache_size = -{_SQLITE_CACHE_KIB}", "mmap_size = 0"):
                self.execute(f"PRAGMA {pragma}")
            self.execute("PRAGMA synchronous = FULL")
            self.execute("SELECT count(*) FROM sqlite_master")

    def insert(self, run: int, hashes: NDArray[np.uint8], positions: NDArray[np.int64]) -> None:
        width = hashes.shape[1]
        whole = np.ascontiguousarray(hashes).view(np.dtype((np.void, width))).reshape(-1)
        for first in range(0, len(whole), _SQLITE_ROWS):
            some = slice(first, first + _SQLITE_ROWS)
            rows = zip(whole[some].tolist(), positions[some].tolist(), strict=True)
            with self._library_errors():
                self._connection.executemany(f"INSERT INTO documents VALUES ({int(run)}, ?, ?)", rows)

    def insert_sources(self, run: int, paths: Sequence[str]) -> None:
        rows = ((int(run), file, path) for file, path in enumerate(paths))
        with self._library_errors():
            self._connection.executemany("INSERT INTO sources VALUES (?, ?, ?)", rows)

    def _hashes(self, which: str) -> Iterator[list[tuple[bytes]]]:
        with self._library_errors():
            cursor = self._connection.execute(f"SELECT hash FROM documents WHERE {which}")
        while True:
            with self._library_errors():
                rows = cursor.fetchmany(_SQLITE_ROWS)
            if not rows:
                return
            yield rows

    def _busy(self, error: Any, message: str) -> str | None:
        if self._code(error) not in (self._library.SQLITE_BUSY, self._library.SQLITE_LOCKED):
            return None
        return f"another program has kept the index of duplicates `{self._path}` for {_PATIENCE:.0f} s"

    def _unwritable(self, error: Any, message: str) -> bool:
        names = ("FULL", "READONLY", "CANTOPEN", "PERM", "IOERR")
        return self._code(error) in [getattr(self._library, f"SQLITE_{name}") for name in names]

    def _code(self, error: Any) -> int:
        return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


class DuckdbDatabase(Database):
    _begin = "BEGIN"

    def __init__(self, path: Path, *, write: bool) -> None:
        super().__init__(path, import_duckdb())
        with self._library_errors():
            self._connection = self._library.connect(str(path), read_only=not write, config=_DUCKDB_SETTINGS)

    def insert(self, run: int, hashes: NDArray[np.uint8], positions: NDArray[np.int64]) -> None:
        data = pa.py_buffer(np.ascontiguousarray(hashes))
        column = pa.Array.from_buffers(pa.binary(hashes.shape[1]), len(hashes), [None, data])
        self._append("documents", run, {"hash": column, "position": as_arrow(positions)})

    def insert_sources(self, run: int, paths: Sequence[str]) -> None:
        files = as_arrow(np.arange(len(paths), dtype=np.int32))
        self._append("sources", run, {"file": files, "path": text_column_of(paths)})

    def _append(self, table: str, run: int, columns: Mapping[str, Any]) -> None:
        with self._library_errors():
            self._connection.register("block", pa.Table.from_arrays(list(columns.values()), list(columns)))
            self._connection.execute(
                f"INSERT INTO {table} SELECT {int(run)}, {', '.join(columns)} FROM block"
            )
            self._connection.unregister("block")

    def _hashes(self, which: str) -> Iterator[list[tuple[bytes]]]:
        # By ranges of rows: a result as a whole would be held as a whole.
        last = self.execute("SELECT coalesce(max(rowid), -1) FROM documents")[0][0]
        for first in range(0, last + 1, _DUCKDB_ROWS):
            yield self.execute(
                f"SELECT hash FROM documents WHERE {which} AND rowid >= ? AND rowid < ?",
                (first, first + _DUCKDB_ROWS),
            )

    def _busy(self, error: Any, message: str) -> str | None:
        if "Could not set lock" not in message:
            return None
        return f"another program has the index of duplicates `{self._path}` open: {message}"

    def _unwritable(self, error: Any, message: str) -> bool:
        reasons = ("No space left", "ermission denied", "Cannot open file")
        return isinstance(error, self._library.IOException) and any(reason in message for reason in reasons)


def import_duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise MissingExtra("an index in DuckDB", "duckdb") from None
    return duckdb
