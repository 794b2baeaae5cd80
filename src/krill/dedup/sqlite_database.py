"""SQLite as the storage of an index: a file that any language opens.

Held in memory: its page cache of 4 MB, and a block of rows as Python's objects.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from krill.dedup.index_database import damaged_database
from krill.errors import StorageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_CACHE_KIB: Final = 4096
_ROWS: Final = 4096
# A value that is longer is none of ours: it is refused before it is read.
_LONGEST_VALUE: Final = 1 << 20
# Seconds that another program may keep the file: a query of somebody's, say.
_PATIENCE: Final = 60.0
_BUSY: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_UNWRITABLE: Final = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_IOERR,
)


class SqliteDatabase:
    """The database at `path`; opened to `write`, it is made if it is not there."""

    def __init__(self, path: Path, *, write: bool) -> None:
        self._path = path
        with self._told():
            # Also for reading: only who may write can undo what a process left half done when it was killed.
            mode = "rwc" if write else "rw"
            address = f"file:{quote(os.fsencode(path.absolute()))}?mode={mode}"
            self._connection = sqlite3.connect(address, uri=True, timeout=_PATIENCE, isolation_level=None)
        try:
            self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
            for pragma in ("trusted_schema = OFF", f"cache_size = -{_CACHE_KIB}", "mmap_size = 0"):
                self.execute(f"PRAGMA {pragma}")
            self.execute("PRAGMA synchronous = FULL")
            self.execute("SELECT count(*) FROM sqlite_master")
        except BaseException:
            self.close()
            raise

    def execute(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """See `Database`."""
        with self._told():
            return self._connection.execute(sql, values).fetchall()

    def insert(self, run: int, hashes: NDArray[np.uint8], positions: NDArray[np.int64]) -> None:
        """See `Database`."""
        import numpy as np

        width = hashes.shape[1]
        whole = np.ascontiguousarray(hashes).view(np.dtype((np.void, width))).reshape(-1)
        for first in range(0, len(whole), _ROWS):
            some = zip(
                whole[first : first + _ROWS].tolist(), positions[first : first + _ROWS].tolist(), strict=True
            )
            with self._told():
                self._connection.executemany(f"INSERT INTO documents VALUES ({int(run)}, ?, ?)", some)

    def insert_sources(self, run: int, paths: Sequence[str]) -> None:
        """See `Database`."""
        rows = ((int(run), file, path) for file, path in enumerate(paths))
        with self._told():
            self._connection.executemany("INSERT INTO sources VALUES (?, ?, ?)", rows)

    def hashes(self, runs: Sequence[int]) -> Iterator[list[tuple[bytes]]]:
        """See `Database`."""
        if not runs:
            return
        listed = ", ".join(str(int(run)) for run in runs)
        with self._told():
            cursor = self._connection.execute(f"SELECT hash FROM documents WHERE run IN ({listed})")
        while True:
            with self._told():
                rows = cursor.fetchmany(_ROWS)
            if not rows:
                return
            yield rows

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """See `Database`."""
        self.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.rollback()
            raise

    def close(self) -> None:
        """See `Database`."""
        self._connection.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Errors of the library in our words."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in _BUSY:
                raise StorageError(
                    f"another program has kept the index of duplicates `{self._path}` for {_PATIENCE:.0f} s",
                    hint="close it there, then start the same command again",
                ) from None
            if code in _UNWRITABLE:
                raise StorageError(
                    f"cannot write `{self._path}`: {error}",
                    hint="free some space or change its permissions, then start the same command again",
                ) from None
            raise damaged_database(self._path, error) from None
