"""Crawls for tests: pages with menus, scripts, charsets and traps, and WARC files of them."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

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
