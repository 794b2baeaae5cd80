"""DuckDB as the storage of an index: columns that are quick to ask about, in half of SQLite's space.

Held in memory: 32 MB by its own limit, one thread, and about 50 MB that its code and its heap take beyond
and that no setting bounds: the plan watches it (`index_database.DUCKDB_HELD`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from krill.corpus.arrays import as_arrow
from krill.corpus.buffers import text_column_of
from krill.dedup.index_database import damaged_database
from krill.errors import MissingExtra, StorageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MEMORY_LIMIT: Final = "32MB"
_ROWS: Final = 16_384
# The file may come from elsewhere: nothing else is read, and nothing is loaded, because it says so.
_SETTINGS: Final = {
    "threads": 1,
    "memory_limit": _MEMORY_LIMIT,
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
}


def import_duckdb() -> Any:
    """The library, which is an extra."""
    try:
        import duckdb
    except ImportError:
        raise MissingExtra("an index in DuckDB", "duckdb") from None
    return duckdb


class DuckdbDatabase:
    """The database at `path`; opened to `write`, it is made if it is not there."""

    def __init__(self, path: Path, *, write: bool) -> None:
        self._path = path
        self._library = import_duckdb()
        with self._told():
            self._connection = self._library.connect(str(path), read_only=not write, config=_SETTINGS)

    def execute(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """See `Database`."""
        with self._told():
            found: list[tuple[Any, ...]] = self._connection.execute(sql, list(values)).fetchall()
        return found

    def insert(self, run: int, hashes: NDArray[np.uint8], positions: NDArray[np.int64]) -> None:
        """See `Database`."""
        import numpy as np
        import pyarrow as pa

        data = pa.py_buffer(np.ascontiguousarray(hashes))
        column = pa.Array.from_buffers(pa.binary(hashes.shape[1]), len(hashes), [None, data])
        self._append("documents", run, {"hash": column, "position": as_arrow(positions)})

    def insert_sources(self, run: int, paths: Sequence[str]) -> None:
        """See `Database`."""
        import numpy as np

        files = as_arrow(np.arange(len(paths), dtype=np.int32))
        self._append("sources", run, {"file": files, "path": text_column_of(paths)})

    def _append(self, table: str, run: int, columns: Mapping[str, Any]) -> None:
        import pyarrow as pa

        with self._told():
            self._connection.register("block", pa.Table.from_arrays(list(columns.values()), list(columns)))
            self._connection.execute(
                f"INSERT INTO {table} SELECT {int(run)}, {', '.join(columns)} FROM block"
            )
            self._connection.unregister("block")

    def hashes(self, runs: Sequence[int]) -> Iterator[list[tuple[bytes]]]:
        """See `Database`. By ranges of rows: a result as a whole would be held as a whole."""
        if not runs:
            return
        listed = ", ".join(str(int(run)) for run in runs)
        last = self.execute("SELECT coalesce(max(rowid), -1) FROM documents")[0][0]
        for first in range(0, last + 1, _ROWS):
            yield self.execute(
                f"SELECT hash FROM documents WHERE run IN ({listed}) AND rowid >= ? AND rowid < ?",
                (first, first + _ROWS),
            )

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """See `Database`."""
        self.execute("BEGIN")
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            with suppress(self._library.Error):  # another error is on its way
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
        except self._library.Error as error:
            message = str(error).strip().splitlines()[0]
            if "Could not set lock" in message:
                raise StorageError(
                    f"another program has the index of duplicates `{self._path}` open: {message}",
                    hint="close it there, then start the same command again",
                ) from None
            if isinstance(error, self._library.IOException) and (
                "No space left" in message or "ermission denied" in message or "Cannot open file" in message
            ):
                raise StorageError(
                    f"cannot write `{self._path}`: {message}",
                    hint="free some space or change its permissions, then start the same command again",
                ) from None
            raise damaged_database(self._path, error) from None
