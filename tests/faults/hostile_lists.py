"""Hostile lists of URLs, suffixes, and models of fastText: what filters read besides documents."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hostile import FAULTS, Case, preprocess
from hostile_text import lines

from fasttext_files import ModelFile

OBEYED = "\x1b]0;x\x07\x9b31m\u202e[/red]"
ANY = (*sorted(FAULTS), 0)
Content = bytes | Callable[[Path], object]
LISTS = ("domains", "hosts", "urls", "banned_words", "soft_words", "banned_subwords")
URLS = (
    "https://example.org/a",
    "http://[::1/",
    "//a",
    "http://" + "a." * 5000 + "b",
    "a" * 100_000,
    "http://",
    "http://%zz%00/\\..",
    "http://user:secret@h:99999/p?q#f",
    OBEYED,
    "http://\u0130.\u4e2d\u56fd/\ufeff",
    " ",
    "http://xn--a/xn--\uffff",
    "javascript:alert(1)",
    "http://1.2.3.4.5.6",
    "http://0x7f.1/",
    "\0",
)


def cases() -> Iterator[Case]:
    yield from _lists()
    yield from _suffixes()
    yield from _columns()
    yield from _models()


def put(folder: Path, name: str, content: Content) -> None:
    if callable(content):
        content(folder / name)
    else:
        (folder / name).write_bytes(content)


def url(
    name: str, section: dict[str, Any], content: Content = b"", rows: bytes | None = None, **more: Any
) -> Case:
    found = rows or lines(*({"text": f"some text {at}", "url": each} for at, each in enumerate(URLS)))

    def write(folder: Path) -> None:
        (folder / "input.jsonl").write_bytes(found)
        put(folder, "list.txt", content)

    config = {"filters": [{"url": {"suffixes": "suffixes.txt", **section}}], "output": "text"}

    def whole(folder: Path) -> None:
        if section.get("suffixes", "suffixes.txt") == "suffixes.txt":
            (folder / "suffixes.txt").write_text("com\norg\nco.uk\n*.ck\n!www.ck\n")
        write(folder)

    dataset = {"columns": ["url"], **more.pop("dataset", {})}
    return preprocess(
        f"list-{name}", None, whole, *ANY, path="input.jsonl", dataset=dataset, config=config, **more
    )


FILES: dict[str, Content] = {
    "empty": b"",
    "blank": b"\n" * 500_000,
    "noise": bytes(range(256)) * 100,
    "nuls": bytes(100_000),
    "a-fifo": os.mkfifo,
    "a-folder": Path.mkdir,
    "a-device": lambda path: path.symlink_to("/dev/zero"),
    "random": lambda path: path.symlink_to("/dev/urandom"),
    "a-loop": lambda path: path.symlink_to(path.name),
    "absent": lambda path: None,
    "locked": lambda path: (path.touch(), path.chmod(0)),
    "a-hole": lambda path: (path.touch(), os.truncate(path, 10**11)),
    "one-long-line": b"a" * 5_000_000,
    "a-long-line": b"a" * 999_999 + b"\n",
    "carriage-returns": b"a.com\r" * 9000,
    "wide": "\n".join("\u4e2d" * 63 + f"{at}.com" for at in range(900)).encode(),
    "escapes": OBEYED.encode() + b"\nexample.org\n",
    "with-a-mark": b"\xef\xbb\xbfexample.org\n",
    "utf-16": "example.org\n".encode("utf-16"),
    "comments": b"# example.org\n#\n",
    "urls": "\n".join(URLS).encode(),
    "alike": b"example.org\n" * 300_000,
    "the-system": lambda path: path.symlink_to("/proc/self/maps"),
    "cut-in-a-letter": b"a" * (2**18 - 1) + "\u4e2d".encode() * 9000 + b"\n",
}


def _lists() -> Iterator[Case]:
    for at, (name, content) in enumerate(FILES.items()):
        for key in (LISTS[at % 6], LISTS[(at + 2) % 6], "patterns_file"):
            yield url(f"{key}-{name}", {key: "list.txt"}, content, seconds=30)
    inline: dict[str, Any] = {
        "empty": [""],
        "blank": [" "],
        "escapes": [OBEYED],
        "lines": ["a\nb\n"],
        "a-surrogate": ["\ud800"],
        "a-nul": ["a\0b"],
        "many": [f"h{at}.com" for at in range(60_000)],
        "long": ["a" * 500_000],
        "numbers": [1, 2],
        "an-object": {"a": 1},
        "a-device": "/dev/stdin",
        "dots": [".", "..", "..."],
    }
    for at, (name, value) in enumerate(inline.items()):
        for key in (LISTS[at % 6], LISTS[(at + 3) % 6]):
            yield url(f"{key}-inline-{name}", {key: value}, seconds=30)
    yield url("patterns-that-repeat", {"patterns": ["(a|aa)+$", "(a{1000}){1000}", "((a*)*)*"]}, seconds=30)
    yield url("patterns-of-escapes", {"patterns": [OBEYED, "["]})
    yield url("threshold-huge", {"soft_words": ["a"], "soft_word_threshold": 2**70})


def _suffixes() -> Iterator[Case]:
    parts = ".".join(["\u00e9"] * 40)
    kinds: dict[str, Content] = {
        "empty": b"",
        "noise": b"\xff\xfe",
        "a-fifo": os.mkfifo,
        "a-folder": Path.mkdir,
        "a-device": lambda path: path.symlink_to("/dev/zero"),
        "a-hole": lambda path: (path.touch(), os.truncate(path, 10**11)),
        "many-wide-labels": parts.encode() + b"\n",
        "a-wide-label": "\u4e2d".encode() * 300_000 + b"\n",
        "many-labels": b"a." * 400_000 + b"b\n",
        "millions": b"".join(b"a%d.com\n" % at for at in range(3_000_000)),
        "dots": b"." * 100_000 + b"\n..\n.\n",
        "stars": b"*.*.*\n!\n*\n",
        "nuls": b"a\0b\n",
        "comments": b"// com\n",
        "a-long-line": b"a" * 5_000_000,
        "escapes": OBEYED.encode(),
    }
    for name, content in kinds.items():
        section = {"domains": ["example.org"], "suffixes": "list.txt"}
        yield url(f"suffixes-{name}", section, content, seconds=30)


def _columns() -> Iterator[Case]:
    kinds: dict[str, list[Any]] = {
        "numbers": [1, 2.5],
        "lists": [["a"], []],
        "objects": [{"a": 1}],
        "nulls": [None, None],
        "mixed": [1, "a", None],
        "booleans": [True, False],
        "long": ["http://" + "a" * 3_000_000],
        "empty": [""],
    }
    for name, values in kinds.items():
        rows = lines(*({"text": f"text {at}", "url": value} for at, value in enumerate(values)))
        yield url(f"column-of-{name}", {"domains": ["example.org"], "patterns": ["a+b"]}, rows=rows)
    yield url("column-absent", {"domains": ["example.org"], "column": "none such"})
    yield url("column-of-escapes", {"domains": ["example.org"], "column": OBEYED})
    yield url("column-not-carried", {"domains": ["example.org"]}, dataset={"columns": []})
    yield url("column-text", {"domains": ["example.org"], "column": "text"})


def fasttext(name: str, content: Content, section: dict[str, Any] | None = None, **more: Any) -> Case:
    def write(folder: Path) -> None:
        rows = [
            *(f"krill {at} gr\u00f6\u00dfe" for at in range(20)),
            "a" * 500_000,
            "\n" * 5000,
            "\0",
            "a " * 100_000,
        ]
        (folder / "input.jsonl").write_bytes(lines(*({"text": text} for text in rows)))
        put(folder, "model.bin", content)

    config = {"filters": [{"fasttext": section or {"model": "model.bin", "keep": {"hq": 0.1}}}]}
    return preprocess(
        f"fasttext-{name}", None, write, *ANY, path="input.jsonl", config=config, seconds=40, **more
    )


def _models() -> Iterator[Case]:
    whole = ModelFile().bytes()
    kinds: dict[str, Content] = {
        "empty": b"",
        "a-fifo": os.mkfifo,
        "a-folder": Path.mkdir,
        "a-device": lambda path: path.symlink_to("/dev/zero"),
        "a-loop": lambda path: path.symlink_to(path.name),
        "absent": lambda path: None,
        "zeros": bytes(1000),
        "a-hole": lambda path: (path.write_bytes(whole), os.truncate(path, 10**12)),
        "extended": whole + b"more",
        "text": b"some text\n" * 100,
        "words-of-escapes": ModelFile(labels=(f"__label__{OBEYED}", "__label__hq")).bytes(),
        "labels-alike": ModelFile(labels=("__label__hq",) * 5).bytes(),
        "many-labels": ModelFile(labels=(*(f"__label__{at}" for at in range(30_000)), "__label__hq")).bytes(),
        "of-one-dimension": ModelFile(dim=1).bytes(),
        "of-many-dimensions": ModelFile(dim=60_000).bytes(),
        "of-a-large-bucket": ModelFile(bucket=1_000_000, word_ngrams=3).bytes(),
        "hierarchical": ModelFile(loss="hs").bytes(),
        "of-letters": ModelFile(bucket=10, minn=1, maxn=200).bytes(),
    }
    for name, content in kinds.items():
        yield fasttext(name, content)
    for at in range(0, 64, 4):  # each number of the header
        for value in (-1, 0, 2**31 - 1, 2**20):
            if (at // 4 + value) % 2:
                continue
            changed = whole[:at] + struct.pack("<i", value) + whole[at + 4 :]
            yield fasttext(f"header-{at}-{value}", changed)
    for cut in (1, 8, 60, len(whole) // 2, len(whole) - 1):
        yield fasttext(f"cut-{cut}", whole[:cut])
    for value in (float("nan"), float("inf"), -1e38):
        yield fasttext(f"weights-of-{value}", whole[:-12] + struct.pack("<3f", value, value, value))
    sections: dict[str, dict[str, Any]] = {
        "label-absent": {"keep": {"none such": 0.1}},
        "label-of-escapes": {"keep": {OBEYED: 0.1}},
        "threshold-infinite": {"keep": {"hq": 1e400}},
        "threshold-negative": {"keep": {"hq": -5}},
        "threshold-text": {"keep": {"hq": "a"}},
        "nothing": {},
        "labels-many": {"scores": [f"l{at}" for at in range(30_000)]},
        "newline-long": {"keep": {"hq": 0.1}, "newline": "\n" * 90_000},
    }
    for name, section in sections.items():
        yield fasttext(f"section-{name}", whole, {"model": "model.bin", **section})
    language = {"filters": [{"language": {"allow": ["hq", "e"], "model": "model.bin"}}]}

    def write(folder: Path) -> None:
        (folder / "input.jsonl").write_bytes(lines({"text": json.dumps(list(range(999)))}))
        (folder / "model.bin").write_bytes(whole)

    yield preprocess("fasttext-as-languages", None, write, *ANY, path="input.jsonl", config=language)
