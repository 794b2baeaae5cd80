"""Hostile crawls, pages and archives: for `krill preprocess`."""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import brotli
import zstandard
from hostile import Case, preprocess

from web_crawl import compressed, overlapping_zip, skippable_frame, tarred, warc_info, warc_record, zipped

GOOD = [f"good page {number} with some words of its own" for number in range(2)]
HTTP = "application/http; msgtype=response"
ENDINGS = ("", ".gz", ".zst")
OBEYED = "\x1b]0;x\x07\x9b31m\u202e[/red]"


def cases() -> Iterator[Case]:
    yield from _fields()
    yield from _records()
    yield from _answers()
    yield from _bodies()
    yield from _files()
    yield from _pages()
    yield from _archives()
    yield from _lists()


Content = bytes | Callable[[], bytes]
"""What takes long to make is made by the case."""


def web(name: str, file: str, content: Content, *numbers: int, skip: bool = True, **more: Any) -> Case:
    """A file of pages, read with limits that make the large ones small."""
    dataset = {"columns": "*", "extract": {"max_page_bytes": "2MB"}, **more.pop("dataset", {})}
    config = {"on_error": "skip" if skip else "fail", **more.pop("config", {})}

    def write(path: Path) -> None:
        path.write_bytes(content() if callable(content) else content)

    codes = numbers or (0,)
    return preprocess(
        f"web-{name}", file, write, *codes, dataset=dataset, config=config, memory="400MB", **more
    )


def good(number: int) -> bytes:
    return response(f"<p>{GOOD[number]}</p>".encode(), number=number)


def response(
    body: bytes, head: bytes = b"HTTP/1.1 200 OK\r\nContent-Type: text/html", **fields: Any
) -> bytes:
    content = head + b"\r\n\r\n" + body
    return warc_record("response", content, url="https://example.org/1", content_type=HTTP, **fields)


def between(name: str, *records: Content, ending: str = ".gz", packed: Content = b"", **more: Any) -> Case:
    """Records or bytes of a file between two that are whole, which have to be kept."""

    def content() -> bytes:
        made = [record() if callable(record) else record for record in records]
        behind = packed() if callable(packed) else packed
        return compressed([good(0), *made], ending) + behind + compressed([good(1)], ending)

    return web(name, f"input.warc{ending}", content, **{"holds": GOOD, **more})


VALUES: dict[str, str | None] = {
    "missing": None,
    "empty": "",
    "long": "a" * 60_000,
    "too-long": "a" * 100_000,
    "escapes": OBEYED,
    "folded": "a\r\n b: c",
    "nul": "a\0b",
    "negative": "-1",
    "many-digits": "9" * 400,
    "other-digits": "\u0663\u0664",
    "a-url": "http://[::1/%zz\\..\\?#",
}
FIELDS = (
    "WARC-Type",
    "WARC-Target-URI",
    "WARC-Date",
    "WARC-Record-ID",
    "Content-Type",
    "Content-Length",
    "WARC-Identified-Payload-Type",
    "WARC-Truncated",
)


def _fields() -> Iterator[Case]:
    """Every field with every value."""
    for field in FIELDS:
        for name, value in VALUES.items():
            record = response(b"<p>a page", **{field.replace("-", "_"): value})
            ending = random.Random(field + name).choice(ENDINGS)
            yield between(f"{field.lower()}-{name}", record, ending=ending)


LOST_IN_PLAIN: dict[str, dict[str, Any]] = {
    "no-version": {"holds": GOOD[1:]},
    "a-gigabyte-stated": {"holds": GOOD[:1]},
}


def _records() -> Iterator[Case]:
    whole = response(b"<p>a page")
    heads = {
        "no-version": whole.replace(b"WARC/1.0\r\n", b"", 1),
        "version-9": whole.replace(b"WARC/1.0", b"WARC/9.9", 1),
        "version-0": whole.replace(b"WARC/1.0", b"WARC/0.18", 1),
        "two-versions": b"WARC/1.0\r\n" + whole,
        "bare-newlines": whole.replace(b"\r\n", b"\n"),
        "no-end-of-header": whole.replace(b"\r\n\r\n", b"\r\n"),
        "fields-of-one-name": whole.replace(
            b"\r\nContent-Length", b"\r\nContent-Length: 5\r\nContent-Length", 1
        ),
        "ten-thousand-fields": whole.replace(b"\r\n", b"\r\n" + b"a: b\r\n" * 10_000, 1),
        "a-field-of-no-name": whole.replace(b"\r\n", b"\r\n: b\r\n\x00\xff\r\n", 1),
        "an-empty-record": warc_record("response", b"", content_type=HTTP),
        "a-record-of-newlines": warc_record("response", b"\r\n" * 100_000, content_type=HTTP),
        "a-record-in-a-record": response(whole),
        "ten-thousand-empty-records": warc_record("resource", b"", content_type="text/html") * 10_000,
        "ten-thousand-requests": warc_record("request", b"GET /", content_type="") * 10_000,
        "another-type": warc_record("continuation", b"<p>a", content_type="text/html"),
        "a-revisit": warc_record("revisit", b"HTTP/1.1 304\r\n\r\n", content_type=HTTP),
        "newlines-in-front": b"\r\n" * 100_000 + whole,
        "nothing-behind": whole.rstrip(),
        "versions-alone": b"WARC/1.0\r\n" * 50_000,
        "a-gigabyte-stated": warc_record("response", b"a", content_type=HTTP, Content_Length="1000000000"),
    }
    for name, record in heads.items():
        for ending in ENDINGS:
            # Without members, what stands behind a record shows whether its length is right.
            lost = {} if ending else LOST_IN_PLAIN.get(name, {})
            yield between(f"{name}{ending}", record, ending=ending, **lost)
        strict = compressed([good(0), record, good(1)], ".gz")
        yield web(f"{name}-strict", "input.warc.gz", strict, 0, 3, skip=False)


def _answers() -> Iterator[Case]:
    page = b"<p>a page"
    html = b"\r\nContent-Type: text/html"
    heads = {
        "no-head": b"",
        "http-0.9": b"<p>a page without a head",
        "http-1.0-alone": b"HTTP/1.0 200 OK",
        "http-2": b"HTTP/2 200" + html,
        "status-of-two-digits": b"HTTP/1.1 20 OK" + html,
        "status-of-letters": b"HTTP/1.1 OK" + html,
        "status-999": b"HTTP/1.1 999 OK" + html,
        "status-escapes": b"HTTP/1.1 200 \x1b[2J" + html,
        "type-twice": b"HTTP/1.1 200 OK" + html + b"\r\nContent-Type: image/png",
        "type-of-60-kilobytes": b"HTTP/1.1 200 OK\r\nContent-Type: " + b"a" * 60_000,
        "head-of-200-kilobytes": b"HTTP/1.1 200 OK" + html + b"\r\nX: y" * 40_000,
        "charset-of-a-lie": b"HTTP/1.1 200 OK" + html + b"; charset=utf-7",
        "charset-that-is-none": b"HTTP/1.1 200 OK" + html + b"; charset=\x1b[31m/../x",
        "charset-of-code": b"HTTP/1.1 200 OK" + html + b"; charset=unicode_escape",
        "charset-of-zip": b"HTTP/1.1 200 OK" + html + b"; charset=zlib_codec",
        "charset-punycode": b"HTTP/1.1 200 OK" + html + b"; charset=punycode",
        "length-that-lies": b"HTTP/1.1 200 OK" + html + b"\r\nContent-Length: 5",
        "null-bytes": b"HTTP/1.1 200 OK\0" + html,
    }
    for name, head in heads.items():
        yield between(f"answer-{name}", response(page, head))
    for status in (100, 204, 206, 301, 304, 400, 403, 404, 410, 429, 500, 503):
        yield between(f"answer-status-{status}", response(page, b"HTTP/1.1 %d X" % status + html))


def _bodies() -> Iterator[Case]:
    page = b"<p>a page with some words" * 40
    packed = gzip.compress(page)
    bodies: dict[str, tuple[bytes, Content]] = {
        "gzip-bomb": (b"gzip", lambda: gzip.compress(bytes(500_000_000), 1)),
        "gzip-in-gzip": (b"gzip", gzip.compress(packed)),
        "gzip-cut": (b"gzip", packed[:-20]),
        "gzip-flipped": (b"gzip", packed[:30] + b"????" + packed[34:]),
        "gzip-two-members": (b"gzip", packed * 2),
        "gzip-of-nothing": (b"gzip", b""),
        "gzip-head-alone": (b"gzip", packed[:10]),
        "deflate-bomb": (b"deflate", lambda: zlib.compress(bytes(500_000_000), 1)),
        "deflate-that-is-none": (b"deflate", page),
        "brotli-bomb": (b"br", lambda: brotli.compress(bytes(500_000_000), quality=1)),
        "brotli-cut": (b"br", brotli.compress(page)[:-9]),
        "brotli-of-nothing": (b"br", b""),
        "zstd": (b"zstd", zstandard.compress(page)),
        "two-encodings": (b"gzip, br", packed),
        "a-list-of-a-thousand": (b"gzip, " * 1000, packed),
    }
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: "
    for name, (encoding, body) in bodies.items():

        def record(body: Content = body, encoding: bytes = encoding) -> bytes:
            return response(body() if callable(body) else body, head + encoding)

        yield between(f"body-{name}", record)
    chunks = {
        "negative": b"-5\r\nhello\r\n0\r\n\r\n",
        "of-16-digits": b"ffffffffffffffff\r\nhello",
        "beyond-the-end": b"ffff\r\n<p>hello",
        "a-million": b"1\r\na\r\n" * 300_000,
        "without-an-end": b"5\r\nhello\r\n" * 10,
        "long-extensions": b"5;" + b"a" * 100_000 + b"\r\nhello\r\n0\r\n\r\n",
        "none": b"",
    }
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked"
    for name, body in chunks.items():
        yield between(f"chunks-{name}", response(body, head))


def _files() -> Iterator[Case]:
    """Bytes of files between whole members, and files that are changed at some place."""
    frame = zstandard.ZstdCompressor(write_checksum=True).compress(response(b"<p>a page" * 99))
    between_members: dict[str, Content] = {
        "nothing-like-it": b"some other bytes " * 9999,
        "beginnings": b"\x1f\x8b\x08\x00" * 50_000 + b"\x28\xb5\x2f\xfd" * 5000,
        "zeros": bytes(1_000_000),
        "a-bomb": lambda: gzip.compress(bytes(500_000_000), 1),
        "a-bomb-of-zstd": lambda: zstandard.compress(bytes(500_000_000)),
        "a-frame-to-skip": skippable_frame(bytes(1_000_000), 3),
        "a-dictionary-late": skippable_frame(b"?" * 1000, 13),
        "half-a-frame": frame[: len(frame) // 2],
        "a-window-of-terabytes": b"\x28\xb5\x2f\xfd\x00\xff" + b"\1\0\0",
        "blocks-of-nothing": b"\x28\xb5\x2f\xfd\x00\x58" + b"\0\0\0" * 100_000 + b"\1\0\0",
        "a-block-too-long": b"\x28\xb5\x2f\xfd\x00\x58" + b"\xf8\xff\xff" + bytes(3000),
    }
    for name, packed in between_members.items():
        for ending in (".gz", ".zst"):
            yield between(f"members-{name}{ending}", ending=ending, packed=packed)
    for ending in ENDINGS:
        whole = compressed([warc_info(), *(good(n % 2) for n in range(30))], ending)
        for seed in range(12):
            chance = random.Random(f"{ending}{seed}")
            at = chance.randrange(len(whole))
            damage: list[Callable[[], bytes]] = [
                lambda whole=whole, at=at: whole[:at],
                lambda whole=whole, at=at: whole[:at] + whole[at + 1 :],
                lambda whole=whole, at=at: whole[:at] + b"??" + whole[at:],
                lambda whole=whole, at=at: whole[:at] + bytes([whole[at] ^ 64]) + whole[at + 1 :],
            ]
            yield web(f"changed-{seed}{ending}", f"input.warc{ending}", damage[seed % 4](), 0, 3)
    for name, frame in {
        "cut": skippable_frame(bytes(99), 13)[:-9],
        "huge": struct.pack("<II", 0x184D2A5D, 2**32 - 1) + bytes(99),
        "a-bomb": skippable_frame(zstandard.compress(bytes(10**8)), 13),
        "nonsense": skippable_frame(b"\x37\xa4\x30\xec" + bytes(9000), 13),
        "empty": skippable_frame(b"", 13),
    }.items():
        yield web(f"dictionary-{name}", "input.warc.zst", frame + compressed([good(0)], ".zst"), 0, 3)
    for ending, pack in {".bz2": bz2.compress, ".xz": lzma.compress}.items():
        content = pack(good(0) + good(1))
        yield web(f"whole{ending}", f"input.warc{ending}", content, 0, kept=None, holds=GOOD)
        yield web(f"cut{ending}", f"input.warc{ending}", content[:-9], 3)
    yield web("wet-of-binary", "input.warc.wet.gz", gzip.compress(
        warc_record("conversion", bytes(range(256)) * 99, content_type="text/plain")), 0, 3)  # fmt: skip
    yield web("warc-that-is-text", "input.warc", b"some text\n" * 9999, 0, 3)
    yield web("warc-that-is-text-strict", "input.warc", b"some text\n" * 9999, 3, skip=False)
    yield web("warc-of-nothing", "input.warc.gz", gzip.compress(b""), 0, 3)


def _pages() -> Iterator[Case]:
    pages = {
        "nothing": b"",
        "a-bracket": b"<",
        "open-tags": b"<" * 500_000,
        "an-open-comment": b"<!--" + b"-" * 500_000,
        "an-open-script": b"<script>" + b"<p>" * 100_000,
        "an-open-attribute": b'<p a="' + b">" * 500_000,
        "an-open-entity": b"&" + b"a" * 500_000,
        "entities": b"&amp;" * 100_000,
        "numbers-of-entities": b"&#x110000;&#0;&#xD800;&#99999999999999999999;" * 9000,
        "nested": b"<div>" * 90_000,
        "misnested": b"<b><i></b></i>" * 30_000,
        "tables": b"<table><tr><td>" * 30_000,
        "forms": b"<select>" + b"<option>a" * 50_000,
        "templates": b"<template>" * 900 + b"a",
        "frames": b"<svg><math><desc>" * 300,
        "attributes": b"<p " + b" ".join(b"a%d=b" % n for n in range(60_000)) + b">text",
        "doctypes": b"<!DOCTYPE html>" * 50_000,
        "every-byte": bytes(range(1, 256)) * 3000,
        "nuls": b"<p>a\0b" * 50_000,
        "utf-16": "\ufeff<p>a page in UTF-16".encode("utf-16-le") * 300,
        "utf-7": b"<meta charset=utf-7>+ADw-p+AD4-",
        "charsets": b"<meta charset=x>" * 20_000,
        "a-long-title": b"<title>" + b"a" * 1_000_000 + b"</title><p>text",
        "escapes": f"<title>{OBEYED}</title><p>{OBEYED}".encode(),
        "a-pdf": b"%PDF-1.7" + bytes(999),
    }
    for name, page in pages.items():
        yield web(f"page-{name}", "input.html", page, 0, 3)
        strip = {"extract": {"max_page_bytes": "2MB", "oversize_page": "strip"}}
        yield between(f"page-{name}-in-a-crawl", response(page), dataset=strip)


def _archives() -> Iterator[Case]:
    members = {"a.html": f"<p>{GOOD[0]}".encode(), "b.css": b"p {}", "c.html": f"<p>{GOOD[1]}".encode()}
    for name, more in {
        "outside": {"../../a.html": b"<p>out", "/etc/b.html": b"<p>out"},
        "names-that-are-obeyed": {f"{OBEYED}.html": b"<p>named"},
        "nested": {"inner.zip": zipped(members), "inner.tar.gz": b""},
        "a-bomb": {"bomb.html": bytes(50_000_000)},
        "a-bomb-in-gzip": {"bomb.html.gz": gzip.compress(bytes(50_000_000))},
        "long-names": {"a" * 60_000 + ".html": b"<p>long"},
        "twenty-thousand-members": {f"{n}.css": b"" for n in range(20_000)},
        "two-thousand-pages": {f"{n}.html": b"<p>a page" for n in range(2000)},
    }.items():
        together = {**more, **members}
        yield web(f"zip-{name}", "input.zip", partial(zipped, together), holds=GOOD)
        yield web(f"tar-{name}", "input.tar", partial(tarred, together), holds=GOOD)
    whole = {"zip": zipped(members), "tar": tarred(members), "tar.gz": gzip.compress(tarred(members))}
    for ending, content in whole.items():
        for seed in range(8):
            chance = random.Random(f"{ending}{seed}")
            at = chance.randrange(len(content))
            flipped = content[:at] + bytes([chance.randrange(256)]) + content[at + 1 :]
            yield web(f"archive-changed-{seed}.{ending}", f"input.{ending}", flipped, 0, 3)
            yield web(f"archive-cut-{seed}.{ending}", f"input.{ending}", content[:at], 0, 3)
        yield web(f"archive-strict.{ending}", f"input.{ending}", content[:-40], 0, 3, skip=False)
        yield web(f"archive-twice.{ending}", f"input.{ending}", content * 2, 0, 3)
    for offset, form, numbers in (
        (8, "<H", (1, 0xFFFF)),
        (10, "<H", (1, 12, 99)),
        (20, "<I", (0, 2**32 - 1)),
        (24, "<I", (0, 5_000_000, 2**32 - 1)),
        (28, "<H", (0, 0xFFFF)),
        (30, "<H", (0xFFFF,)),
        (42, "<I", (1, 2**32 - 1)),
    ):
        for number in numbers:
            content = bytearray(whole["zip"])
            struct.pack_into(form, content, content.index(b"PK\1\2") + offset, number)
            yield web(f"zip-entry-{offset}-{number}", "input.zip", bytes(content), 0, 3)
    for offset, form, numbers in (
        (4, "<H", (1,)),
        (10, "<H", (0, 9)),
        (12, "<I", (0, 2**31)),
        (16, "<I", (1,)),
    ):
        for number in numbers:
            content = bytearray(whole["zip"])
            struct.pack_into(form, content, content.index(b"PK\5\6") + offset, number)
            yield web(f"zip-end-{offset}-{number}", "input.zip", bytes(content), 0, 3)
    yield web("zip-members-upon-each-other", "input.zip", partial(overlapping_zip, 50_000), 0, 3)
    yield web(
        "zip-members-upon-each-other-strict", "input.zip", partial(overlapping_zip, 50_000), 3, skip=False
    )
    yield web("tar-of-a-terabyte", "input.tar", _lying_tar(1 << 40), 0, 3)
    yield web("tar-of-a-long-header", "input.tar", _lying_tar(1 << 33, tarfile.XHDTYPE), 0, 3)
    yield web("tar-of-zeros", "input.tar", bytes(10_000_000), 0, 3)
    yield web("tar-of-noise", "input.tar", random.Random(1).randbytes(3_000_000), 0, 3)


def _lying_tar(size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    member = tarfile.TarInfo("a.html")
    member.size, member.type = size, kind
    return member.tobuf() + b"<p>a page".ljust(512, b"\0") + bytes(1024)


def _lists() -> Iterator[Case]:
    for name, line in {
        "outside": b"../input.warc",
        "absolute": b"/etc/passwd",
        "a-url": b"http://127.0.0.1:1/a.warc",
        "escapes": OBEYED.encode(),
        "not-utf8": b"\xff\xfe.warc",
        "nul": b"input.warc\0",
        "a-line-of-a-megabyte": b"a" * 1_000_000,
        "only-dots": b"./..",
        "nothing": b"",
        "a-folder": b"beside",
    }.items():
        yield web(
            f"list-{name}", "some.paths", line + b"\n", 3, path=".", dataset={"paths_file": "some.paths"}
        )
    packed = gzip.compress(b"input.warc\n")
    listed = {"paths_file": "some.paths.gz"}
    yield web("list-cut", "some.paths.gz", packed[:-9], 3, path=".", dataset=listed)
    yield web(
        "list-bomb", "some.paths.gz", lambda: gzip.compress(bytes(10**8), 1), 3, path=".", dataset=listed
    )
