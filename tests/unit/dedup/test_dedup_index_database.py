"""The index in SQLite and in DuckDB: runs that count whole or not at all, whatever happens to who writes."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import preloaded
from krill.dedup import DedupIndex, MinHash, hash_kind, minhash_kind
from krill.dedup.index import storage_of
from krill.dedup.index_database import DatabaseIndex, IndexInput
from krill.errors import ConfigError, StorageError

KIND = hash_kind("document")
STORAGES = ["sqlite", "duckdb"]
pytestmark = pytest.mark.parametrize("storage", STORAGES)


def noted(folder: Path, rows: np.ndarray, keep: list[bool], name: str = "unit") -> IndexInput:
    """A unit's numbers, keep bits and positions, as a run leaves them; every third document in `b.txt`."""
    files = [folder / f"{name}.{what}" for what in ("numbers", "keep", "positions")]
    rows.astype(np.uint64).tofile(files[0])
    np.packbits(np.array(keep, bool), bitorder="little").tofile(files[1])
    number = np.arange(len(rows), dtype=np.uint64)
    (number + ((number % 3 == 0).astype(np.uint64) << np.uint64(40))).tofile(files[2])
    return IndexInput([files[0]], [files[1]], [files[2]], ["a.txt", "b.txt"], f"out/{name}")


def some_rows(count: int, width: int = 2) -> np.ndarray:
    return np.arange(count * width, dtype=np.uint64).reshape(count, width)


def index_in(folder: Path, storage: Any) -> DatabaseIndex:
    return DatabaseIndex(folder / "index", storage)


def publish(index: DatabaseIndex, identity: str, what: IndexInput, kind: str = KIND) -> None:
    index.prepare(kind, identity, what).commit()


def names(index: DatabaseIndex, identity: str = "nobody", kind: str = KIND) -> list[str]:
    return [found.name for found in index.pin(kind, identity)]


def content(index: DatabaseIndex, out: Path, *runs: str, kind: str = KIND) -> list[list[int]]:
    out.unlink(missing_ok=True)
    index.write_pinned(kind, runs, out)
    width = 2 if kind == KIND else 14
    return sorted(np.fromfile(out, np.uint64).reshape(-1, width).tolist())


def ask(path: Path, sql: str) -> list[tuple[Any, ...]]:
    """What anybody gets who opens the file."""
    library = sqlite3 if path.suffix == ".sqlite" else duckdb
    with closing(library.connect(str(path))) as connection:
        return connection.execute(sql).fetchall()


def test_a_run_holds_what_was_kept_and_others_see_it(tmp_path: Path, storage: str) -> None:
    index = index_in(tmp_path, storage)
    assert names(index) == []
    rows, keep = some_rows(20), [number % 3 == 0 for number in range(20)]
    publish(index, "one", noted(tmp_path, rows, keep))
    assert content(index, tmp_path / "out", "one") == rows[keep].tolist()
    assert index.pin(KIND, "other")[0].records == 7
    assert names(index, "one") == []
    assert storage_of(tmp_path / "index") == storage


def test_anybody_can_ask_for_hash_position_run_and_source(tmp_path: Path, storage: str) -> None:
    index = index_in(tmp_path, storage)
    publish(index, "one", noted(tmp_path, some_rows(4), [True, False, True, True]))
    found = ask(index.path, "SELECT hash, position, run, output, source FROM seen ORDER BY hash")
    assert found == [
        (rows.tobytes().hex(), position, "one", "out/unit", source)
        for rows, position, source in (
            (some_rows(4)[0], 1 << 40, "b.txt"),
            (some_rows(4)[2], 2, "a.txt"),
            (some_rows(4)[3], 3 | 1 << 40, "b.txt"),
        )
    ]


def test_more_than_a_block_is_whole_and_bands_are_kept_as_hashes_are(tmp_path: Path, storage: str) -> None:
    keep = [bool(value) for value in np.random.default_rng(0).integers(0, 2, 150_001)]
    index = index_in(tmp_path, storage)
    publish(index, "one", noted(tmp_path, some_rows(150_001), keep))
    assert content(index, tmp_path / "out", "one") == some_rows(150_001)[keep].tolist()
    kind = minhash_kind(MinHash())
    other = DatabaseIndex(tmp_path / "bands", storage)  # type: ignore[arg-type]
    publish(other, "one", noted(tmp_path, some_rows(40_001, 14), keep[:40_001]), kind)
    assert content(other, tmp_path / "out", "one", kind=kind) == some_rows(40_001, 14)[keep[:40_001]].tolist()


def test_what_is_pending_does_not_count_until_it_is_adopted(tmp_path: Path, storage: str) -> None:
    index = index_in(tmp_path, storage)
    assert not index.adopt("one")
    index.prepare(KIND, "one", noted(tmp_path, some_rows(2), [True, True]))
    assert names(index) == []
    assert ask(index.path, "SELECT count(*) FROM seen") == [(0,)]
    assert index.adopt("one")
    assert not index.adopt("one")
    assert names(index) == ["one"]


def test_the_same_run_published_again_replaces_what_it_kept(tmp_path: Path, storage: str) -> None:
    index = index_in(tmp_path, storage)
    publish(index, "one", noted(tmp_path, some_rows(2), [True, True]))
    pending = index.prepare(KIND, "one", noted(tmp_path, some_rows(4), [True, True, True, False]))
    assert content(index, tmp_path / "out", "one") == some_rows(2).tolist()
    pending.commit()
    assert content(index, tmp_path / "out", "one") == some_rows(3).tolist()
    assert ask(index.path, "SELECT count(*) FROM documents") == [(3,)]


def test_a_run_that_somebody_has_set_to_writing_is_forgotten(tmp_path: Path, storage: str) -> None:
    index = index_in(tmp_path, storage)
    what = noted(tmp_path, some_rows(2), [True, True])
    publish(index, "one", what)
    with closing((sqlite3 if storage == "sqlite" else duckdb).connect(str(index.path))) as connection:
        connection.execute("UPDATE runs SET state = 'writing' WHERE identity = 'one'")
        connection.commit()
    assert names(index) == []
    publish(index, "two", what)
    assert ask(index.path, "SELECT identity, documents FROM runs") == [("two", 2)]
    assert ask(index.path, "SELECT count(*) FROM documents") == [(2,)]


def test_a_run_that_is_gone_is_named(tmp_path: Path, storage: str) -> None:
    index = index_in(tmp_path, storage)
    publish(index, "one", noted(tmp_path, some_rows(2), [True, True]))
    with pytest.raises(StorageError, match="the run `two`, which this one was begun with, is gone"):
        index.write_pinned(KIND, ["one", "two"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_in_another_form_or_of_another_kind_is_refused(tmp_path: Path, storage: str) -> None:
    index = index_in(tmp_path, storage)
    publish(index, "one", noted(tmp_path, some_rows(1), [True]))
    with pytest.raises(
        ConfigError, match=f"in the form `{storage}`, and `preprocess.dedup.index` is `files`"
    ):
        DedupIndex(tmp_path / "index").pin(KIND, "x")
    with pytest.raises(ConfigError, match="this config makes `hashes-line-v1`"):
        index.pin(hash_kind("line"), "x")
    (tmp_path / "index" / "krill-index.json").write_text(json.dumps({"version": 3, "storage": storage}))
    with pytest.raises(StorageError, match="has version `3`, this Krill reads version `2`"):
        index.pin(KIND, "x")


def test_an_index_of_files_is_not_taken_for_a_database(tmp_path: Path, storage: str) -> None:
    what = noted(tmp_path, some_rows(1), [True])
    DedupIndex(tmp_path / "index").prepare(KIND, "one", what.files, what.keep_files).commit()
    with pytest.raises(
        ConfigError, match=f"in the form `files`, and `preprocess.dedup.index` is `{storage}`"
    ):
        index_in(tmp_path, storage).pin(KIND, "x")


def damage_header(path: Path) -> None:
    path.write_bytes(b"no database at all, but long enough to be looked at. " * 200)


def damage_middle(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
    path.write_bytes(content)


def cut(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


@pytest.mark.parametrize("damage", [damage_header, damage_middle, cut])
def test_a_damaged_database_is_refused_with_what_to_do(tmp_path: Path, storage: str, damage: Any) -> None:
    index = index_in(tmp_path, storage)
    publish(index, "one", noted(tmp_path, some_rows(120_000), [True] * 120_000))
    damage(index.path)
    with pytest.raises(StorageError, match=r"index of duplicates `.*` is damaged: ") as caught:
        index.write_pinned(KIND, [found.name for found in index.pin(KIND, "x")] or ["one"], tmp_path / "out")
    assert "put back a copy of it, or remove its folder" in str(caught.value.hint)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("sql", "fact"),
    [
        ("DELETE FROM documents WHERE position = 1", "it has 2 documents where its runs kept 3"),
        ("UPDATE documents SET hash = CAST('ab' AS BLOB)", "it has a hash that is not of 16 bytes"),
        ("DROP TABLE documents", "documents"),
    ],
)
def test_rows_that_somebody_has_changed_are_refused(
    tmp_path: Path, storage: str, sql: str, fact: str
) -> None:
    index = index_in(tmp_path, storage)
    publish(index, "one", noted(tmp_path, some_rows(3), [True] * 3))
    with closing((sqlite3 if storage == "sqlite" else duckdb).connect(str(index.path))) as connection:
        connection.execute(sql)
        connection.commit()
    with pytest.raises(StorageError, match="is damaged") as caught:
        index.write_pinned(KIND, ["one"], tmp_path / "out")
    assert fact in str(caught.value)


HOLDER = """
import sys, time
library = __import__("sqlite3" if sys.argv[1].endswith("sqlite") else "duckdb")
connection = library.connect(sys.argv[1])
connection.execute("BEGIN")
connection.execute("DELETE FROM documents WHERE position = -1")
print("held", flush=True)
time.sleep(60)
"""


def test_a_database_that_another_program_holds_is_said_to_be(
    tmp_path: Path, storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("krill.dedup.databases._PATIENCE", 0.2)
    index = index_in(tmp_path, storage)
    what = noted(tmp_path, some_rows(3), [True] * 3)
    publish(index, "one", what)
    ours, theirs = os.pipe()
    holder = preloaded.launch([index.path], out=theirs, err=2, script=HOLDER)
    os.close(theirs)
    try:
        with os.fdopen(ours) as printed:
            assert printed.readline() == "held\n"
            with pytest.raises(StorageError, match="another program has") as caught:
                index.prepare(KIND, "two", what)
    finally:
        holder.kill()
        holder.wait()
    assert caught.value.hint == "close it there, then start the same command again"
    publish(index, "two", what)
    assert names(index) == ["one", "two"]


WRITER = """
import sys
from pathlib import Path
from krill.dedup.index_database import DatabaseIndex, IndexInput
from krill.dedup import hash_kind
folder, storage, identity, turns, *files = sys.argv[1:]
index = DatabaseIndex(folder, storage)
noted = IndexInput(*([Path(file)] * 8 for file in files), ["a.txt", "b.txt"], "out")
print("begun", flush=True)
for turn in range(int(turns)):
    pending = index.prepare(hash_kind("document"), identity, noted)
    print("prepared", flush=True)
    pending.commit()
    print("committed", flush=True)
"""


def writer(
    folder: Path, storage: str, identity: str, noted: IndexInput, turns: int, out: int
) -> preloaded.Launched:
    files = (noted.files[0], noted.keep_files[0], noted.position_files[0])
    return preloaded.launch([folder, storage, identity, turns, *files], out=out, err=2, script=WRITER)


def test_a_writer_killed_at_any_moment_leaves_nothing_or_a_whole_run(tmp_path: Path, storage: str) -> None:
    rows = some_rows(10_000)
    what = noted(tmp_path, rows, [True] * len(rows))
    draw = random.Random(3)
    states = set()
    for turn in range(6):
        folder = tmp_path / f"index{turn}"
        ours, theirs = os.pipe()
        process = writer(folder, storage, "one", what, 1000, theirs)
        os.close(theirs)
        with os.fdopen(ours) as printed:
            assert printed.readline() == "begun\n"
            if turn % 2:
                printed.readline()
            time.sleep(draw.uniform(0, 0.3))
            process.kill()
            assert process.wait() == -signal.SIGKILL
        index = DatabaseIndex(folder, storage)  # type: ignore[arg-type]
        seen = index.pin(KIND, "other")
        states.add(len(seen))
        index.adopt("one")
        for found in index.pin(KIND, "other"):
            assert found.records == 8 * len(rows)
            index.write_pinned(KIND, [found.name], tmp_path / "out")
            assert (tmp_path / "out").stat().st_size == 16 * 8 * len(rows)
        publish(index, "two", what)
        # The next writer has removed what was half-written.
        assert ask(index.path, "SELECT count(*) FROM runs WHERE state <> 'finished'") == [(0,)]
        kept = (80_000 if "one" in names(index) else 0) + 10_000
        assert ask(index.path, "SELECT count(*) FROM documents") == [(kept,)]
    assert 0 in states


def test_two_writers_at_once_both_publish(tmp_path: Path, storage: str) -> None:
    what = noted(tmp_path, some_rows(2000), [True] * 2000)
    writers = [writer(tmp_path / "index", storage, name, what, 4, os.dup(1)) for name in ("one", "two")]
    assert [process.wait() for process in writers] == [0, 0]
    found = index_in(tmp_path, storage).pin(KIND, "x")
    assert [(one.name, one.records) for one in found] == [("one", 16_000), ("two", 16_000)]


def test_an_index_in_a_folder_that_can_t_be_written_can_be_read(tmp_path: Path, storage: str) -> None:
    index = index_in(tmp_path, storage)
    publish(index, "one", noted(tmp_path, some_rows(3), [True] * 3))
    (tmp_path / "index" / ".lock").unlink()
    for path in (index.path, index.path.parent):
        path.chmod(0o555)
    try:
        assert content(index, tmp_path / "out", *names(index)) == some_rows(3).tolist()
    finally:
        index.path.parent.chmod(0o755)


def test_names_that_are_not_utf_8_are_told_in_escapes(tmp_path: Path, storage: str) -> None:
    index = index_in(tmp_path, storage)
    what = noted(tmp_path, some_rows(1), [True])
    odd = IndexInput(what.files, what.keep_files, what.position_files, ["a", "b\udcff.txt"], "out\udcff")
    publish(index, "one", odd)
    assert ask(index.path, "SELECT source, output FROM seen") == [("b\\udcff.txt", "out\\udcff")]
