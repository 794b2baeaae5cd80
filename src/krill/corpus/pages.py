"""Pages: what a crawl or a file of HTML gives for each document before its text is extracted.

In: pages as records have them. Out: `Documents` whose `text` is a page as it was sent, in whatever charset,
with the columns `url`, `date`, `id`, `content_type`, `title` (still empty) and `charset`, as its server
named it. Held in memory: the pages of a block.

What the headers decide is decided here: pages that were not found, are too large or are no text never come
out, and are counted by `PAGE_REASONS`.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from krill.corpus.arrays import as_arrow
from krill.corpus.buffers import offsets_of, text_column
from krill.corpus.checks import valid_strings
from krill.corpus.documents import Documents
from krill.corpus.formats import CorpusFile

PAGE_COLUMNS: Final = ("url", "date", "id", "content_type", "title")
"""What can be carried along."""

CHARSET: Final = "charset"
"""A column that only extraction sees."""

PAGE_REASONS: Final[Mapping[str, str]] = {
    "warc_header": "records whose header can't be read",
    "warc_length": "records that are longer or shorter than they say",
    "warc_cut": "records that the file ends inside of",
    "warc_corrupt": "records in a damaged gzip member or zstd frame",
    "archive_corrupt": "archives, or members of archives, that are damaged or not what they state",
    "archive_encrypted": "members of archives that need a password",
    "archive_name": "members of archives whose names lead out of them",
    "archive_nested": "archives and crawls inside of archives",
    "page_too_large": "pages of more than max_page_bytes",
    "http_status": "answers other than a page (their status is not 2xx)",
    "content_type": "neither HTML nor plain text",
    "mislabelled": "called HTML or text, but something else",
    "page_encoding": "compressed in a way that can't be undone",
    "url_skipped": "named in skip_urls",
    "page_too_complex": "pages with too many or too deeply nested elements",
}
"""Why pages are dropped, for people."""

DAMAGED: Final = frozenset({"warc_header", "warc_length", "warc_cut", "warc_corrupt", "archive_corrupt"})
"""Reasons that stop a run unless `on_error` is `skip`."""

HTML_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})
PLAIN_TYPES: Final = frozenset({"text/plain"})

_MARKED_INTERNAL: Final = {b"krill": b"statistic"}
_LONGEST_HEADER: Final = 1 << 16
_STATUS: Final = re.compile(rb"HTTP/\d(?:\.\d)? +(\d{3})\b")
_FIELD: Final = re.compile(rb"^([!-9;-~]+):[ \t]*([^\r\n]*?)[ \t]*\r?$", re.MULTILINE)
_CHARSET: Final = re.compile(rb"charset\s*=\s*[\"']?([\w.:+-]{1,40})", re.IGNORECASE)
# What files of other kinds begin with.
_BINARY: Final = (
    b"%PDF-",
    b"\x89PNG",
    b"GIF8",
    b"\xff\xd8\xff",
    b"PK\x03\x04",
    b"\x1f\x8b",
    b"RIFF",
    b"\x7fELF",
)
_SNIFFED: Final = 1024
_WIDE: Final = (b"utf-16", b"utf-32", b"ucs-2", b"iso-10646")


class WebPage(NamedTuple):
    """One page: where its record begins, what it holds, and what is known of it."""

    offset: int
    body: bytes | memoryview
    url: bytes
    date: bytes
    id: bytes
    content_type: bytes
    charset: bytes


def page_documents(file: CorpusFile, pages: Sequence[WebPage], counts: Mapping[str, int]) -> Documents:
    """The pages as rows; columns that the source does not ask for are marked as measured, so that they are
    not written with rejected rows."""
    starts = np.fromiter((page.offset for page in pages), np.uint64, len(pages))
    arrays = [_strings([page.body for page in pages]), as_arrow(starts + np.uint64(file.position(0)))]
    fields = [pa.field("text", pa.large_string()), pa.field("position", pa.uint64())]
    names = (*PAGE_COLUMNS, CHARSET)
    values = [b"" if name == "title" else getattr(page, name) for name in names for page in pages]
    joined = valid_strings(_strings(values))  # at once, as blocks may be small
    for number, name in enumerate(names):
        asked = name in file.source.columns
        fields.append(pa.field(name, pa.large_string(), metadata=None if asked else _MARKED_INTERNAL))
        arrays.append(joined.slice(number * len(pages), len(pages)))
    records = len(pages) + sum(counts.values())
    batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
    return Documents(batch, {**counts, **({"records": records} if records else {})})


def http_page(page: WebPage, answer: bytes, named_type: bytes, limit: int) -> WebPage | str:
    """The page in an answer of HTTP, or why there is none. `named_type` is what a crawler found it to be."""
    head, body = _split_head(answer)
    status = _STATUS.match(head)
    if status is None or not status[1].startswith(b"2"):
        return "http_status"
    fields = header_fields(head)
    stated = fields.get(b"content-type", b"")
    kind = mime_type(named_type or stated)
    if (kind or b"text/html").decode("latin-1") not in HTML_TYPES | PLAIN_TYPES:
        return "content_type"
    if b"chunked" in fields.get(b"transfer-encoding", b"").lower():
        body = memoryview(_unchunked(bytes(body)))
    data: memoryview | bytes | str = body
    encoding = fields.get(b"content-encoding", b"").lower().strip()
    if encoding not in (b"", b"identity"):
        data = decoded_body(bytes(body), encoding, limit)
    if isinstance(data, str):
        return data
    return checked_page(page._replace(body=data, content_type=kind, charset=_charset(stated)), limit)


def plain_page(page: WebPage, content: bytes, stated: bytes, limit: int) -> WebPage | str:
    """A record that is a page or a text itself."""
    kind = mime_type(stated)
    if kind.decode("latin-1") not in HTML_TYPES | PLAIN_TYPES:
        return "content_type"
    found = page._replace(body=content, content_type=kind, charset=_charset(stated))
    return checked_page(found, limit)


def checked_page(page: WebPage, limit: int) -> WebPage | str:
    """The page, or why it is none: it is too large, or something else than it is called."""
    if len(page.body) > limit:
        return "page_too_large"
    head = bytes(page.body[:_SNIFFED])
    wide = head.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")) or page.charset.lower().startswith(
        _WIDE
    )
    if head.startswith(_BINARY) or (b"\0" in head and not wide):
        return "mislabelled"
    if not page.content_type:
        html = head.lstrip().startswith(b"<")
        return page._replace(content_type=b"text/html" if html else b"text/plain")
    return page


def header_fields(head: bytes) -> dict[bytes, bytes]:
    """The fields of a header by their names in lower case; of several of one name, the first."""
    fields: dict[bytes, bytes] = {}
    for name, value in _FIELD.findall(head):
        fields.setdefault(name.lower(), value)
    return fields


def mime_type(stated: bytes) -> bytes:
    """`text/html` of `Text/HTML; charset=utf-8`."""
    return stated.partition(b";")[0].strip().lower()


def _charset(stated: bytes) -> bytes:
    found = _CHARSET.search(stated)
    return b"" if found is None else found[1]


def _split_head(answer: bytes) -> tuple[bytes, memoryview]:
    end, gap = answer.find(b"\r\n\r\n", 0, _LONGEST_HEADER), 4
    if end < 0:
        end = min(len(answer), _LONGEST_HEADER)
    # Some servers leave out the carriage returns.
    bare = answer.find(b"\n\n", 0, end)
    if bare >= 0:
        end, gap = bare, 2
    return answer[:end], memoryview(answer)[end + gap :]


def _unchunked(body: bytes) -> bytes:
    """The chunks of an answer joined; one that is not in chunks, as crawlers store them too, as it is."""
    chunks: list[bytes] = []
    at = 0
    while (end := body.find(b"\r\n", at, at + 64)) >= 0:
        digits = body[at:end].partition(b";")[0].strip()
        if not digits or len(digits) > 8 or digits.strip(b"0123456789abcdefABCDEF"):
            break
        size = int(digits, 16)
        if size == 0:
            return b"".join(chunks)
        chunks.append(body[end + 2 : end + 2 + size])
        at = end + 2 + size + 2
    return b"".join(chunks) if chunks else body


def decoded_body(body: bytes, encoding: bytes, limit: int) -> bytes | str:
    """What a page unfolds to, or why it does not; one that was unfolded before is as it is."""
    decoders: Mapping[bytes, Callable[[bytes, int], bytes]] = {
        b"gzip": _inflated,
        b"x-gzip": _inflated,
        b"deflate": _inflated,
        b"br": _from_brotli,
    }
    if encoding not in decoders:
        return "page_encoding"
    if encoding.endswith(b"gzip") and not body.startswith(b"\x1f\x8b"):
        return body
    try:
        decoded = decoders[encoding](body, limit + 1)
    except (zlib.error, ImportError, ValueError):
        return "page_encoding"
    return decoded if len(decoded) <= limit else "page_too_large"


def _inflated(body: bytes, limit: int) -> bytes:
    raw = not body.startswith((b"\x1f\x8b", b"\x78"))
    return zlib.decompressobj(-zlib.MAX_WBITS if raw else 32 + zlib.MAX_WBITS).decompress(body, limit)


def _from_brotli(body: bytes, limit: int) -> bytes:
    import brotli

    decoder, decoded = brotli.Decompressor(), bytearray()
    try:
        decoded += decoder.process(body, output_buffer_limit=limit)
        while not decoder.is_finished() and len(decoded) < limit and not decoder.can_accept_more_data():
            decoded += decoder.process(b"", output_buffer_limit=limit - len(decoded))
    except brotli.error as error:
        raise ValueError("not brotli") from error
    return bytes(decoded)


def _strings(values: Sequence[bytes | memoryview]) -> pa.Array:
    return text_column(
        offsets_of([len(value) for value in values]), np.frombuffer(b"".join(values), np.uint8)
    )
