"""Extraction: the text of web pages, by a library behind one interface.

In: pages as `corpus.pages` gives them, in any charset. Out: their texts and titles; plain text comes out as
it is. Pages beyond the limits of the library (`text/page_limits.py`) are dropped, or stripped of their tags
in one pass. Held in memory: what the library holds of the page at hand, and of pages above a tenth of the
largest that is not for several threads at once; the texts of a block.

Counted: `url_skipped` and `page_too_complex` are rows dropped, `page_stripped` is pages that were stripped.
"""

from __future__ import annotations

import html as entities
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from krill import _native
from krill.config.extract import ExtractConfig
from krill.corpus.buffers import offsets_of, text_buffers, text_column
from krill.corpus.documents import Documents, file_and_offset
from krill.corpus.formats import CorpusFile
from krill.corpus.pages import CHARSET, PLAIN_TYPES
from krill.corpus.readers import Limits
from krill.corpus.rows import split_oversize
from krill.text.charset import decode_page
from krill.text.extractors import Extractor, decode_answer, encode_request, limits_of, versions_of
from krill.text.page_limits import PageLimits
from krill.text.page_watch import PageWatch
from krill.text.step import drop
from krill.threads.processes import WorkerProcesses

LARGE_PAGE: Final = 10_000_000
"""Bytes held for a page above which no two are extracted at once."""

_REASONS: Final = ("url_skipped", "page_too_complex")
_COMPLEX: Final = 2


@dataclass(frozen=True, slots=True)
class PageSettings:
    """How the pages of one source are read."""

    config: ExtractConfig
    extract: Extractor = field(repr=False)
    skip_urls: frozenset[str]
    titles: bool

    @property
    def limits(self) -> PageLimits:
        return limits_of(self.config)


@dataclass(slots=True)
class LargestHeld:
    """The most that was held for one of the pages so far, by the limits' measure."""

    bytes: int = 0


@dataclass(frozen=True, slots=True)
class ExtractPages:
    """Extracts the pages of each source by its own settings; documents of other sources pass. `processes`
    extract those for which the library would hold Python's lock."""

    settings: Sequence[PageSettings]
    files: Sequence[CorpusFile] = field(repr=False)
    limits: Limits
    watch: PageWatch = field(default_factory=PageWatch, repr=False)
    processes: WorkerProcesses | None = field(default=None, repr=False)
    largest: LargestHeld = field(default_factory=LargestHeld, repr=False)
    _large: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def reasons(self) -> Sequence[str]:
        return _REASONS

    def apply(self, documents: Documents) -> Documents:
        if CHARSET not in documents.batch.schema.names:
            return documents
        if documents.batch.num_rows == 0:
            return self._as_text(documents, [], [])
        source = self._source_of(documents)
        settings = self.settings[source]
        documents = _without_skipped(documents, settings.skip_urls)
        texts: list[bytes] = []
        titles: list[bytes] = []
        codes = np.zeros(documents.batch.num_rows, np.uint8)
        stripped = 0
        for row, page in enumerate(_pages(documents.batch)):
            found = self._text_of(page, source)
            if found is None and settings.config.oversize_page == "strip":
                found = _encoded(entities.unescape(_native.page_text(page.utf8()).decode())), b""
                stripped += 1
            if found is None:
                codes[row] = _COMPLEX
            else:
                texts.append(found[0])
                titles.append(found[1])
        kept = drop(documents, codes, _REASONS)
        counts = Counter(kept.counts)
        if stripped:
            counts["page_stripped"] += stripped
        return self._as_text(Documents(kept.batch, dict(counts), kept.rejected), texts, titles)

    def fingerprint(self) -> str:
        """What shapes the texts besides the config."""
        return versions_of({settings.config.method for settings in self.settings})

    def release(self) -> None:
        """End the worker processes, until they are needed again."""
        if self.processes is not None:
            self.processes.release()

    def _source_of(self, documents: Documents) -> int:
        # Units, and so blocks, never run through two sources.
        ordinal, _ = file_and_offset(documents.batch.column("position")[0].as_py())
        return self.files[ordinal].dataset

    def _text_of(self, page: _Page, source: int) -> tuple[bytes, bytes] | None:
        """Text and title; None if the page is beyond the limits."""
        if page.plain:
            return page.utf8(), b""
        settings = self.settings[source]
        encoded = page.utf8()
        held = settings.limits.held_bytes(encoded)
        if held is None:
            return None
        self.largest.bytes = max(self.largest.bytes, held)
        locked = settings.config.holds_lock
        if locked and self.processes is not None:
            watched = partial(self.watch.page, page.url)
            return decode_answer(self.processes.answer(encode_request(source, encoded), watched))
        with self._large if locked or held > LARGE_PAGE else nullcontext(), self.watch.page(page.url):
            text, title = settings.extract(page.text)
        return _encoded(text), _encoded(title)

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


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _strings(encoded: Sequence[bytes]) -> pa.Array:
    return text_column(
        offsets_of([len(text) for text in encoded]), np.frombuffer(b"".join(encoded), np.uint8)
    )
