"""Hostile texts for the filters, addresses in the place of files, and slices of every format."""

from __future__ import annotations

import gzip
import json
import lzma
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import zstandard
from hostile import Case, preprocess
from hostile_text import GOOD, WHOLE, lines


def cases() -> Iterator[Case]:
    yield from _slices()
    yield from _addresses()
    yield from _filters()


WRITERS: dict[str, Callable[[Path], object]] = {
    "jsonl": lambda path: path.write_bytes(WHOLE),
    "json": lambda path: path.write_bytes(json.dumps([{"text": text} for text in GOOD]).encode()),
    "csv": lambda path: path.write_text("text\n" + "".join(f'"{text}"\n' for text in GOOD)),
    "tsv": lambda path: path.write_text("text\n" + "".join(f"{text}\n" for text in GOOD)),
    "txt": lambda path: path.write_text("<|endoftext|>".join(GOOD)),
    "parquet": lambda path: pq.write_table(pa.table({"text": GOOD}), path, row_group_size=3),
    "arrow": lambda path: _stream(path),
    "jsonl.gz": lambda path: path.write_bytes(gzip.compress(WHOLE)),
    "jsonl.zst": lambda path: path.write_bytes(zstandard.compress(WHOLE)),
    "txt.xz": lambda path: path.write_bytes(lzma.compress("<|endoftext|>".join(GOOD).encode())),
}


def _stream(path: Path) -> None:
    table = pa.table({"text": GOOD})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=3)


def _slices() -> Iterator[Case]:
    slices = {"[5:11]": GOOD[5:11], "[-4:]": GOOD[-4:], "[35%:55%]": GOOD[7:11], "[:1]": GOOD[:1],
              "[19:400]": GOOD[19:], "[-400:-18]": GOOD[:2]}  # fmt: skip
    for form, write in WRITERS.items():
        for at, (notation, kept) in enumerate(slices.items()):
            if (at + len(form)) % 2:  # each format meets three of them
                continue
            yield preprocess(
                f"slice-{notation}-of-{form}", f"input.{form}", write, 0, kept=kept,
                dataset={"split": f"train{notation}"},
            )  # fmt: skip
        for name, notation in {"empty": "[5:5]", "crossed": "[9:3]", "beyond": "[20:]"}.items():
            yield preprocess(
                f"slice-{name}-of-{form}", f"input.{form}", write, 3, dataset={"split": f"train{notation}"}
            )


def _addresses() -> Iterator[Case]:
    urls = {
        "open-bracket": "http://[::1/a.jsonl", "no-host": "http:///a.jsonl",
        "a-port-too-high": "http://127.0.0.1:99999/a",
        "a-port-in-words": "http://127.0.0.1:abc/a.jsonl", "nobody-there": "http://127.0.0.1:1/a.jsonl",
        "secret": "http://user:secret@127.0.0.1:1/a.jsonl", "s3-nothing": "s3://", "s3-slashes": "s3:////",
        "memory": "memory://a.jsonl", "file-relative": "file://input.jsonl", "local": "local://input.jsonl",
        "zip-of-nothing": "zip://a.jsonl::absent.zip", "zip-of-the-input": "zip://a.jsonl::input.jsonl",
        "cached": "simplecache::file://absent.jsonl", "chain": "::".join(["zip://a"] * 200),
        "colons": "://",
        "scheme-of-an-escape": "\x1b[31m://a", "data": "data://text,abc", "tar": "tar://a::input.jsonl",
        "ftp": "ftp://127.0.0.1:1/a.jsonl", "git": "git://a.jsonl", "dir": "dir://a.jsonl",
        "reference": "reference://a.jsonl", "hf-nobody": "hf://",
        "blockcache": "blockcache::http://127.0.0.1:1/a.jsonl",
        "arrow": "arrow_hdfs://a/b.jsonl", "generic": "generic://a", "a-nul": "http://a\0b/c.jsonl",
        "stars": "file:///" + "*" * 500, "long": "http://127.0.0.1:1/" + "a" * 4000,
    }  # fmt: skip
    for name, url in urls.items():
        numbers = (0,) if name in ("file-relative", "local") else (2, 3, 5)
        yield preprocess(f"url-{name}", "input.jsonl", WHOLE, *numbers, path=url, seconds=30)
        if len(name) % 3 == 0:
            yield preprocess(
                f"url-output-{name}",
                "input.jsonl",
                WHOLE,
                0,
                2,
                3,
                5,
                config={"prepared_path": url},
                seconds=30,
            )

    # The list of the files alone is more than the budget.
    yield preprocess(
        "url-zip-of-300000-names",
        "names.zip",
        _zip_of_names,
        3,
        4,
        path="zip://*.jsonl::names.zip",
        fresh=True,
    )


def _zip_of_names(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for at in range(300_000):
            archive.writestr(f"{at:040d}.jsonl", b"")


def _filters() -> Iterator[Case]:
    long = {
        "one-word": "a" * 3_000_000, "one-word-again": "a " * 1_500_000,
        "lines-of-one-word": "a\n" * 1_500_000,
        "blank-lines": "a\n\n" * 1_000_000, "bullets": "- \n" * 1_000_000, "dots": "...\n" * 700_000,
        "citations": "[1]" * 900_000, "open-citations": "[" * 3_000_000, "braces": "{" * 3_000_000,
        "sentences": "A. " * 1_000_000, "quotes": "\"'" * 1_500_000, "hashes": "#" * 3_000_000,
        "ideographs": "\u4e00" * 1_000_000, "marks": "e" + "\u0301" * 1_000_000, "digits": "1 " * 1_500_000,
        "words-that-differ": " ".join(map(str, range(400_000))),
    }  # fmt: skip
    steps = ["web-en", "c4", "gopher_repetition", "repeated_lines", "repeated_paragraphs"]
    for name, text in long.items():
        config = {"filters": steps, "statistics": True, "rejected": True}
        content = lines({"text": text}, {"text": GOOD[0]})
        yield preprocess(
            f"filters-on-{name}", "input.jsonl", lambda path, content=content: path.write_bytes(content),
            0, 3, 4,
            memory="400MB", config=config,
        )  # fmt: skip
        dedup = {"dedup": {"method": "minhash", "verify": 0.5, "clusters": True}}
        near = lines(*({"text": f"{at} {text[:200_000]}"} for at in range(10)))
        yield preprocess(
            f"minhash-of-{name}", "input.jsonl", lambda path, near=near: path.write_bytes(near), 0, 3, 4,
            memory="400MB", config=dedup,
        )  # fmt: skip
    copies = lines(*({"text": f"{at} " + "near copies of one text " * 20} for at in range(3000)))
    yield preprocess("minhash-verified-of-3000-copies", "input.jsonl", copies, 0, 4, config={
        "dedup": {"method": "minhash", "verify": 0.9, "clusters": True}})  # fmt: skip
    patterns = {
        "nested-repeats": "((a{100}){100}){100}", "alternatives": "|".join(["(a|aa)+"] * 300) + "$",
        "everything": ".*",
        "nothing": "$^", "open": "(" * 2000, "classes": "[" * 2000, "quoted": "\\Q" * 500, "nul": "\\x00",
        "unicode": "\\pL" * 500,
        "back-reference": "(a)\\1", "look": "(?=a)", "bytes": "\\C", "flags": "(?i)(?s)(?U)a+",
        "repeat": "a{99999999999}",
    }  # fmt: skip
    for name, pattern in patterns.items():
        yield preprocess(f"blocklist-{name}", "input.jsonl", WHOLE, config={
            "filters": [{"blocklist": {"patterns": [pattern]}}]}, seconds=30)  # fmt: skip
    places = {"a-device": "/dev/zero", "here": ".", "absent": "absent.txt", "the-input": "input.jsonl",
              "memory": "/proc/self/mem"}  # fmt: skip
    for name, path in places.items():
        yield preprocess(f"blocklist-file-is-{name}", "input.jsonl", WHOLE, config={
            "filters": [{"blocklist": {"file": path}}]}, seconds=30)  # fmt: skip
