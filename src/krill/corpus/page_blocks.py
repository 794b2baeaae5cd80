"""Files of many pages, as blocks: crawls and archives.

In: records that hold a page each, in order, and what was counted between them. Out: blocks of whole records,
whose pages any thread takes out of them. Held in memory: a block of records, or one record.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from krill.corpus.blocks import FileBlock, SequentialFile, SizedBlock
from krill.corpus.documents import Documents
from krill.corpus.formats import CorpusFile
from krill.corpus.pages import WebPage, page_documents


class PageRecord(Protocol):
    """What holds a page."""

    @property
    def offset(self) -> int:
        """Where it begins; reading can begin there."""

    @property
    def content(self) -> bytes: ...

    def page(self, file: CorpusFile, limit: int, /) -> WebPage | str:
        """The page, or the reason why there is none."""


class PageRecords(Protocol):
    """The records of a file from some offset on."""

    @property
    def end(self) -> int:
        """Where reading has got to."""

    def take_counts(self) -> Counter[str]:
        """What was passed over since this was asked."""

    def __iter__(self) -> Iterator[PageRecord]: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class PageBlock(FileBlock):
    """Records of pages, and what was counted between them."""

    records: Sequence[PageRecord]
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        return 2 * sum(len(record.content) for record in self.records)

    def _parse(self) -> Documents:
        counts, pages = Counter(self.counts), []
        for record in self.records:
            found = record.page(self.source, self.source.source.max_page_bytes)
            if isinstance(found, str):
                counts[found] += 1
            else:
                pages.append(found)
        return page_documents(self.source, pages, counts)


class PageFile(SequentialFile):
    @abstractmethod
    def _records(self, start: int) -> PageRecords: ...

    def _size(self, begin: int, end: int, held: int) -> int:
        """Bytes of input of a block between two offsets, with so many of records."""
        return end - begin

    def _blocks(self, start: int) -> Iterator[SizedBlock]:
        """Where a block ends depends on the records from its beginning on, so that a run that resumes sees
        the same ones."""
        file, limits = self._file, self._limits
        kept: list[PageRecord] = []
        counts: Counter[str] = Counter()
        held, begin = 0, start

        def block(end: int, *, last: bool) -> PageBlock:
            size = self._size(begin, end, held)
            return PageBlock(file, limits, begin, end, size, last, tuple(kept), dict(counts))

        with closing(self._records(start)) as records:
            for record in records:
                # What was passed over on the way to this record lies before it.
                counts.update(records.take_counts())
                length = len(record.content)
                if begin < record.offset and (
                    held + length > limits.block_bytes or record.offset - begin >= limits.block_bytes
                ):
                    yield block(record.offset, last=False)
                    kept, held, begin = [], 0, record.offset
                    counts.clear()
                kept.append(record)
                held += length
            counts.update(records.take_counts())
            yield block(records.end, last=True)

    def record_starts(self) -> Iterator[NDArray[np.int64]]:
        """Where the records of pages begin: a pass over the file."""
        with closing(self._records(0)) as records:
            for record in records:
                yield np.array([record.offset], np.int64)
