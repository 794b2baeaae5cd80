"""Crawls for tests: pages with menus, scripts, charsets and traps, and WARC files of them."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import zstandard

MENU = '<nav><ul><li><a href="/">Home</a></li><li><a href="/about">About us</a></li></ul></nav>'
SCRIPT = '<script>var page = "<p>not text</p>"; if (1 < 2) { document.write("</p>"); }</script>'
TEXT = "the river carries stones and sand from the mountains down to the sea while people build towns"
WORDS = TEXT.split()


def article(number: int, *, paragraphs: int = 5, language: str = "en") -> str:
    """Some paragraphs that differ from those of every other number."""
    lines = []
    for paragraph in range(paragraphs):
        words = [WORDS[(number * 7 + paragraph * 3 + at * (number % 5 + 1)) % len(WORDS)] for at in range(40)]
        lines.append(f"Article {number} in {language}, paragraph {paragraph}: {' '.join(words)}.")
    return "\n".join(f"<p>{line}</p>" for line in lines)


def page_of(body: str, *, title: str = "A page", head: str = "") -> str:
    return (
        f"<!DOCTYPE html><html><head><title>{title}</title>{head}</head><body>{MENU}{SCRIPT}"
        f"<main>{body}</main><footer>Imprint and cookies</footer></body></html>"
    )


@dataclass(frozen=True)
class Answer:
    """What a server sends for a page."""

    url: str
    body: bytes
    status: str = "200 OK"
    content_type: str = "text/html; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)

    def http(self) -> bytes:
        lines = [f"HTTP/1.1 {self.status}", f"Content-Type: {self.content_type}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + self.body


def warc_record(
    kind: str, content: bytes, *, url: str = "", content_type: str = "", number: int = 0, **fields: str
) -> bytes:
    """One record, as the standard has it; `fields` replace those of its header, `None` leaves one out."""
    header = {
        "WARC-Type": kind,
        "WARC-Date": f"2026-01-01T00:{number // 60 % 60:02}:{number % 60:02}Z",
        "WARC-Record-ID": f"<urn:uuid:00000000-0000-0000-0000-{number:012}>",
        **({"WARC-Target-URI": url} if url else {}),
        "Content-Type": content_type,
        "Content-Length": str(len(content)),
        **{name.replace("_", "-"): value for name, value in fields.items()},
    }
    lines = ["WARC/1.0", *(f"{name}: {value}" for name, value in header.items() if value is not None)]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content + b"\r\n\r\n"


def response_record(answer: Answer, number: int = 0, **fields: str) -> bytes:
    kind = "application/http; msgtype=response"
    return warc_record("response", answer.http(), url=answer.url, content_type=kind, number=number, **fields)


def warc_info() -> bytes:
    return warc_record("warcinfo", b"software: a test\r\n", content_type="application/warc-fields")


def compressed(records: Iterable[bytes], ending: str) -> bytes:
    """A WARC file of these records: each is a member or a frame of its own, as crawlers write them."""
    pack = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.ZstdCompressor().compress}[ending]
    return b"".join(pack(record) for record in records)


def simple_answers(count: int, host: str = "example.org") -> list[Answer]:
    return [
        Answer(
            f"https://{host}/articles/{number}",
            page_of(article(number), title=f"Article {number}").encode(),
        )
        for number in range(count)
    ]


def crawl(answers: Iterable[Answer], ending: str = ".gz") -> bytes:
    """All answers as responses, each behind its request, after a `warcinfo`."""
    records = [warc_info()]
    for number, answer in enumerate(answers):
        request = f"GET {answer.url} HTTP/1.1\r\n\r\n".encode()
        kind = "application/http; msgtype=request"
        records.append(warc_record("request", request, url=answer.url, content_type=kind, number=number))
        records.append(response_record(answer, number))
    return compressed(records, ending)


def zipped(members: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return made.getvalue()


def tarred(members: Mapping[str, bytes], format: int = tarfile.PAX_FORMAT) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=format) as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return made.getvalue()


def overlapping_zip(listed: int) -> bytes:
    """One member of a megabyte, listed many times: a bomb."""
    one = zipped({"a.html": b"<p>" + bytes(10**6)})
    at, end = one.index(b"PK\1\2"), one.index(b"PK\5\6")
    directory = one[at:end] * listed
    return (
        one[:at] + directory + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, listed, listed, len(directory), at, 0)
    )


def skippable_frame(content: bytes, number: int = 0) -> bytes:
    """A frame of zstd that is to be skipped; the one with number 13 holds a dictionary."""
    return struct.pack("<II", 0x184D2A50 + number, len(content)) + content


def write_mixed_crawl(folder: Path, pages: int) -> int:
    """A crawl of every kind, of so many pages each, some of them damaged; the number of whole pages."""
    folder.mkdir()
    made = {
        kind: {f"{kind}/{n}.html": page_of(article(n, language=kind)).encode() for n in range(pages)}
        for kind in ("gzip", "zstd", "tar", "zip", "file")
    }
    records = {
        kind: [response_record(Answer(f"https://{name}", body)) for name, body in made[kind].items()]
        for kind in ("gzip", "zstd")
    }
    members = [gzip.compress(record) for record in records["gzip"]]
    members[pages // 3] = members[pages // 3][:200] + b"?" * 40 + members[pages // 3][240:]
    (folder / "0.warc.gz").write_bytes(b"".join(members))
    dictionary = zstandard.train_dictionary(4000, records["zstd"])
    frames = [zstandard.ZstdCompressor(dict_data=dictionary).compress(record) for record in records["zstd"]]
    frames[pages // 2] = frames[pages // 2][:30] + b"?" * 20 + frames[pages // 2][50:]
    (folder / "1.warc.zst").write_bytes(skippable_frame(dictionary.as_bytes(), 13) + b"".join(frames))
    (folder / "2.tar.gz").write_bytes(gzip.compress(tarred({**made["tar"], "tar/paper.html": b"%PDF-1.7"})))
    (folder / "3.zip").write_bytes(zipped({"../out.html": b"<p>out", **made["zip"]}))
    (folder / "file").mkdir()
    for name, content in made["file"].items():
        (folder / name).write_bytes(content)
    return 5 * pages - 2
