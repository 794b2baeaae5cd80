"""Hostile compressions, names and places: for `krill preprocess`."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import socket
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import zstandard
from hostile import Case, preprocess, save, settings, words
from hostile_text import GOOD, WHOLE

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.compress,
}


def cases() -> Iterator[Case]:
    yield from _compressed()
    yield from _frames()
    yield from _names()
    yield from _inputs()
    yield from _outputs()
    yield from _changing()


def _compressed() -> Iterator[Case]:
    for kind, compress in COMPRESS.items():
        file = f"input.jsonl.{kind}"
        whole = compress(WHOLE)
        halves = compress(WHOLE[: len(WHOLE) // 2]) + compress(WHOLE[len(WHOLE) // 2 :])
        yield preprocess(f"{kind}-two-members", file, halves, 0, kept=GOOD)
        yield preprocess(f"{kind}-empty-members", file, compress(b"") * 20_000 + whole, 0, 3, holds=GOOD)
        yield preprocess(f"{kind}-only-empty-members", file, compress(b"") * 20_000, 3)
        yield preprocess(f"{kind}-members-of-one-byte", file, b"".join(
            compress(WHOLE[at : at + 1]) for at in range(len(WHOLE))), 0, kept=GOOD)  # fmt: skip
        yield preprocess(f"{kind}-cut-by-one-byte", file, whole[:-1], 3)
        yield preprocess(f"{kind}-cut-in-the-middle", file, whole[: len(whole) // 2], 3)
        yield preprocess(f"{kind}-the-first-bytes", file, whole[:5], 3)
        yield preprocess(f"{kind}-something-behind", file, whole + b"garbage behind", 0, 3)
        yield preprocess(f"{kind}-zeros-behind", file, whole + bytes(1024), 0, 3)
        middle = len(whole) // 2
        flipped = whole[:middle] + bytes([whole[middle] ^ 255]) + whole[middle + 1 :]
        yield preprocess(f"{kind}-one-byte-flipped", file, flipped, 3)
        yield preprocess(f"{kind}-that-is-plain", file, WHOLE, 0, 3)
        yield preprocess(f"{kind}-named-as-plain", "input.jsonl", whole, 0, 3)
        other = COMPRESS["xz" if kind == "gz" else "gz"]
        yield preprocess(f"{kind}-inside-another", file, compress(other(WHOLE)), 0, 3)
        yield preprocess(f"{kind}-twice", f"{file}.{kind}", compress(whole), 0, 2, 3)
        yield preprocess(f"{kind}-of-nothing", file, compress(b""), 3)
        zeros = partial(_zeros, compress=compress)
        yield preprocess(f"{kind}-of-zeros", f"input.txt.{kind}", zeros, 0, 3, 4, seconds=150)
        yield preprocess(f"{kind}-of-one-endless-line", file, zeros, 3, 4, seconds=150)
        for format in ("parquet", "arrow", "csv"):
            yield preprocess(f"{kind}-of-{format}", f"input.{format}.{kind}", whole, 0, 2, 3)


def _zeros(path: Path, compress: Callable[[bytes], bytes]) -> None:
    path.write_bytes(compress(bytes(100_000_000)))


def _frames() -> Iterator[Case]:
    zst, gz = zstandard.compress(WHOLE), gzip.compress(WHOLE)
    skippable = struct.pack("<II", 0x184D2A50, 7) + b"skipped"
    dictionary = zstandard.train_dictionary(
        2000, [text.encode() * (at + 1) for at, text in enumerate(GOOD * 20)]
    )
    coded = zstandard.ZstdCompressor(dict_data=dictionary).compress(WHOLE)
    huge = struct.pack("<II", 0x184D2A53, 2**32 - 1)
    bare = zlib.compressobj(wbits=-15)
    deflated = bare.compress(WHOLE) + bare.flush()

    def header(flags: int, extra: bytes = b"") -> bytes:
        tail = struct.pack("<II", zlib.crc32(WHOLE), len(WHOLE))
        return b"\x1f\x8b\x08" + bytes([flags]) + bytes(6) + extra + deflated + tail

    kinds = {
        "zst-skippable-frames": (skippable * 1000 + zst + skippable, (0,)),
        "zst-only-skippable-frames": (skippable * 1000, (3,)),
        "zst-skippable-frame-cut": (zst + huge + b"abc", (0, 3)),
        "zst-missing-dictionary": (coded, (3,)),
        "zst-window-of-all-bits": (b"\x28\xb5\x2f\xfd\x00\xff" + bytes(50), (2, 3, 4)),
        "zst-content-size-that-lies": (b"\x28\xb5\x2f\xfd\xe0" + b"\xff" * 8 + zst[6:], (3, 4)),
        "zst-without-its-size": (zstandard.ZstdCompressor(write_content_size=False).compress(WHOLE), (0,)),
        "xz-of-the-older-form": (lzma.compress(WHOLE, lzma.FORMAT_ALONE), (0, 3)),
        "xz-padded-streams": (lzma.compress(WHOLE) + bytes(8) + lzma.compress(b""), (0, 3)),
        "xz-with-sha256": (lzma.compress(WHOLE, check=lzma.CHECK_SHA256), (0,)),
        "xz-header-alone": (b"\xfd7zXZ\0\0\x04", (3,)),
        "gz-name-that-never-ends": (header(8, b"n" * 3_000_000 + b"\0"), (0, 3)),
        "gz-extra-of-64-kilobytes": (header(4, struct.pack("<H", 65535) + bytes(65535)), (0,)),
        "gz-reserved-flags": (header(0xE0), (0, 3)),
        "gz-other-method": (b"\x1f\x8b\x07" + gz[3:], (3,)),
        "gz-wrong-checksum": (gz[:-8] + bytes(4) + gz[-4:], (3,)),
        "gz-wrong-length": (gz[:-4] + b"\xff" * 4, (3,)),
        "bz2-of-level-zero": (b"BZh0" + bz2.compress(WHOLE)[4:], (3,)),
        "bz2-empty-header": (b"BZh9", (3,)),
    }
    for name, (content, numbers) in kinds.items():
        yield preprocess(f"frames-{name}", f"input.jsonl.{name.partition('-')[0]}", content, *numbers)


def _names() -> Iterator[Case]:
    names = {
        "newline": "in\nput.jsonl",
        "escape": "in\x1b]0;owned\x07.jsonl",
        "c1": "in\x9b31m.jsonl",
        "right-to-left": "in\u202elnosj.jsonl",
        "leading-dash": "-rf.jsonl",
        "option": "--overwrite.jsonl",
        "star": "a*b.jsonl",
        "question-mark": "a?b.jsonl",
        "brackets": "a[b]c.jsonl",
        "open-bracket": "a[b.jsonl",
        "braces": "{a,b}.jsonl",
        "backslash": "a\\b.jsonl",
        "percent": "a%20b%00.jsonl",
        "hash-and-query": "a#b?c=d.jsonl",
        "255-bytes": "n" * 249 + ".jsonl",
        "spaces": "  .jsonl",
        "only-an-extension": ".jsonl",
        "upper-case": "INPUT.JSONL",
        "tilde": "~root.jsonl",
        "dollar": "$HOME.jsonl",
        "colon": "s3:input.jsonl",
        "markup": "[red]in[/red].jsonl",
        "combining": "e\u0301\u0301\u0301.jsonl",
        "quote": "'\"`.jsonl",
    }
    for name, file in names.items():
        yield preprocess(f"name-{name}", file, WHOLE, 0, 2, 3)
        yield preprocess(f"name-{name}-missing", None, None, 2, 3, path=file)
        yield preprocess(
            f"output-name-{name}", "input.jsonl", WHOLE, 0, 2, 5, config={"prepared_path": file[:-6]}
        )
    for name, path in {
        "nul": "a\0b.jsonl", "empty": "", "dot": ".", "dot-dot": "..", "of-5000": "a/" * 2500,
        "scheme-unknown": "zz://a/b.jsonl", "scheme-file": "file:///nowhere.jsonl", "stars": "*" * 3000,
        "double-stars": "**/" * 60 + "*.jsonl", "brackets-open": "[" * 2000, "device": "/dev/zero",
        "device-full": "/dev/full", "device-tty": "/dev/tty", "process-memory": "/proc/self/mem",
        "standard-input": "/dev/stdin", "dash": "-",
    }.items():  # fmt: skip
        yield preprocess(f"path-{name}", None, None, 0, 2, 3, 4, 5, path=path, seconds=30)


def _inputs() -> Iterator[Case]:
    def among(
        name: str, put: Callable[[Path], object], *numbers: int, path: str = "data", **more: object
    ) -> Case:
        def make(folder: Path) -> None:
            (folder / "data").mkdir()
            (folder / "data" / "whole.jsonl").write_bytes(WHOLE)
            put(folder / "data")
            save(folder, settings(path))

        return Case(f"input-{name}", make, words("preprocess", "config.yaml"), frozenset(numbers), **more)

    yield among("link-to-itself", lambda data: (data / "a.jsonl").symlink_to("a.jsonl"), 0, 3)
    yield among("link-to-nothing", lambda data: (data / "a.jsonl").symlink_to("absent"), 0, 3)
    yield among("links-in-a-circle", _circle, 0, 3)
    yield among(
        "folder-links-to-itself", lambda data: (data / "deep").symlink_to("."), 0, 3, path="data/**/*.jsonl"
    )
    yield among("folder-named-as-a-file", lambda data: (data / "x.jsonl").mkdir(), 0, 3)
    yield among(
        "folder-named-as-a-file-by-glob", lambda data: (data / "x.jsonl").mkdir(), 0, 3, path="data/*.jsonl"
    )
    yield among(
        "folder-named-as-a-file-alone", lambda data: (data / "x.jsonl").mkdir(), 3, path="data/x.jsonl"
    )
    yield among("fifo", lambda data: os.mkfifo(data / "x.jsonl"), 0, 3, seconds=30)
    yield among(
        "fifo-by-glob", lambda data: os.mkfifo(data / "x.jsonl"), 0, 3, path="data/*.jsonl", seconds=30
    )
    yield among("socket", _socket, 0, 3)
    yield among("link-to-a-device", lambda data: (data / "x.jsonl").symlink_to("/dev/zero"), 0, 3, seconds=30)
    yield among("hidden-files", lambda data: (data / ".hidden.jsonl").write_bytes(b"not json"), 0)
    yield among("empty-files", _empty_files, 0)
    yield among("folders-500-deep", _deep_folders, 0, 3)
    yield among("the-same-file-by-two-links", lambda data: os.link(data / "whole.jsonl", data / "b.jsonl"), 0)
    yield among("formats-mixed", _mixed, 0, 2, 3)
    yield among("glob-of-everything", _mixed, 0, 2, 3, path="**/*")
    yield among("not-utf8-name", lambda data: (data / os.fsdecode(b"\xff.jsonl")).write_bytes(WHOLE), 0, 3)


def _circle(data: Path) -> None:
    (data / "a.jsonl").symlink_to("b.jsonl")
    (data / "b.jsonl").symlink_to("a.jsonl")


def _socket(data: Path) -> None:
    before = Path.cwd()
    os.chdir(data)  # a socket's path is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("x.jsonl")
    finally:
        os.chdir(before)


def _empty_files(data: Path) -> None:
    for at in range(300):
        (data / f"{at}.jsonl").touch()


def _deep_folders(data: Path) -> None:
    place = data
    for _ in range(500):
        place = place / "d"
        if len(os.fsencode(place)) > 3500:
            break
        place.mkdir()
    (place / "a.jsonl").write_bytes(WHOLE) if place.is_dir() else None


def _mixed(data: Path) -> None:
    (data / "a.txt").write_text("some text in a file")
    (data / "b.csv").write_text("text\nsome text in a row\n")
    (data / "c.jsonl.gz").write_bytes(gzip.compress(WHOLE))
    (data / "d.png").write_bytes(b"\x89PNG\r\n\x1a\n")


def _outputs() -> Iterator[Case]:
    def put(
        name: str, prepared: str, make_more: Callable[[Path], object], *numbers: int, path: str = "data"
    ) -> Case:
        def make(folder: Path) -> None:
            (folder / "data").mkdir()
            (folder / "data" / "whole.jsonl").write_bytes(WHOLE)
            make_more(folder)
            save(folder, settings(path, prepared_path=prepared))

        return Case(f"output-{name}", make, words("preprocess", "config.yaml"), frozenset(numbers))

    def nothing(folder: Path) -> None:
        return None

    yield put("is-the-input-folder", "data", nothing, 2, 3, 5)
    yield put("is-the-input-file", "data/whole.jsonl", nothing, 2, 3, 5, path="data/whole.jsonl")
    yield put("inside-the-input", "data/out", nothing, 0, 2, 5)
    yield put("inside-the-input-by-glob", "data/out", nothing, 0, 2, 5, path="**/*.jsonl")
    yield put("below-the-input-file", "data/whole.jsonl/out", nothing, 2, 3, 5)
    yield put("is-here", ".", nothing, 2, 3, 5)
    yield put("is-above", "..", nothing, 2, 3, 5)
    yield put("is-the-root", "/", nothing, 2, 3, 5)
    yield put("is-a-system-folder", "/proc/krill", nothing, 2, 3, 5)
    yield put("is-empty", "", nothing, 2)
    yield put("is-a-file", "out", lambda folder: (folder / "out").write_text("mine"), 2, 5)
    yield put("is-a-full-folder", "out", _full_folder, 2, 5)
    yield put("is-an-empty-folder", "out", lambda folder: (folder / "out").mkdir(), 0, 2, 5)
    yield put("is-a-link-to-a-folder", "out", _linked_folder, 0, 2, 5)
    yield put("is-a-link-to-nothing", "out", lambda folder: (folder / "out").symlink_to("absent"), 0, 2, 5)
    yield put("is-a-link-to-itself", "out", lambda folder: (folder / "out").symlink_to("out"), 2, 3, 5)
    yield put("is-a-link-to-the-input", "out", lambda folder: (folder / "out").symlink_to("data"), 2, 3, 5)
    yield put("is-a-fifo", "out", lambda folder: os.mkfifo(folder / "out"), 2, 5)
    yield put(
        "work-folder-is-a-file", "out", lambda folder: (folder / ".out.krill").write_text("mine"), 0, 2, 5
    )
    yield put("work-folder-is-anothers", "out", _foreign_work, 0, 2, 5)
    yield put("work-folder-is-a-link", "out", _linked_work, 0, 2, 5)
    yield put("below-a-file", "NOTES.md/out", lambda folder: (folder / "NOTES.md").write_text("x"), 2, 5)
    yield put("a-name-of-300-bytes", "n" * 300, nothing, 2, 3, 5)
    yield put("a-name-of-250-bytes", "n" * 250, nothing, 0, 2, 5)
    yield put("nul", "a\0b", nothing, 2)
    yield put("ends-with-slashes", "out///", nothing, 0)
    yield put("goes-up-and-down", "data/../beside/../out", nothing, 0, 2, 5)
    yield put("is-a-krill-output-that-lies", "out", _lying_output, 2, 3, 5)


def _full_folder(folder: Path) -> None:
    (folder / "out").mkdir()
    (folder / "out" / "thesis.txt").write_text("years of work")


def _linked_folder(folder: Path) -> None:
    _full_folder(folder)
    (folder / "out").rename(folder / "elsewhere")
    (folder / "out").symlink_to("elsewhere")


def _foreign_work(folder: Path) -> None:
    (folder / ".out.krill").mkdir()
    (folder / ".out.krill" / "thesis.txt").write_text("years of work")


def _linked_work(folder: Path) -> None:
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "thesis.txt").write_text("years of work")
    (folder / ".out.krill").symlink_to("elsewhere")


def _lying_output(folder: Path) -> None:
    _full_folder(folder)
    (folder / "out" / "krill-run.json").write_text('{"format": 1, "command": "preprocess", "identity": []}')


def _changing() -> Iterator[Case]:
    """The input changes under the reader, again and again until the end."""
    big = WHOLE * 6000

    def change(name: str, act: Callable[[Path], object], *, gone: bool = False) -> Case:
        def during(folder: Path) -> None:
            stop = time.monotonic() + 1.5
            while time.monotonic() < stop and threading.main_thread().is_alive():
                time.sleep(0.02)
                try:
                    act(folder / "input.jsonl")
                except OSError:
                    return

        return preprocess(
            f"changing-{name}", "input.jsonl", big, 0, 3, 4,
            during=during, changed=frozenset({"input.jsonl"}),
            config={"output": "tokens", "sequence_len": 512},
        )  # fmt: skip

    yield change("grows", _append)
    yield change("is-cut", lambda path: os.truncate(path, path.stat().st_size * 9 // 10))
    yield change("is-emptied", lambda path: os.truncate(path, 0))
    yield change("is-removed", Path.unlink)
    yield change("is-replaced", partial(_replace, content=big[: len(big) // 2]))
    yield change("is-replaced-by-noise", partial(_replace, content=b"\xff" * len(big)))
    yield change("is-touched", Path.touch)
    yield change("becomes-a-folder", _to_folder)
    yield change("becomes-a-fifo", _to_fifo)


def _append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(WHOLE)


def _replace(path: Path, content: bytes) -> None:
    path.with_suffix(".new").write_bytes(content)
    path.with_suffix(".new").rename(path)


def _to_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _to_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)
