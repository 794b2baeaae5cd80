"""Hostile surroundings: the variables of the environment, and other verbs that read hostile sources."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from hostile import FAULTS, OUTPUT, Case, save, settings, words
from hostile_text import WHOLE


def cases() -> Iterator[Case]:
    yield from _keys()
    yield from _variables()
    yield from _verbs()


def _whole(folder: Path) -> None:
    (folder / "input.jsonl").write_bytes(WHOLE)
    save(folder, settings())


def _keys() -> Iterator[Case]:
    """Variables that name keys of the config."""
    kinds = {
        "nothing": {"KRILL_": "1"}, "underscores": {"KRILL_____": "1"}, "unknown": {"KRILL_TURBO": "1"},
        "deep": {"KRILL_" + "__".join(["A"] * 2000): "1"}, "index-beyond": {"KRILL_DATASETS__99__PATH": "a"},
        "index-huge": {"KRILL_DATASETS__" + "9" * 5000 + "__PATH": "a"},
        "index-negative": {"KRILL_DATASETS__-1__PATH": "a"},
        "list": {"KRILL_DATASETS": "[" * 3000}, "knot": {"KRILL_DATASETS": "&a [*a]"},
        "escapes": {"KRILL_SEED": "\x1b[31m\x9b"}, "escaped-name": {"KRILL_\x1b[31m": "1"},
        "digits": {"KRILL_SEED": "9" * 90_000}, "hexadecimal": {"KRILL_SEED": "0x" + "f" * 90_000},
        "memory": {"KRILL_MEMORY": "-5GB"}, "not-utf8": {"KRILL_SEED": os.fsdecode(b"\xff\xfe")},
        "name-not-utf8": {os.fsdecode(b"KRILL_\xff"): "1"}, "lower-case": {"KRILL_memory": "1KB"},
        "section-as-a-value": {"KRILL_PREPROCESS": "5"}, "empty": {"KRILL_PREPROCESS__SEQUENCE_LEN": ""},
        "two-names": {"KRILL_SEQUENCE_LEN": "8", "KRILL_PREPROCESS__SEQUENCE_LEN": "9"},
        "thousands": {f"KRILL_KEY{at}": "1" for at in range(3000)},
        "newlines": {"KRILL_TOKENIZER__PATH": "a\nb\nc"}, "tag": {"KRILL_SEED": "!!bool maybe"},
        "flow-tag": {"KRILL_DATASETS": "[!!bool maybe]"},
    }  # fmt: skip
    for name, environ in kinds.items():
        for verb in ("preprocess", "estimate"):
            typed = [verb, "config.yaml", "--threads", "2"]
            yield Case(
                f"environment-key-{name}-{verb}", _whole, typed, FAULTS | {0}, memory=10**9, environ=environ
            )


def _variables() -> Iterator[Case]:
    """Variables of the system and of libraries, which are read as the process starts."""
    kinds = {
        "home-is-a-file": {"HOME": "/dev/null"}, "home-is-nothing": {"HOME": ""},
        "home-is-absent": {"HOME": "/nowhere"}, "temporary-folder-is-absent": {"TMPDIR": "/nowhere"},
        "temporary-folder-is-a-file": {"TMPDIR": "/dev/null"},
        "cache-is-the-system": {"XDG_CACHE_HOME": "/proc"}, "hub-is-the-system": {"HF_HOME": "/proc/hub"},
        "columns-negative": {"COLUMNS": "-5", "LINES": "-1"}, "columns-huge": {"COLUMNS": "99999999999"},
        "columns-in-words": {"COLUMNS": "wide"}, "terminal-unknown": {"TERM": "\x1b[31m"},
        "locale-unknown": {"LC_ALL": "xx_YY.KOI8"}, "locale-c": {"LC_ALL": "C", "PYTHONUTF8": "0"},
        "encoding-latin": {"PYTHONIOENCODING": "latin-1"},
        "encoding-ascii": {"PYTHONIOENCODING": "ascii:strict"},
        "time-zone-unknown": {"TZ": "Nowhere/At all"},
        "threads-in-words": {"OMP_NUM_THREADS": "many"}, "arrow-threads": {"ARROW_IO_THREADS": "-3"},
        "arrow-pool": {"ARROW_DEFAULT_MEMORY_POOL": "none such"}, "malloc": {"MALLOC_ARENA_MAX": "1000"},
        "no-progress": {"KRILL_NO_PROGRESS": "\x1b"}, "debug-arrow": {"ARROW_DEBUG_MEMORY_POOL": "trap"},
        "path-empty": {"PATH": ""}, "warnings-are-errors": {"PYTHONWARNINGS": "error"},
    }  # fmt: skip
    for name, environ in kinds.items():
        yield Case(
            f"environment-{name}", _whole, words("preprocess", "config.yaml"), FAULTS | {0}, fresh=True,
            environ=environ,
        )  # fmt: skip


def _verbs() -> Iterator[Case]:
    """Sources that are none, for whoever else reads sources."""

    def bomb(path: Path) -> None:
        path.write_bytes(gzip.compress(bytes(100_000_000)))

    def source(said: dict[str, object]) -> Callable[[Path], object]:
        def put(path: Path) -> None:
            path.mkdir()
            for name, value in said.items():
                (path / name).write_text(json.dumps(value))

        return put

    sources: dict[str, Callable[[Path], object]] = {
        "lying.krill": source({"krill-run.json": {"text": {"shards": [1]}}}),
        "above.krill": source({"krill-run.json": {"text": {"shards": [{"file": "../input.jsonl"}]}}}),
        "splits.saved": source({"dataset_dict.json": {"splits": {"train": 1}}}),
        "files.saved": source({"state.json": {"_data_files": "abc"}}),
        "fifo.jsonl": os.mkfifo,
        "deep.jsonl": lambda path: path.write_bytes(b'{"a": ' + b"[" * 200_000 + b"\n"),
        "keys.jsonl": lambda path: path.write_text(json.dumps({f"key {at}": 1 for at in range(40_000)})),
        "noise.parquet": lambda path: path.write_bytes(b"PAR1" + bytes(100) + b"PAR1"),
        "noise.arrow": lambda path: path.write_bytes(b"ARROW1\0\0" + bytes(100)),
        "zeros.txt.gz": bomb,
        "newlines.txt": lambda path: path.write_bytes(b"\n" * 5_000_000),
        "quotes.csv": lambda path: path.write_bytes(b'"' * 999_999),
        "bytes.txt": lambda path: path.write_bytes(bytes(range(256)) * 4000),
    }
    for file, put in sources.items():

        def make(folder: Path, file: str = file, put: Callable[[Path], object] = put) -> None:
            (folder / "input.jsonl").write_bytes(WHOLE)
            put(folder / file)
            save(folder, settings(file))

        name = file.replace(".", "-")
        yield Case(f"estimate-source-{name}", make, words("estimate", "config.yaml"), FAULTS | {0})
        train = words("tokenizer", "train", "--input", file, "--vocab-size", "300", "--output", OUTPUT)
        yield Case(f"tokenizer-train-source-{name}", make, train, FAULTS | {0}, seconds=120)
        for verb in ("validate", "inspect", "export"):
            typed = [verb, file, *(["--to", "jsonl", "--output", OUTPUT] if verb == "export" else [])]
            yield Case(f"{verb}-source-{name}", make, typed, FAULTS | {0}, memory=10**9)
