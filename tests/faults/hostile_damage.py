"""Outputs that lie consistently, exports, special files in them, leftovers of runs, folders of others."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hostile import FAULTS, Case, save, settings, words
from hostile_outputs import SHARD, TEXT, VERBS, _fifo, _folder, _link, _say, _whole, _write
from hostile_text import WHOLE
from hostile_tokenizer_files import plain

import preloaded

Damage = Callable[[Path], object]
REFUSED = frozenset(FAULTS)
LOOKS = ("validate", "inspect", "duplicates", "export-jsonl", "export-text")
OBEYED = "\x1b]0;x\x07\x9b31m\u202e[/red][link=file:///etc]"


def cases() -> Iterator[Case]:
    yield from _special_files()
    yield from _signed()
    yield from _figures()
    yield from _settings()
    yield from _exports()
    yield from _inputs()
    yield from _leftovers()
    yield from _other_kinds()


def _damaged(
    name: str, damage: Damage, verbs: Iterator[str] | tuple[str, ...], **more: Any
) -> Iterator[Case]:
    def make(folder: Path) -> None:
        shutil.copytree(_whole(), folder / "out", symlinks=True)
        damage(folder / "out")

    for verb in verbs:
        yield Case(f"damage-{name}-{verb}", make, VERBS[verb], **{"codes": FAULTS | {0}, **more})


def _sparse(name: str, size: int = 3 * 10**9) -> Damage:
    return lambda out: [(out / name).write_bytes(b"{"), os.truncate(out / name, size)]


def _special_files() -> Iterator[Case]:
    """Whatever is read is a pipe, a device or a huge file."""
    for name in ("krill-run.json", TEXT, "rejected-00000.parquet", "train/state.json", "dataset_dict.json"):
        short = name.replace("/", "-")
        for kind, damage in {"fifo": _fifo(name), "device": _link(name, "/dev/zero")}.items():
            yield from _damaged(f"{kind}-{short}", damage, ("validate", "export-text"))
    for name in ("krill-run.json", "train/dataset_info.json"):
        yield from _damaged(f"sparse-{name.replace('/', '-')}", _sparse(name), LOOKS)
    yield from _damaged("manifest-a-folder", _folder("krill-run.json"), LOOKS, codes=REFUSED)
    yield from _damaged("manifest-of-small-lists", _small_lists, LOOKS, codes=REFUSED)
    yield from _damaged("manifest-of-a-wide-key", _wide_key, LOOKS, codes=REFUSED)


def _small_lists(out: Path) -> None:
    content = b'{"format": 1, "dataset": [' + b"[]," * 20_000_000 + b"0]}"
    (out / "krill-run.json").write_bytes(content)


def _wide_key(out: Path) -> None:
    (out / "krill-run.json").write_bytes(b'{"' + b"a" * 40_000_000 + "\U0001f600".encode() + b'": 1}')


def _signed() -> Iterator[Case]:
    """Files that were changed together with their size and checksum in the manifest."""
    text = {
        "text-of-numbers": pa.table({"text": [1, 2, 3]}),
        "text-of-nulls": pa.table({"text": pa.array([None, None], pa.string())}),
        "text-without-text": pa.table({OBEYED: ["a"]}),
        "text-of-escapes": pa.table({"text": [OBEYED] * 3, OBEYED: [OBEYED] * 3}),
        "text-of-lists": pa.table({"text": [["a"], ["b"]]}),
        "text-of-no-rows": pa.table({"text": pa.array([], pa.string())}),
        "text-not-utf8": pa.table({"text": pa.array([b"\xff\xfe"]).view(pa.string())}),
        "text-twice": pa.table([["a"], ["b"]], names=["text", "text"]),
    }
    for name, table in text.items():
        rows = table.num_rows

        def put(out: Path, table: pa.Table = table, rows: int = rows) -> None:
            pq.write_table(table, out / TEXT)
            _sign(out, "text", TEXT, rows)

        yield from _damaged(f"signed-{name}", put, ("validate", "inspect", "export-text"))
    yield from _damaged("signed-text-of-one-long-row", _long_row, ("validate", "inspect", "export-text"))
    ids = pa.list_(pa.uint16(), 8)
    lengths = pa.list_(pa.int32())
    shards = {
        "lengths-negative": ([[1] * 8] * 4, [[-8, 16]] * 4),
        "lengths-empty": ([[1] * 8] * 4, [[]] * 4),
        "lengths-that-overflow": ([[1] * 8] * 4, [[2**31 - 1] * 2 + [10]] * 4),
        "ids-out-of-range": ([[65535] * 8] * 4, [[8]] * 4),
        "nulls": ([None] * 4, [None] * 4),
    }
    for name, (tokens, documents) in shards.items():

        def write(out: Path, tokens: list[Any] = tokens, documents: list[Any] = documents) -> None:
            columns = {"input_ids": pa.array(tokens, ids), "seq_lengths": pa.array(documents, lengths)}
            table = pa.table(columns)
            with pa.OSFile(str(out / SHARD), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
                stream.write_table(table)
            _sign(out, "dataset", SHARD, len(tokens))

        yield from _damaged(
            f"signed-shard-{name}", write, ("validate", "inspect", "export-jsonl", "export-megatron")
        )


def _long_row(out: Path) -> None:
    pq.write_table(pa.table({"text": ["x" * 80_000_000]}), out / TEXT)
    _sign(out, "text", TEXT, 1)


def _sign(out: Path, part: str, file: str, rows: int) -> None:
    content = (out / file).read_bytes()
    for key, value in {
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "rows": rows,
    }.items():
        _say((part, "shards", 0, key), value)(out)
    _say((part, "rows"), rows)(out)
    if part == "dataset":
        _say((part, "tokens"), 8 * rows)(out)


def _figures() -> Iterator[Case]:
    """Numbers and words that are shown."""
    for name, keys, value in (
        ("peak-huge", ("budget", "predicted_peak"), 10**18),
        ("peak-beyond-floats", ("budget", "measured_peak"), 10**400),
        ("seconds-huge", ("seconds",), 1e308),
        ("seconds-negative", ("seconds",), -5),
        ("stage-markup", ("stages", 0, "name"), OBEYED),
        ("stage-of-a-megabyte", ("stages", 0, "name"), "s" * 1_000_000),
        ("reason-markup", ("documents", "dropped"), {OBEYED: 3, "[/]": 5}),
        ("reason-beyond-floats", ("documents", "dropped"), {"a": 10**400}),
        ("reasons-100000", ("documents", "dropped"), {f"r{at}": at for at in range(100_000)}),
        ("version-markup", ("krill",), OBEYED),
        ("identity-markup", ("identity",), OBEYED),
        ("notes-text", ("documents", "notes"), {"a": "b"}),
        ("inputs-lists", ("inputs",), [[], {}, 5]),
        ("config-list", ("config",), []),
        ("eos-negative", ("tokenizer", "eos_id"), -1),
        ("eos-text", ("tokenizer", "eos_id"), "\x1b[31m"),
        ("fingerprint-a-list", ("tokenizer", "fingerprint"), [1]),
        ("duplicates-text", ("duplicates",), "\x1b[31m"),
        ("config-documents-huge", ("config", "preprocess", "max_document_bytes"), 2**70),
        ("config-documents-text", ("config", "preprocess", "max_document_bytes"), "many"),
        ("config-packing-list", ("config", "preprocess", "packing"), []),
    ):
        verbs = ("inspect", "export-jsonl", "export-text") if name[:2] != "re" else ("inspect", "validate")
        yield from _damaged(f"figure-{name}", _say(keys, value), verbs)


def _settings() -> Iterator[Case]:
    """What `inspect` opens because a manifest names it."""
    tokenizers: dict[str, Any] = {
        "fifo": {"path": "fifo"},
        "device": {"path": "/dev/zero"},
        "sparse": {"path": "sparse"},
        "hub": {"hub_id": "nobody/nothing-at-all"},
        "list": [1],
        "escapes": {"path": OBEYED},
    }
    for name, tokenizer in tokenizers.items():

        def damage(out: Path, tokenizer: Any = tokenizer) -> None:
            os.mkfifo(out.parent / "fifo")
            (out.parent / "sparse").touch()
            os.truncate(out.parent / "sparse", 3 * 10**9)
            _say(("settings", "tokenizer"), tokenizer)(out)

        yield from _damaged(f"tokenizer-{name}", damage, ("inspect",))
    own = {"name": "step", "function": "os:abort"}
    yield from _damaged("step-of-others", _say(("settings", "preprocess", "filters"), [own]), ("inspect",))


@cache
def _exported(to: str) -> Path:
    folder = _whole().parent / f"exported-{to}"
    done = preloaded.run(["export", str(_whole()), "--to", to, "--output", str(folder), "--quiet"])
    assert done.code == 0, done.err
    return folder


def _exports() -> Iterator[Case]:
    damages: dict[str, tuple[str, Damage]] = {
        "bin-cut": ("bin", lambda out: os.truncate(out / "train.bin", 100)),
        "bin-flipped": ("bin", _flip("train.bin")),
        "idx-flipped": ("megatron", _flip("train.idx")),
        "idx-removed": ("megatron", lambda out: (out / "train.idx").unlink()),
        "jsonl-a-fifo": ("jsonl", _fifo("train.jsonl")),
        "jsonl-a-device": ("jsonl", _link("train.jsonl", "/dev/zero")),
        "parquet-a-folder": ("parquet", _folder("train-00000.parquet")),
        "files-none": ("bin", _say(("files",), [])),
        "files-a-number": ("bin", _say(("files",), 7)),
        "files-of-numbers": ("bin", _say(("files",), [7])),
        "files-outside": ("bin", _say(("files", 0, "file"), "../NOTES.md")),
        "files-absolute": ("bin", _say(("files", 0, "file"), "/etc/hostname")),
        "bytes-negative": ("bin", _say(("files", 0, "bytes"), -1)),
        "documents-text": ("megatron", _say(("files", 0, "documents"), "many")),
        "documents-a-list": ("megatron", _say(("files", 0, "documents"), [1])),
        "documents-not-a-number": ("megatron", _say(("files", 0, "documents"), None)),
        "checksum-a-number": ("bin", _say(("files", 0, "sha256"), 5)),
    }
    for name, (to, damage) in damages.items():

        def make(folder: Path, to: str = to, damage: Damage = damage) -> None:
            shutil.copytree(_exported(to), folder / "out")
            damage(folder / "out")

        yield Case(f"export-damaged-{name}-validate", make, VERBS["validate"], frozenset({3}))
        yield Case(f"export-damaged-{name}-inspect", make, VERBS["inspect"])


def _flip(name: str) -> Damage:
    def damage(out: Path) -> None:
        content = bytearray((out / name).read_bytes())
        content[len(content) // 2] ^= 1
        (out / name).write_bytes(content)

    return damage


def _inputs() -> Iterator[Case]:
    """Krill's own output and saved datasets as the input of another run."""
    damages: dict[str, Damage] = {
        "flipped-text": _flip(TEXT),
        "fifo-manifest": _fifo("krill-run.json"),
        "sparse-manifest": _sparse("krill-run.json"),
        "deep-manifest": _write("krill-run.json", b"[" * 100_000),
        "deep-state": lambda out: [
            (out / "krill-run.json").unlink(),
            _write("dataset_dict.json", b'{"splits":' + b"[" * 100_000)(out),
        ],
        "fifo-state": lambda out: [(out / "krill-run.json").unlink(), _fifo("dataset_dict.json")(out)],
        "sparse-state": lambda out: [(out / "krill-run.json").unlink(), _sparse("dataset_dict.json")(out)],
        "shards-that-climb": _say(("text", "shards", 0, "file"), "../../../etc/passwd"),
    }
    for name, damage in damages.items():

        def make(folder: Path, damage: Damage = damage) -> None:
            shutil.copytree(_whole(), folder / "earlier")
            damage(folder / "earlier")
            save(folder, settings("earlier"))

        yield Case(f"input-of-ours-{name}", make, words("preprocess", "config.yaml"), codes=REFUSED)


def _leftovers() -> Iterator[Case]:
    """What stands where a run works, before it has begun."""
    places: dict[str, Damage] = {
        "a-file": lambda work: work.write_bytes(b"mine"),
        "a-fifo": os.mkfifo,
        "a-link-to-itself": lambda work: work.symlink_to(work.name),
        "a-link-to-a-folder": lambda work: work.symlink_to("beside"),
        "of-others": lambda work: [work.mkdir(), (work / "thesis.txt").write_text("mine")],
        "a-fifo-as-run": lambda work: [work.mkdir(), os.mkfifo(work / "run.json")],
        "a-device-as-run": lambda work: [work.mkdir(), (work / "run.json").symlink_to("/dev/zero")],
        "a-sparse-run": lambda work: [work.mkdir(), _sparse("run.json")(work)],
        "a-deep-run": lambda work: [
            work.mkdir(),
            (work / "dataset").mkdir(),
            (work / "run.json").write_bytes(b"[" * 90_000),
        ],
        "a-fifo-as-lock": lambda work: [work.mkdir(), os.mkfifo(work / "lock")],
        "a-folder-as-lock": lambda work: [work.mkdir(), (work / "lock").mkdir()],
    }
    train = ["tokenizer", "train", "--input", "input.jsonl", "--output", "out", "--vocab-size", "300"]
    verbs = {
        "preprocess": words("preprocess", "config.yaml"),
        "export": ["export", "earlier", "--to", "bin", "--output", "out", "--memory", "256MB"],
        "train": [*train, "--memory", "256MB"],
    }
    for name, place in places.items():
        for verb, said in verbs.items():

            def make(folder: Path, place: Damage = place, verb: str = verb) -> None:
                (folder / "beside").mkdir()
                (folder / "input.jsonl").write_bytes(WHOLE)
                save(folder, settings())
                if verb == "export":
                    shutil.copytree(_whole(), folder / "earlier")
                place(folder / ".out.krill")

            yield Case(f"leftover-{name}-{verb}", make, said, frozenset({0, 3, 5}))


def _other_kinds() -> Iterator[Case]:
    """Folders that are outputs of no or of another command."""
    kinds: dict[str, Damage] = {
        "tokenizer": lambda out: [out.mkdir(), (out / "tokenizer.json").write_text(json.dumps(plain()))],
        "features": lambda out: [out.mkdir(), (out / "krill-run.json").write_text(_MADE_BY % "qa prepare")],
        "training": lambda out: [out.mkdir(), (out / "krill-run.json").write_text(_MADE_BY % "train")],
        "a-socket": _socket,
    }
    for name, place in kinds.items():
        for verb in ("validate", "inspect", "duplicates", "export-jsonl"):

            def make(folder: Path, place: Damage = place) -> None:
                place(folder / "out")

            yield Case(f"kind-{name}-{verb}", make, VERBS[verb], REFUSED)


_MADE_BY = '{"format": 1, "command": "%s", "krill": "0.1.0"}'


def _socket(path: Path) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as made:
        here = Path.cwd()
        os.chdir(path.parent)  # the name of a socket has at most a hundred characters
        try:
            made.bind(path.name)
        finally:
            os.chdir(here)
