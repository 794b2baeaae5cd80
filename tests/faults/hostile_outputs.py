"""Damaged outputs: for `krill validate`, `inspect`, `inspect --duplicates` and `export`."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from hostile import FAULTS, Case, save, settings, words
from hostile_text import lines

import preloaded

VERBS: dict[str, list[str]] = {
    "validate": words("validate", "out"),
    "inspect": words("inspect", "out", "--samples", "5"),
    "duplicates": words("inspect", "out", "--duplicates"),
    "export-jsonl": words("export", "out", "--to", "jsonl", "--output", "exported"),
    "export-parquet": words("export", "out", "--to", "parquet", "--output", "exported"),
    "export-megatron": words("export", "out", "--to", "megatron", "--output", "exported"),
    "export-bin": words("export", "out", "--to", "bin", "--output", "exported"),
    "export-text": words("export", "out", "--to", "jsonl", "--what", "text", "--output", "exported"),
}
SHARD, TEXT = "train/data-00000.arrow", "text-00000.parquet"


@cache
def _whole() -> Path:
    """A finished output with two splits, text, dropped documents and clusters; made once in each process."""
    folder = Path(tempfile.mkdtemp(prefix="krill-hostile-"))
    # Words of letters: to MinHash, numbers are alike.
    letters = str.maketrans("0123456789", "abcdefghij")
    texts = [
        " ".join(str(at // 2 * 7919 + word * 31).translate(letters) for word in range(30)) for at in range(60)
    ]
    (folder / "input.jsonl").write_bytes(lines(*({"text": text} for text in texts)))
    dedup = {"method": "minhash", "clusters": True}
    save(folder, settings(dedup=dedup, rejected=True, split={"validation": 0.2}))
    done = preloaded.run(["preprocess", "config.yaml", "--quiet"], cwd=folder)
    assert done.code == 0, done.err
    return folder / "out"


def cases() -> Iterator[Case]:
    for at, (name, (damage, seen)) in enumerate(_damages().items()):
        verbs = list(VERBS)
        # All are validated; of the others, each damage meets three.
        for verb in ["validate", *(verbs[1 + (at + step) % (len(verbs) - 1)] for step in (0, 2, 5))]:

            def make(folder: Path, damage: Callable[[Path], object] = damage) -> None:
                shutil.copytree(_whole(), folder / "out", symlinks=True)
                damage(folder / "out")

            allowed = frozenset({3}) if verb == "validate" and seen else FAULTS | {0}
            yield Case(f"output-damaged-{name}-{verb}", make, VERBS[verb], allowed)


def _damages() -> dict[str, tuple[Callable[[Path], object], bool]]:
    """What is done to an output, and whether `validate` must see it."""
    return {
        "manifest-empty": (_write("krill-run.json", b""), True),
        "manifest-null": (_write("krill-run.json", b"null"), True),
        "manifest-list": (_write("krill-run.json", b"[]"), True),
        "manifest-empty-object": (_write("krill-run.json", b"{}"), True),
        "manifest-deep": (_write("krill-run.json", b"[" * 100_000), True),
        "manifest-noise": (_write("krill-run.json", bytes(range(256)) * 100), True),
        "manifest-removed": (_remove("krill-run.json"), True),
        "manifest-of-30-megabytes": (_write("krill-run.json", b" " * 30_000_000 + b"{}"), True),
        "manifest-of-the-future": (_say(("format",), 99), True),
        "manifest-of-another-command": (_say(("command",), "train\x1b[31m"), False),
        "path-goes-up": (_say(("dataset", "shards", 0, "file"), "../../NOTES.md"), True),
        "path-is-absolute": (_say(("dataset", "shards", 0, "file"), "/etc/hostname"), True),
        "path-is-a-device": (_say(("text", "shards", 0, "file"), "/dev/zero"), True),
        "path-is-empty": (_say(("dataset", "shards", 0, "file"), ""), True),
        "path-holds-nul": (_say(("dataset", "shards", 0, "file"), "a\0b"), True),
        "path-is-a-number": (_say(("dataset", "shards", 0, "file"), 7), True),
        "rows-negative": (_say(("dataset", "rows"), -1), True),
        "rows-beyond-64-bits": (_say(("dataset", "rows"), 2**70), True),
        "rows-of-a-shard-huge": (_say(("dataset", "shards", 0, "rows"), 2**62), True),
        "rows-a-float": (_say(("dataset", "shards", 0, "rows"), 1.5), True),
        "rows-per-batch-zero": (_say(("dataset", "rows_per_batch"), 0), True),
        "rows-per-batch-huge": (_say(("dataset", "rows_per_batch"), 2**63 - 1), True),
        "tokens-lie": (_say(("dataset", "tokens"), 1), True),
        "sequence-huge": (_say(("dataset", "sequence_len"), 10**15), True),
        "sequence-zero": (_say(("dataset", "sequence_len"), 0), True),
        "dtype-unknown": (_say(("dataset", "token_dtype"), "float\x1b[31m"), True),
        "dtype-other": (_say(("dataset", "token_dtype"), "uint32"), True),
        "batches-lie": (_say(("dataset", "shards", 0, "batches"), [10**15]), True),
        "batches-millions": (_say(("dataset", "shards", 0, "batches"), [544] * 300_000), True),
        "checksum-short": (_say(("dataset", "shards", 0, "sha256"), "ab"), True),
        "bytes-lie": (_say(("dataset", "shards", 0, "bytes"), 2**63), True),
        "shards-none": (_say(("dataset", "shards"), []), True),
        "shards-twice": (_twice, True),
        "split-goes-up": (_say(("dataset", "split"), "../.."), True),
        "split-is-a-list": (_say(("validation", "split"), ["validation"]), True),
        "vocabulary-negative": (_say(("tokenizer", "vocab_size"), -5), False),
        "vocabulary-huge": (_say(("tokenizer", "vocab_size"), 2**80), False),
        "reasons-with-escapes": (_say(("documents", "dropped"), {"\x1b[31m\u202e": 2}), False),
        "seconds-text": (_say(("seconds",), "\x9b31m"), False),
        "stages-nothing": (_say(("stages",), None), False),
        "shard-cut": (_cut(SHARD, 0.5), True),
        "shard-emptied": (_write(SHARD, b""), True),
        "shard-extended": (_extend(SHARD), True),
        "shard-of-zeros": (_zeros(SHARD), True),
        "shard-removed": (_remove(SHARD), True),
        "shard-a-folder": (_folder(SHARD), True),
        "shard-a-fifo": (_fifo(SHARD), True),
        "shard-linked-outside": (_link(SHARD, "../../NOTES.md"), True),
        "shard-linked-to-a-device": (_link(SHARD, "/dev/zero"), True),
        "shard-linked-to-itself": (_link(SHARD, "data-00000.arrow"), True),
        "shards-swapped": (_swap, True),
        "text-cut": (_cut(TEXT, 0.5), True),
        "text-extended": (_extend(TEXT), True),
        "text-of-zeros": (_zeros(TEXT), True),
        "text-removed": (_remove(TEXT), True),
        "text-is-a-shard": (lambda out: shutil.copy(out / SHARD, out / TEXT), True),
        "rejected-cut": (_cut("rejected-00000.parquet", 0.7), True),
        "rejected-of-zeros": (_zeros("rejected-00000.parquet"), True),
        "state-noise": (_write("train/state.json", b"\xff\xfe{"), False),
        "state-removed": (_remove("train/state.json"), False),
        "info-lies": (_write("train/dataset_info.json", b'{"features": {"input_ids": 5}}'), False),
        "dict-of-splits-lies": (_write("dataset_dict.json", b'{"splits": ["../../beside", 7]}'), False),
        "split-removed": (lambda out: shutil.rmtree(out / "validation"), True),
        "all-removed": (lambda out: [shutil.rmtree(out), out.mkdir()], True),
        "a-link-to-nothing": (lambda out: [shutil.rmtree(out), out.symlink_to("absent")], True),
        "a-file": (lambda out: [shutil.rmtree(out), out.write_bytes(b"noise")], False),
    }


def _write(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda out: (out / name).write_bytes(content)


def _remove(name: str) -> Callable[[Path], object]:
    return lambda out: (out / name).unlink()


def _cut(name: str, share: float) -> Callable[[Path], object]:
    return lambda out: os.truncate(out / name, int((out / name).stat().st_size * share))


def _zeros(name: str) -> Callable[[Path], object]:
    return lambda out: (out / name).write_bytes(bytes((out / name).stat().st_size))


def _extend(name: str) -> Callable[[Path], object]:
    return lambda out: (out / name).write_bytes((out / name).read_bytes() + b"more")


def _folder(name: str) -> Callable[[Path], object]:
    return lambda out: [(out / name).unlink(), (out / name).mkdir()]


def _fifo(name: str) -> Callable[[Path], object]:
    return lambda out: [(out / name).unlink(), os.mkfifo(out / name)]


def _link(name: str, target: str) -> Callable[[Path], object]:
    return lambda out: [(out / name).unlink(), (out / name).symlink_to(target)]


def _swap(out: Path) -> None:
    first, second = out / SHARD, out / "validation/data-00000.arrow"
    first.rename(out / "between")
    second.rename(first)
    (out / "between").rename(second)


def _say(keys: tuple[str | int, ...], value: Any) -> Callable[[Path], object]:
    """Change one value of the manifest."""

    def damage(out: Path) -> None:
        manifest = json.loads((out / "krill-run.json").read_bytes())
        place = manifest
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = value
        (out / "krill-run.json").write_text(json.dumps(manifest))

    return damage


def _twice(out: Path) -> None:
    shards = json.loads((out / "krill-run.json").read_bytes())["dataset"]["shards"]
    _say(("dataset", "shards"), shards * 2)(out)
