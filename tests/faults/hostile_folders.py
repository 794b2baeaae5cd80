"""Hostile folders: what a manifest, a run's work folder or an index of duplicates says that it holds.

Whoever can write beside the input, or into a shared cache, writes these.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hostile import FAULTS, Case, codes, save, settings, words
from hostile_text import GOOD, WHOLE

Put = Callable[[Path], object]


def cases() -> Iterator[Case]:
    yield from _manifests()
    yield from _work_folders()
    yield from _spill_folders()
    yield from _indexes()
    yield from _databases()
    yield from _against()


def _case(
    name: str, put: Put, path: str = "input.jsonl", *, numbers: frozenset[int] = FAULTS | {0},
    top: dict[str, Any] | None = None, more: tuple[str, ...] = (), seconds: float = 60, **config: Any,
) -> Case:  # fmt: skip
    def make(folder: Path) -> None:
        (folder / "input.jsonl").write_bytes(WHOLE)
        (folder / "beside").mkdir()
        (folder / "beside" / "precious.txt").write_bytes(bytes(range(256)))
        put(folder)
        save(folder, {**settings(path, **config), **(top or {})})

    return Case(name, make, words("preprocess", "config.yaml", *more), numbers, seconds=seconds)


def _manifests() -> Iterator[Case]:
    """A folder to read that says what it holds: a Krill output, a dataset of Hugging Face."""
    shard = {"file": "text-00000.parquet"}
    krill: dict[str, Any] = {
        "empty": {}, "text-is-a-list": {"text": [1]}, "text-is-a-word": {"text": "all of it"},
        "text-is-true": {"text": True},
        "shards-are-numbers": {"text": {"shards": [1, 2]}},
        "shards-are-a-map": {"text": {"shards": {"a": 1}}},
        "shards-are-a-number": {"text": {"shards": 7}}, "shards-are-text": {"text": {"shards": "abc"}},
        "file-is-a-number": {"text": {"shards": [{"file": 1}]}},
        "file-is-missing": {"text": {"shards": [{}]}},
        "file-is-empty": {"text": {"shards": [{"file": ""}]}},
        "file-is-the-folder": {"text": {"shards": [{"file": "."}]}},
        "file-is-above": {"text": {"shards": [{"file": "../beside/precious.txt"}]}},
        "file-is-absolute": {"text": {"shards": [{"file": "/etc/hostname"}]}},
        "file-with-a-nul": {"text": {"shards": [{"file": "a\0b"}]}},
        "file-with-a-surrogate": {"text": {"shards": [{"file": "a\ud800b"}]}},
        "file-with-escapes": {"text": {"shards": [{"file": "\x1b[31m.parquet"}]}},
        "file-of-5000-bytes": {"text": {"shards": [{"file": "n" * 5000}]}},
        "file-a-hundred-times": {"text": {"shards": [shard] * 100}},
        "checksum-is-a-list": {"text": {"shards": [{**shard, "sha256": []}]}},
        "checksum-is-wrong": {"text": {"shards": [{**shard, "sha256": "0" * 64}]}},
        "checksum-in-latin-letters": {"text": {"shards": [{**shard, "sha256": "zz"}]}},
    }  # fmt: skip
    for name, manifest in krill.items():
        yield _case(
            f"manifest-krill-{name}", partial(_source, {"krill-run.json": json.dumps(manifest)}), "source"
        )
    raw = {"deep": "[" * 100_000, "deep-objects": '{"text":' * 50_000, "nothing": "",
        "noise": "\0\xff" * 500,
           "a-list": "[]", "a-number": "1", "nan": '{"text": NaN}'}  # fmt: skip
    for name, text in raw.items():
        for file in ("krill-run.json", "state.json", "dataset_dict.json"):
            yield _case(f"manifest-{file[:-5]}-of-{name}", partial(_source, {file: text}), "source")
    saved: dict[str, Any] = {
        "files-are-numbers": {"_data_files": [1]}, "files-are-a-number": {"_data_files": 5},
        "files-are-text": {"_data_files": "abc"}, "files-are-a-map": {"_data_files": {"filename": "a"}},
        "file-is-a-list": {"_data_files": [{"filename": ["a"]}]},
        "file-is-above": {"_data_files": [{"filename": "../input.jsonl"}]},
        "split-is-a-map": {"_split": {"a": 1}, "_data_files": [{"filename": "text-00000.parquet"}]},
        "no-files": {"_data_files": []},
    }  # fmt: skip
    for name, state in saved.items():
        yield _case(f"manifest-saved-{name}", partial(_source, {"state.json": json.dumps(state)}), "source")
    splits: dict[str, Any] = {
        "number": 5, "text": "train", "map": {"train": 1}, "numbers": [1, 2], "lists": [["train"]],
        "nothing": [], "above": ["..", "train/../.."], "twice": ["train", "train"], "a-nul": ["train\0"],
        "absolute": ["/etc"], "null": [None], "the-folder-itself": ["train", "."],
    }  # fmt: skip
    for name, value in splits.items():
        made = {"dataset_dict.json": json.dumps({"splits": value})}
        yield _case(f"manifest-splits-are-{name}", partial(_source, made), "source")
    above = {"dataset_dict.json": json.dumps({"splits": ["train", "../beside"]})}
    yield _case(
        "manifest-splits-lead-out",
        partial(_source, above),
        numbers=FAULTS,
        top={"datasets": [{"path": "source", "split": "../beside"}]},
    )


def _source(texts: dict[str, str], folder: Path) -> None:
    source = folder / "source"
    source.mkdir()
    pq.write_table(pa.table({"text": GOOD}), source / "text-00000.parquet")
    for name, text in texts.items():
        (source / name).write_bytes(text.encode("utf-8", "surrogatepass"))


def _work_folders() -> Iterator[Case]:
    """`.out.krill`, as if a run had died there."""

    def begun(run: object, *, committed: bool = True) -> Put:
        def put(folder: Path) -> None:
            work = folder / ".out.krill"
            (work / "dataset").mkdir(parents=True)
            (work / "stages" / "read").mkdir(parents=True)
            if committed:
                (work / "stages" / "read" / "00000000.json").write_text("{}")
            (work / "lock").write_text("1")
            (work / "run.json").write_text(run if isinstance(run, str) else json.dumps(run))

        return put

    runs: dict[str, Any] = {
        "empty": {}, "a-list": [], "noise": "\0{", "spill-is-a-number": {"spill_dir": 5},
        "spill-is-a-list": {"spill_dir": ["a"]}, "spill-has-a-nul": {"spill_dir": "a\0b"},
        "spill-is-the-root": {"spill_dir": "/"}, "spill-is-beside": {"spill_dir": "beside"},
        "spill-is-a-surrogate": '{"spill_dir": "\\ud800"}',
        "identity-is-a-list": {"identity": [1], "krill": {}, "config": 5},
        "config-is-text": {"identity": "a", "config": "text", "input": "text", "sources": 1},
        "config-is-a-list": {"identity": "a", "config": [1], "input": [1], "sources": [1]},
        "deep": '{"a":' * 100_000,
    }  # fmt: skip
    for name, run in runs.items():
        yield _work(f"work-run-{name}", begun(run))
        yield _work(f"work-run-{name}-overwritten", begun(run), "--overwrite")
    yield _work("work-run-nothing-committed", begun({"spill_dir": 5}, committed=False))

    def linked(name: str, target: str) -> Put:
        def put(folder: Path) -> None:
            (folder / ".out.krill").mkdir()
            if name != "lock":
                (folder / ".out.krill" / "lock").write_text("1")
            (folder / ".out.krill" / name).symlink_to(target)

        return put

    for name in ("lock", "run.json", "begin.lock"):
        yield _work(f"work-{name}-is-a-link-to-a-file", linked(name, "../beside/precious.txt"))
        yield _work(f"work-{name}-is-a-link-to-nothing", linked(name, "../beside/made.txt"))
        yield _work(f"work-{name}-is-a-link-for-a-task", linked(name, "../beside/precious.txt"), "--task=1/2")
    for name in ("dataset", "stages", "old", "replaced"):
        yield _work(f"work-{name}-is-a-link-to-a-folder", linked(name, "../beside"))
        yield _work(f"work-{name}-is-a-link-and-overwritten", linked(name, "../beside"), "--overwrite")

    def odd(name: str, make: Callable[[Path], object]) -> Put:
        def put(folder: Path) -> None:
            (folder / ".out.krill").mkdir()
            if name != "lock":
                (folder / ".out.krill" / "lock").write_text("1")
            make(folder / ".out.krill" / name)

        return put

    for name in ("lock", "run.json", "dataset", "stages"):
        yield _work(f"work-{name}-is-a-fifo", odd(name, os.mkfifo))
        yield _work(f"work-{name}-is-a-folder", odd(name, Path.mkdir))
    years = partial(Path.write_text, data="years of work, in a file that happens to be called so")
    yield _work("work-lock-is-somebodys-file", odd("lock", years))


def _work(name: str, put: Put, *more: str) -> Case:
    """What is in the work folder of a dead run is Krill's own, and may go."""
    made = _case(name, put, more=more, seconds=30)
    own = [f".out.krill{rest}" for rest in ("", "/stages", "/stages/read", "/stages/read/00000000.json",
           "/dataset", "/run.json", "/old", "/replaced", "/begin.lock")]  # fmt: skip
    if "somebodys" not in name:
        own.append(".out.krill/lock")
    return Case(made.name, made.make, made.arguments, made.codes, seconds=30, changed=frozenset(own))


def _spill_folders() -> Iterator[Case]:
    def file(folder: Path) -> None:
        (folder / "spill").write_text("mine")

    def linked(folder: Path) -> None:
        (folder / "spill").symlink_to("beside")

    def nothing(folder: Path) -> None:
        return None

    kinds: dict[str, tuple[str, Put]] = {
        "a-file": ("spill", file), "a-link": ("spill", linked), "the-output": ("out", nothing),
        "below-the-output": ("out/spill", nothing), "the-input": ("input.jsonl", nothing),
        "here": (".", nothing),
        "the-work-folder": (".out.krill", nothing), "below-the-work-folder": (".out.krill/stages", nothing),
        "a-system-folder": ("/proc", nothing), "a-device": ("/dev/null", nothing),
        "above-a-file": ("NOTES.md/a", nothing), "of-300-bytes": ("s" * 300, nothing),
    }  # fmt: skip
    for name, (path, put) in kinds.items():
        yield _case(f"spill-is-{name}", put, top={"spill_dir": path}, dedup="exact", shuffle=True)


def _cache(files: dict[str, str | bytes | Put]) -> Put:
    def put(folder: Path) -> None:
        (folder / "cache").mkdir()
        for name, content in files.items():
            path = folder / "cache" / name
            if callable(content):
                content(path)
            else:
                path.write_bytes(content.encode() if isinstance(content, str) else content)

    return put


def _indexes() -> Iterator[Case]:
    kind = "hashes-document-v1"
    whole = json.dumps({"version": 1, "kind": kind})
    said: dict[str, str] = {
        "storage-is-a-list": json.dumps({"version": 1, "kind": kind, "storage": []}),
        "storage-is-a-map": json.dumps({"version": 2, "kind": kind, "storage": {"a": 1}}),
        "storage-is-unknown": json.dumps({"version": 2, "kind": kind, "storage": "abacus"}),
        "version-is-a-list": json.dumps({"version": [], "kind": kind}),
        "kind-is-a-list": json.dumps({"version": 1, "kind": [1]}),
        "kind-is-missing": json.dumps({"version": 1}),
        "kind-of-many-bands": json.dumps({"version": 1, "kind": "minhash-ngram5-bands" + "9" * 5000}),
        "is-a-list": "[]", "is-deep": "[" * 100_000, "is-nothing": "",
        "escapes": '{"version": "\\u001b[31m"}',
    }  # fmt: skip
    for name, text in said.items():
        made: dict[str, str | bytes | Put] = {"krill-index.json": text, "a.generation": bytes(160)}
        yield _case(f"index-{name}", _cache(made), dedup="exact", dedup_cache_dir="cache")
    generations: dict[str, bytes | Put] = {
        "of-odd-size": bytes(17), "of-nothing": b"", "a-folder": Path.mkdir, "a-fifo": os.mkfifo,
        "a-link-to-zeros": lambda path: path.symlink_to("/dev/zero"),
        "a-link-to-itself": lambda path: path.symlink_to(path.name),
        "a-link-to-nothing": lambda path: path.symlink_to("absent"),
        "of-a-sparse-gigabyte": lambda path: (path.touch(), os.truncate(path, 16 * 10**8)),
    }  # fmt: skip
    for name, content in generations.items():
        made = {"krill-index.json": whole, "a.generation": content}
        yield _case(f"index-generation-{name}", _cache(made), dedup="exact", dedup_cache_dir="cache")
    many = {f"{at}.generation": bytes(16) for at in range(3000)}
    yield _case(
        "index-of-3000-generations",
        _cache({"krill-index.json": whole, **many}),
        dedup="exact",
        dedup_cache_dir="cache",
    )
    odd: dict[str, Put] = {
        "a-fifo": os.mkfifo, "a-folder": Path.mkdir,
        "a-link": lambda path: path.symlink_to("../beside/precious.txt"),
    }  # fmt: skip
    for name, put in odd.items():
        for file in (".lock", "krill-index.json"):
            yield _case(
                f"index-{file.strip('.')}-is-{name}",
                _cache({file: put} if file != ".lock" else {file: put, "krill-index.json": whole}),
                dedup="exact",
                dedup_cache_dir="cache",
                seconds=30,
            )


TABLES = (
    "CREATE TABLE runs (run INTEGER, identity TEXT, state TEXT, output TEXT, documents BIGINT)",
    "CREATE TABLE sources (run INTEGER, file INTEGER, path TEXT)",
    "CREATE TABLE documents (run INTEGER, hash BLOB, position BIGINT)",
)


def _databases() -> Iterator[Case]:
    def run(*values: object) -> str:
        return f"INSERT INTO runs VALUES ({', '.join(map(str, values))})"

    endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"
    kinds: dict[str, list[str]] = {
        "no-tables": [],
        "other-columns": ["CREATE TABLE runs (a, b)"],
        "runs-alone": [TABLES[0], run(1, "'a'", "'finished'", "''", 3)],
        "runs-that-never-end": [
            f"CREATE VIEW runs AS {endless} SELECT x AS run, 'a' AS identity, 'finished' AS state,"
            " '' AS output, 1 AS documents FROM c",
            *TABLES[1:],
        ],
        "documents-that-never-end": [
            *TABLES[:2], run(1, "'a'", "'finished'", "''", 3),
            f"CREATE VIEW documents AS {endless} SELECT 1 AS run, zeroblob(16) AS hash, 1 AS position FROM c",
        ],
        "hashes-of-text": [
            *TABLES, run(1, "'a'", "'finished'", "''", 1),
            "INSERT INTO documents VALUES (1, 'sixteen letters!', 1)",
        ],
        "hashes-of-nothing": [
            *TABLES, run(1, "'a'", "'finished'", "''", 1), "INSERT INTO documents VALUES (1, NULL, 1)"
        ],
        "hashes-of-numbers": [
            *TABLES, run(1, "'a'", "'finished'", "''", 1), "INSERT INTO documents VALUES (1, 12, 1)"
        ],
        "hashes-of-a-megabyte": [
            *TABLES, run(1, "'a'", "'finished'", "''", 1),
            "INSERT INTO documents VALUES (1, zeroblob(3000000), 1)",
        ],
        "counts-of-text": [*TABLES, run(1, "'a'", "'finished'", "''", "'many'")],
        "counts-of-nothing": [*TABLES, run(1, "'a'", "'finished'", "''", "NULL")],
        "counts-below-nothing": [*TABLES, run(1, "'a'", "'finished'", "''", -5)],
        "counts-of-a-googol": [*TABLES, run(1, "'a'", "'finished'", "''", "1e100")],
        "runs-numbered-in-words": [*TABLES, run("'one'", "'a'", "'finished'", "''", 0)],
        "runs-of-no-number": [*TABLES, run("NULL", "NULL", "'finished'", "NULL", 0)],
        "runs-of-the-largest-number": [*TABLES, run(2**63 - 1, "'a'", "'finished'", "''", 0)],
        "trigger-that-deletes": [
            *TABLES, "CREATE TRIGGER t AFTER INSERT ON documents BEGIN DELETE FROM documents; END",
        ],
        "trigger-that-refuses": [
            *TABLES, "CREATE TRIGGER t BEFORE INSERT ON documents BEGIN SELECT RAISE(ABORT, 'no'); END",
        ],
        "write-ahead": ["PRAGMA journal_mode = WAL", *TABLES],
        "unique-hashes": [TABLES[0], TABLES[1],
        "CREATE TABLE documents (run, hash UNIQUE, position CHECK (position < 0))"],
    }  # fmt: skip
    for name, statements in kinds.items():
        said = json.dumps({"version": 2, "kind": "hashes-document-v1", "storage": "sqlite"})
        made: dict[str, str | bytes | Put] = {
            "krill-index.json": said,
            "index.sqlite": partial(_database, statements=statements),
        }
        case = _case(
            f"database-{name}", _cache(made), dedup="sqlite", dedup_cache_dir="cache",
            numbers=codes(0, 3, 5),
            seconds=30,
        )  # fmt: skip
        changed = frozenset({"cache/index.sqlite", "cache/index.sqlite-wal", "cache/index.sqlite-shm"})
        yield Case(case.name, case.make, case.arguments, case.codes, seconds=30, changed=changed)


def _database(path: Path, statements: list[str]) -> None:
    database = sqlite3.connect(path)
    for statement in statements:
        database.execute(statement)
    database.commit()
    database.close()


def _against() -> Iterator[Case]:
    """Documents that count as seen before."""

    def file(name: str, content: bytes) -> Put:
        return lambda folder: (folder / name).write_bytes(content)

    kinds: dict[str, tuple[str, Put]] = {
        "noise": ("a.parquet", file("a.parquet", b"PAR1" + bytes(100) + b"PAR1")),
        "a-cut-file": ("a.jsonl.gz", file("a.jsonl.gz", b"\x1f\x8b\x08" + bytes(20))),
        "no-text": ("a.jsonl", file("a.jsonl", b'{"other": 1}\n' * 10)),
        "a-fifo": ("a.jsonl", lambda folder: os.mkfifo(folder / "a.jsonl")),
        "a-lying-manifest": ("source", partial(_source, {"krill-run.json": '{"text": {"shards": [1]}}'})),
        "the-cache": ("cache", _cache({"krill-index.json": "{}"})),
        "the-work-folder": (".out.krill", lambda folder: None),
        "an-empty-file": ("a.jsonl", file("a.jsonl", b"")),
        "a-deep-record": ("a.jsonl", file("a.jsonl", b'{"a": ' + b"[" * 200_000 + b"\n")),
    }  # fmt: skip
    for name, (path, put) in kinds.items():
        for method in ("exact", "minhash"):
            yield _case(
                f"against-{name}-{method}", put, dedup={"method": method, "against": [path]}, seconds=30
            )
