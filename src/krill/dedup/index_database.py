"""The persistent index in a database that people can open: SQLite, or DuckDB (extra `duckdb`).

In: what a run noted of its documents, which of them were kept, and where each comes from. Out: rows of a
database; and, for a run that is to see them, a file of the same numbers as `DedupIndex` has: what is kept is
decided by the same code. Held in memory: one block of rows, and what the database holds (`SQLITE_BYTES`,
`DUCKDB_*`).

A run's rows count when its row in `runs` says `finished`. `prepare` writes them in blocks, each of them a
transaction, under a run that says `writing`, and at the end `pending`; `commit` makes it `finished`, and in
the same transaction removes what an earlier run of its identity had kept. Whatever was `writing` when its
process died is removed by the next one that writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from krill.dedup.databases import Database, DuckdbDatabase, SqliteDatabase, damaged_database
from krill.dedup.index import (
    DATABASES,
    IndexFolder,
    IndexGeneration,
    Pending,
    check_identity,
    kept_blocks,
    record_bytes,
)
from krill.errors import StorageError
from krill.storage.atomic import atomic_writer

SQLITE_BYTES: Final = 16 * 10**6
"""What SQLite and a block of rows hold: 13 MB with 3 million documents, of which 4 MB are its page cache."""
DUCKDB_HELD: Final = 36 * 10**6
"""What stays with DuckDB after its first use, its file closed: 33 MB of code and its own heap."""
DUCKDB_WORK: Final = 46 * 10**6
"""What it holds beyond while it reads or writes, with a `memory_limit` of 32 MB: 28 MB with 300,000
documents, 44 MB with 2 million."""

# What a transaction writes: half of DuckDB's row group, so that its files stay as small as in one go.
_BLOCK_ROWS: Final = 61_440
_BLOCK_BYTES: Final = 4 * 10**6
_POSITION_BYTES: Final = 8
_MOST_RUNS: Final = 2**31 - 1
_SCHEMA: Final = (
    "CREATE TABLE runs (run INTEGER, identity TEXT, state TEXT, output TEXT, documents BIGINT)",
    "CREATE TABLE sources (run INTEGER, file INTEGER, path TEXT)",
    "CREATE TABLE documents (run INTEGER, hash BLOB, position BIGINT)",
    # The view that people ask: one row for each document that a finished run kept.
    "CREATE VIEW seen AS SELECT lower(hex(documents.hash)) AS hash, documents.position AS position,"
    " runs.identity AS run, runs.output AS output, sources.path AS source"
    " FROM documents JOIN runs ON runs.run = documents.run"
    " JOIN sources ON sources.run = documents.run AND sources.file = documents.position >> 40"
    " WHERE runs.state = 'finished'",
)


@dataclass(frozen=True, slots=True)
class IndexInput:
    """What a run leaves of its documents: for each unit the files of hashes or bands, of keep bits and of
    positions; the files that positions count; where the output is."""

    files: Sequence[Path]
    keep_files: Sequence[Path]
    position_files: Sequence[Path]
    sources: Iterable[str]
    output: str


class DatabaseIndex:
    """The index in `folder`, which is made with its first run."""

    def __init__(self, folder: str | Path, storage: Literal["sqlite", "duckdb"]) -> None:
        self.path = Path(folder) / DATABASES[storage]
        self._storage = storage
        self._folder = IndexFolder(folder, storage)

    def pin(self, kind: str, identity: str) -> list[IndexGeneration]:
        """What other runs have kept so far. Refuses a folder of another kind or form."""
        if not self._folder.check(kind) or not self.path.exists():
            return []
        with self._open(write=False) as database:
            if not _has_schema(database, self.path):
                return []  # all that is left of a run that died before it had anything to add
            found = sorted(_finished_runs(database, self.path))
        return [IndexGeneration(name, self.path, records) for name, _, records in found if name != identity]

    def write_pinned(self, kind: str, names: Sequence[str], path: Path) -> None:
        """The hashes or bands of the runs `names`, as one file of raw numbers."""
        size = record_bytes(kind)
        with self._open(write=False) as database, atomic_writer(path) as out:
            runs, expected = self._numbers(database, names)
            written = 0
            for rows in database.hashes(runs):
                if any(not isinstance(row[0], bytes) or len(row[0]) != size for row in rows):
                    raise damaged_database(self.path, f"it has a hash that is not of {size} bytes")
                out.write(b"".join(row[0] for row in rows))
                written += len(rows)
            if written != expected:
                raise damaged_database(
                    self.path, f"it has {written:,} documents where its runs kept {expected:,}"
                )

    def prepare(self, kind: str, identity: str, noted: IndexInput) -> Pending:
        """Write what was kept, whole and synced, not yet visible to other runs."""
        size = record_bytes(kind)
        check_identity(identity)
        with self._folder.locked():
            if not self._folder.check(kind):
                self._folder.describe(kind)
            with self._opened(write=True) as database:
                self._make_schema(database)
                _remove(database, "state = 'writing' OR (state = 'pending' AND identity = ?)", identity)
                _finished_runs(database, self.path)
                run = _begin(database, identity, noted)
                documents = 0
                for hashes, positions in _blocks(noted, size):
                    with database.transaction():
                        database.insert(run, hashes, positions)
                    documents += len(hashes)
                database.execute(
                    "UPDATE runs SET state = 'pending', documents = ? WHERE run = ?", (documents, run)
                )
        return Pending(self.adopt, identity)

    def adopt(self, identity: str) -> bool:
        """Make what a run has prepared visible; returns whether there was anything."""
        if not self.path.exists():
            return False
        with self._open(write=True) as database:
            self._make_schema(database)
            if not database.execute(
                "SELECT run FROM runs WHERE state = 'pending' AND identity = ?", (identity,)
            ):
                return False
            with database.transaction():
                _remove(database, "state = 'finished' AND identity = ?", identity)
                database.execute(
                    "UPDATE runs SET state = 'finished' WHERE state = 'pending' AND identity = ?", (identity,)
                )
        return True

    def _numbers(self, database: Database, names: Sequence[str]) -> tuple[list[int], int]:
        found = {name: (run, records) for name, run, records in _finished_runs(database, self.path)}
        for name in names:
            if name not in found:
                raise StorageError(
                    f"the run `{name}`, which this one was begun with, is gone from the index `{self.path}`",
                    hint="put it back, or start anew with --overwrite",
                )
        return [found[name][0] for name in names], sum(found[name][1] for name in names)

    def _make_schema(self, database: Database) -> None:
        if not _has_schema(database, self.path):
            with database.transaction():
                for statement in _SCHEMA:
                    database.execute(statement)

    @contextmanager
    def _open(self, *, write: bool) -> Iterator[Database]:
        """The database while no other process of Krill writes it."""
        lock = self._folder.locked() if write else self._folder.read_locked()
        with lock, self._opened(write=write) as database:
            yield database

    @contextmanager
    def _opened(self, *, write: bool) -> Iterator[Database]:
        database = (SqliteDatabase if self._storage == "sqlite" else DuckdbDatabase)(self.path, write=write)
        try:
            yield database
        finally:
            database.close()


def _has_schema(database: Database, path: Path) -> bool:
    """Whether the tables are there. A view of such a name may have rows without end, and a trigger changes
    what is written: neither is Krill's."""
    # DuckDB has a view of this name, too.
    found = database.execute(
        "SELECT name, type FROM sqlite_master"
        " WHERE type = 'trigger' OR name IN ('runs', 'sources', 'documents') LIMIT 4"
    )
    if found and sorted(found) != [(name, "table") for name in ("documents", "runs", "sources")]:
        raise damaged_database(path, "its tables are not those that Krill makes")
    return bool(found)


def _finished_runs(database: Database, path: Path) -> list[tuple[str, int, int]]:
    """Name, number and documents of each run that counts; all are checked, as SQLite's columns take values of
    any kind."""
    found: list[tuple[str, int, int]] = []
    for name, run, documents, state in database.execute("SELECT identity, run, documents, state FROM runs"):
        known = isinstance(name, str) and isinstance(run, int) and isinstance(documents, int)
        if not known or not 0 < run < _MOST_RUNS or documents < 0:
            raise damaged_database(path, "a run in it has no name, or a number that is not Krill's")
        if state == "finished":
            found.append((name, run, documents))
    return found


def _remove(database: Database, which: str, identity: str) -> None:
    values = (identity,)
    for table in ("documents", "sources"):
        database.execute(f"DELETE FROM {table} WHERE run IN (SELECT run FROM runs WHERE {which})", values)
    database.execute(f"DELETE FROM runs WHERE {which}", values)


def _begin(database: Database, identity: str, noted: IndexInput) -> int:
    """A new run that is being written; its number."""
    with database.transaction():
        run = int(database.execute("SELECT coalesce(max(run), 0) + 1 FROM runs")[0][0])
        output = _printable(noted.output)
        database.execute("INSERT INTO runs VALUES (?, ?, 'writing', ?, 0)", (run, identity, output))
        database.insert_sources(run, [_printable(path) for path in noted.sources])
    return run


def _printable(path: str) -> str:
    """A path as UTF-8, which not every name is."""
    return path.encode("utf-8", "backslashreplace").decode()


def _blocks(noted: IndexInput, size: int) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.int64]]]:
    most = max(1, min(_BLOCK_ROWS, _BLOCK_BYTES // size))
    hashes: list[NDArray[np.uint8]] = []
    positions: list[NDArray[np.int64]] = []
    held = 0
    for file, keep, place in zip(noted.files, noted.keep_files, noted.position_files, strict=True):
        both = zip(kept_blocks(file, keep, size), kept_blocks(place, keep, _POSITION_BYTES), strict=True)
        for rows, places in both:
            hashes.append(rows.view(np.uint8))
            positions.append(places.reshape(-1).view(np.int64))
            held += len(rows)
            if held >= most:
                yield np.concatenate(hashes), np.concatenate(positions)
                hashes, positions, held = [], [], 0
    if held:
        yield np.concatenate(hashes), np.concatenate(positions)
