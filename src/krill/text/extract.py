"""Extraction: the text of web pages, by a library behind one interface.

In: pages as `corpus.pages` gives them, in any charset. Out: their texts and titles; plain text comes out as
it is. Pages whose size a parser's time or memory would not follow in proportion are dropped, or stripped of
their tags in one pass. Held in memory: what the library holds of the page at hand, and of pages above a
tenth of the largest that is not for several threads at once; the texts of a block.

The limits follow from measurements of Resiliparse 2.0 on pages made for it, on a busy machine: 100,000 flat
elements of one kind took up to 0.3 s and 433 bytes each, 2,000 nested ones 0.08 s (20,000 over 30 s), 400
levels around 100,000 elements 3.4 s, 10,000 options in a list 0.35 s, 10,000 attributes in a tag 0.2 s, 10 MB
of text or of one attribute up to 0.5 s. The reference of the native measure is `tests/oracles/web.py`.

Counted: `url_skipped` and `page_too_complex` are rows dropped, `page_stripped` is pages that were stripped.
"""

from __future__ import annotations

import html as entities
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import pairwise
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from krill import _native
from krill.budget import Kind, Need
from krill.config.extract import ExtractConfig
from krill.corpus.buffers import offsets_of, text_buffers, text_column
from krill.corpus.documents import Documents, file_and_offset
from krill.corpus.formats import CorpusFile
from krill.corpus.pages import CHARSET, PLAIN_TYPES
from krill.corpus.readers import Limits
from krill.corpus.rows import split_oversize
from krill.errors import ConfigError, InputError, MissingExtra
from krill.faults import first_line
from krill.text.charset import decode_page
from krill.text.page_watch import PageWatch
from krill.text.step import drop

MAX_TAGS: Final = 100_000
MAX_DEPTH: Final = 1_000
MAX_WORK: Final = 5_000_000
"""Elements of a page, their nesting, and what `_native.measure_page` counts for them, at the most."""

# Bytes that Resiliparse holds for each byte and each element of a page, at the most.
_PER_BYTE: Final = 5
_PER_TAG: Final = 480
_LARGE_PAGE: Final = 10_000_000
# Resiliparse itself: 6 MB once it was loaded and had met 300 pages; the rest is for what threads leave.
_LOADED_BYTES: Final = 14_000_000
EXTRACTING: Final = "pages being extracted"

_REASONS: Final = ("url_skipped", "page_too_complex")
_COMPLEX: Final = 2


class Extractor(Protocol):
    """From a page in HTML to its text and its title. Called by several threads at once."""

    def __call__(self, page: str, /) -> tuple[str, str]: ...


def extracting_need(largest_page: int, threads: int, seen: int = 0) -> Need:
    """What extraction holds: the largest page of all threads, and a large one of each other. A block of one
    page of `seen` bytes was in a sample of the input."""
    largest = _PER_BYTE * largest_page + _PER_TAG * MAX_TAGS
    each = min(_LARGE_PAGE, largest)
    most = _LOADED_BYTES + largest + (threads - 1) * each
    return Need(
        EXTRACTING,
        most,
        Kind.WATCHED,
        expected=min(_LOADED_BYTES + threads * 3_000_000 + _PER_BYTE * seen, most),
        remedy="set extract.max_page_bytes lower",
    )


@dataclass(frozen=True, slots=True)
class PageSettings:
    """How the pages of one source are read."""

    extract: Extractor
    strip: bool
    skip_urls: frozenset[str]
    titles: bool


@dataclass(frozen=True, slots=True)
class ExtractPages:
    """Extracts the pages of each source by its own settings; documents of other sources pass."""

    settings: Sequence[PageSettings]
    files: Sequence[CorpusFile] = field(repr=False)
    limits: Limits
    watch: PageWatch = field(default_factory=PageWatch, repr=False)
    _large: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def reasons(self) -> Sequence[str]:
        return _REASONS

    def apply(self, documents: Documents) -> Documents:
        if CHARSET not in documents.batch.schema.names:
            return documents
        if documents.batch.num_rows == 0:
            return self._as_text(documents, [], [])
        settings = self._settings_of(documents)
        documents = _without_skipped(documents, settings.skip_urls)
        texts: list[bytes] = []
        titles: list[bytes] = []
        codes = np.zeros(documents.batch.num_rows, np.uint8)
        stripped = 0
        for row, page in enumerate(_pages(documents.batch)):
            found = self._text_of(page, settings)
            if found is None and settings.strip:
                found = entities.unescape(_native.page_text(page.utf8()).decode()), ""
                stripped += 1
            if found is None:
                codes[row] = _COMPLEX
            else:
                texts.append(found[0].encode("utf-8", "replace"))
                titles.append(found[1].encode("utf-8", "replace"))
        kept = drop(documents, codes, _REASONS)
        counts = Counter(kept.counts)
        if stripped:
            counts["page_stripped"] += stripped
        return self._as_text(Documents(kept.batch, dict(counts), kept.rejected), texts, titles)

    def fingerprint(self) -> str:
        """What shapes the texts besides the config."""
        return f"resiliparse {version('resiliparse')}"

    def _settings_of(self, documents: Documents) -> PageSettings:
        # Units, and so blocks, never run through two sources.
        ordinal, _ = file_and_offset(documents.batch.column("position")[0].as_py())
        return self.settings[self.files[ordinal].dataset]

    def _text_of(self, page: _Page, settings: PageSettings) -> tuple[str, str] | None:
        """Text and title; None if the page is beyond the limits."""
        if page.plain:
            return page.text, ""
        encoded = page.utf8()
        tags, depth, work = _native.measure_page(encoded, MAX_TAGS, MAX_DEPTH, MAX_WORK)
        if tags > MAX_TAGS or depth > MAX_DEPTH or work > MAX_WORK:
            return None
        large = _PER_BYTE * len(encoded) + _PER_TAG * tags > _LARGE_PAGE
        with self._large if large else nullcontext(), self.watch.page(page.url):
            return settings.extract(page.text)

    def _as_text(self, documents: Documents, texts: list[bytes], titles: list[bytes]) -> Documents:
        """The rows with their texts; only those columns that the source carries."""
        batch = documents.batch
        names = [name for name in batch.schema.names if _is_carried(batch.schema.field(name))]
        columns = {name: batch.column(name) for name in names}
        columns["text"] = _strings(texts)
        if "title" in columns:
            columns["title"] = _strings(titles)
        made = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        return split_oversize(self.limits, Documents(made, documents.counts, documents.rejected))


@dataclass(frozen=True, slots=True)
class _Page:
    text: str
    """In HTML, unless it is `plain`."""
    plain: bool
    url: str
    body: bytes | None
    """The text in UTF-8, if that is how the page was sent."""

    def utf8(self) -> bytes:
        return self.text.encode("utf-8", "replace") if self.body is None else self.body


def _pages(batch: pa.RecordBatch) -> Iterator[_Page]:
    """The pages of a batch, each decoded when it is asked for."""
    offsets, data = text_buffers(batch.column("text"))
    bodies = memoryview(data.data)
    others = [batch.column(name).to_pylist() for name in (CHARSET, "content_type", "url")]
    for (start, end), charset, kind, url in zip(pairwise(offsets.tolist()), *others, strict=True):
        plain = kind in PLAIN_TYPES
        body = bytes(bodies[start:end])
        text, is_utf8 = decode_page(body, charset, html=not plain)
        if "\0" in text:  # browsers drop them, and parsers hold ten bytes for each
            text, is_utf8 = text.replace("\0", ""), False
        yield _Page(text, plain, url, body if is_utf8 else None)


def _without_skipped(documents: Documents, skip_urls: frozenset[str]) -> Documents:
    if not skip_urls:
        return documents
    urls = documents.batch.column("url").to_pylist()
    codes = np.fromiter((url in skip_urls for url in urls), np.uint8, len(urls))
    return drop(documents, codes, _REASONS)


def _is_carried(column: pa.Field) -> bool:
    return (column.metadata or {}).get(b"krill") != b"statistic"


def _strings(encoded: Sequence[bytes]) -> pa.Array:
    return text_column(
        offsets_of([len(text) for text in encoded]), np.frombuffer(b"".join(encoded), np.uint8)
    )


def resiliparse_extractor(config: ExtractConfig, *, titles: bool) -> Extractor:
    """Resiliparse's extraction; every option is given, as its defaults differ from what it documents."""
    try:
        from resiliparse.extract.html2text import extract_plain_text
        from resiliparse.parse.html import HTMLTree
    except ImportError:
        raise MissingExtra("reading web pages", "web") from None
    parse: Callable[[str], Any] = HTMLTree.parse
    options = config.model_dump(exclude={"method", "max_page_bytes", "oversize_page", "skip_elements"})
    options["skip_elements"] = list(config.skip_elements) or None

    def extract(page: str) -> tuple[str, str]:
        if not titles:
            return extract_plain_text(page, **options), ""
        tree = parse(page)
        return extract_plain_text(tree, **options), tree.title or ""

    try:
        extract("<p>A page.</p>")
    except Exception as error:  # its own kind of error, for a selector
        raise ConfigError(
            f"`extract.skip_elements` can't be used: {first_line(error)}",
            hint="write selectors of CSS, such as `aside` or `div.menu`",
        ) from error
    return _named_faults(extract)


def _named_faults(extract: Extractor) -> Extractor:
    """What a library raises of a page is about that page."""

    def extracted(page: str) -> tuple[str, str]:
        try:
            return extract(page)
        except (MemoryError, KeyboardInterrupt):
            raise
        except Exception as error:
            raise InputError(
                f"a page of {len(page):,} characters can't be parsed: {first_line(error)}",
                hint="report it, and leave the page out by `skip_urls:`",
            ) from error

    return extracted
