"""WARC files, as crawls are published: records of pages (WARC) or of their text (WET), in order.

In: the decoded bytes of a file, plain or compressed. Out: blocks of whole records, whose pages any thread
takes out of them. A record's position is its decoded offset. Held in memory: a block of records, or one
record of up to `max_page_bytes`; what is longer, or is no page, is passed over and not held.

Not FastWARC: it tells no offset to resume at, ends at a damaged gzip member, gives a record that is cut
short without a word, and holds a record as a whole before its size is known.

A record that is cut, lies about its length or can't be read stops the run with the file and the offset;
with `on_error: skip` it is counted, and reading goes on at the next record.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from krill.corpus.formats import CorpusFile
from krill.corpus.members import CUT, MemberChunk, open_pieces
from krill.corpus.page_blocks import PageFile
from krill.corpus.pages import PAGE_REASONS, WebPage, header_fields, http_page, plain_page
from krill.corpus.streams import input_errors
from krill.errors import InputError

_MARK: Final = b"WARC/"
_LONGEST_HEADER: Final = 1 << 16
_VERSION: Final = re.compile(rb"WARC/[01]\.\d+\r?\n")
# An empty line, or where another record begins: else each of many that have no end would be looked for one.
_HEADER_END: Final = re.compile(rb"\r?\n(?:(\r?\n)|(?=WARC/[01]\.\d+\r?\n))")
_NEWLINES: Final = re.compile(rb"[\r\n]*")
_NEXT: Final = re.compile(rb"\n(?=WARC/[01]\.\d+\r?\n)")
_WANTED: Final = frozenset({b"response", b"resource", b"conversion"})
_LARGEST: Final = 1 << 50


class WarcRecord(NamedTuple):
    """A record whose content is held."""

    offset: int
    fields: Mapping[bytes, bytes]
    content: bytes

    def page(self, _: CorpusFile, limit: int) -> WebPage | str:
        fields, content = self.fields, self.content
        page = WebPage(
            self.offset,
            b"",
            fields.get(b"warc-target-uri", b"").strip(b"<>"),
            fields.get(b"warc-date", b""),
            fields.get(b"warc-record-id", b"").strip(b"<>"),
            b"",
            b"",
        )
        stated = fields.get(b"content-type", b"")
        if fields[b"warc-type"].lower() == b"response" and b"http" in stated.lower():
            named = fields.get(b"warc-identified-payload-type", b"")
            return http_page(page, content, named, limit)
        return plain_page(page, content, stated, limit)


class WarcFile(PageFile):
    def _records(self, start: int) -> _Records:
        return _Records(self._file, start, skip=self._limits.skip_malformed)


class _Records:
    """The records of pages from decoded offset `start` on, where one begins; counts what it passes over."""

    def __init__(self, file: CorpusFile, start: int, *, skip: bool) -> None:
        self._file = file
        self._skip = skip
        self._window = _Window(file, start)
        self._counts: Counter[str] = Counter()

    @property
    def end(self) -> int:
        """Where reading has got to."""
        return self._window.offset

    def take_counts(self) -> Counter[str]:
        counts, self._counts = self._counts, Counter()
        return counts

    def close(self) -> None:
        self._window.close()

    def __iter__(self) -> Iterator[WarcRecord]:
        window, stop = self._window, self._file.stop
        window.skip_newlines()
        while not window.at_end and (stop is None or window.offset < stop):
            offset = window.offset
            header = self._header()
            if header is None:
                self._without_header(offset)
                window.find_next()
                continue
            fields, size = header
            length = int(fields[b"content-length"])
            wanted = fields[b"warc-type"].lower() in _WANTED
            if not wanted or length > self._file.source.max_page_bytes + _LONGEST_HEADER:
                # Not held: only what follows it shows whether its length is right.
                if self._passed_over(offset, size + length) and wanted:
                    self._counts["page_too_large"] += 1
                continue
            content = self._content(offset, size, length)
            if content is not None:
                yield WarcRecord(offset, fields, content)

    def _header(self) -> tuple[dict[bytes, bytes], int] | None:
        """The fields of the header in front, and its size; None if it can't be used."""
        window = self._window
        wanted = 1024
        while True:
            there = window.need(wanted)
            end = _HEADER_END.search(window.data, 0, min(len(window.data), _LONGEST_HEADER))
            if end is not None:
                break
            if not there or wanted >= _LONGEST_HEADER:
                return None
            wanted = min(wanted * 4, _LONGEST_HEADER)
        if end[1] is None:
            return None
        head = bytes(window.data[: end.start() + 1])
        fields = header_fields(head)
        if _VERSION.match(head) is None or b"warc-type" not in fields:
            return None
        length = fields.get(b"content-length", b"")
        if not length.isdigit() or len(length) > 18 or int(length) > _LARGEST:
            return None
        return fields, end.end()

    def _content(self, offset: int, size: int, length: int) -> bytes | None:
        """The content of a record behind a header of `size` bytes; None if it is damaged."""
        window = self._window
        whole = window.need(size + length)
        # Not copied before that is known: each of many records may state the same bytes.
        if whole and window.ends_record(size + length):
            content = bytes(memoryview(window.data)[size : size + length])
            window.drop(size + length)
            window.skip_newlines()
            return content
        self._not_whole(offset, whole=whole)
        # Records that a length which is too large would swallow are still in the window.
        window.drop(size)
        window.find_next()
        return None

    def _passed_over(self, offset: int, length: int) -> bool:
        """Whether what was passed over was a whole record."""
        window = self._window
        whole = window.pass_over(length)
        if whole and window.ends_record(0):
            window.skip_newlines()
            return True
        self._not_whole(offset, whole=whole)
        window.find_next()
        return False

    def _without_header(self, offset: int) -> None:
        window = self._window
        if window.fault is not None or (window.file_ended and window.data.startswith(_MARK)):
            self._not_whole(offset, whole=False)
        else:
            self._damaged(offset, "warc_header", "there is no header of a WARC record")

    def _not_whole(self, offset: int, *, whole: bool) -> None:
        window = self._window
        if window.fault == CUT or (not whole and window.fault is None and window.file_ended):
            self._damaged(offset, "warc_cut", CUT)
        elif window.fault is not None:
            self._damaged(offset, "warc_corrupt", window.fault)
        else:
            self._damaged(offset, "warc_length", "it is longer or shorter than its `Content-Length` says")

    def _damaged(self, offset: int, reason: str, fact: str) -> None:
        if not self._skip:
            raise InputError(
                f"`{self._file.path}`, the record at byte {offset:,} of what it unfolds to: {fact}",
                hint="get the file again, or set `on_error: skip` to leave such records out and count them",
            )
        assert reason in PAGE_REASONS
        self._counts[reason] += 1


class _Window:
    """Decoded bytes from the record at hand on. They end with the file, at a damaged member, or where a
    member begins with a record of its own: no record reaches beyond these."""

    def __init__(self, file: CorpusFile, start: int) -> None:
        self._file = file
        self._source, self._pieces = open_pieces(file, _MARK)
        self._next: MemberChunk | None = None
        """A piece of the member behind the one that `data` is of."""
        self.data = bytearray()
        self.offset = 0
        """Of `data`, in all that the file unfolds to."""
        self._begins: deque[int] = deque()
        """Where members begin in it."""
        self.fault: str | None = None
        """What is wrong with the member that `data` is the end of."""
        self.file_ended = False
        while self.offset < start and (self.need(1) or self._go_on()):
            self.drop(min(start - self.offset, len(self.data)))
        # A block begins with a record: what is damaged before it was counted with the block before.
        while start and not self.need(1) and self._go_on():
            pass

    def close(self) -> None:
        self._source.close()

    @property
    def at_end(self) -> bool:
        """Whether there is nothing more."""
        return not self.data and self._next is None and self.fault is None and not self._pull()

    def need(self, size: int, *, inside: bool = False) -> bool:
        """Have `size` bytes in `data`; False if it ends before. `inside`: it is of a record, also if it is
        empty."""
        while len(self.data) < size:
            if self._next is not None or self.fault is not None or not self._pull(inside=inside):
                return False
        return True

    def drop(self, size: int) -> None:
        del self.data[:size]
        self.offset += size
        while self._begins and self._begins[0] < self.offset:
            self._begins.popleft()

    def pass_over(self, size: int) -> bool:
        """Drop `size` bytes, which are never held together; False if `data` ends before."""
        while size > 0 and self.need(1, inside=True):
            some = min(size, len(self.data))
            self.drop(some)
            size -= some
        return size == 0

    def ends_record(self, at: int) -> bool:
        """Whether a record is over at `data[at:]`: nothing but the next one, or another member, follows."""
        while self.need(at + 1):
            at = _ends_of_lines(self.data, at)
            if at == len(self.data):
                continue
            if self.offset + at in self._begins:  # whatever it is, it is not of this record
                return True
            return self.need(at + len(_MARK)) and self.data.startswith(_MARK, at)
        return self.fault is None

    def skip_newlines(self) -> None:
        """To the next record, in the next member if this one is over."""
        while True:
            while self.need(1) and (size := _ends_of_lines(self.data, 0)):
                self.drop(size)
            if self.data or self.fault is not None or not self._go_on():
                return

    def find_next(self) -> None:
        """Drop all that comes before the next record, or the next damaged member."""
        while (found := _NEXT.search(self.data)) is None:
            # What may be a line's end and a part of a version stays.
            self.drop(max(0, len(self.data) - 16))
            if self._next is None and self.fault is None and self._pull():
                continue
            self.drop(len(self.data))
            if not self._go_on() or self.fault is not None or self.data.startswith(_MARK):
                return
        self.drop(found.end())

    def _go_on(self) -> bool:
        """Where all of `data` is used: to the member that follows; False at the end of the file."""
        self.fault = None
        piece, self._next = self._next, None
        if piece is None:
            return self._pull()
        self._add(piece)
        return True

    def _pull(self, *, inside: bool = False) -> bool:
        """One more piece; False at the end of the file."""
        with input_errors(self._file, at=self.offset + len(self.data)):
            piece = next(self._pieces, None)
        if piece is None:
            self.file_ended = True
            return False
        of_its_own = piece.begins and (piece.fault is not None or piece.data.startswith(_MARK))
        if of_its_own and (self.data or inside):
            self._next = piece
        else:
            self._add(piece)
        return True

    def _add(self, piece: MemberChunk) -> None:
        if piece.begins and piece.data:
            self._begins.append(self.offset + len(self.data))
        self.data += piece.data
        self.fault = piece.fault


def _ends_of_lines(data: bytearray, at: int) -> int:
    """Where the newlines that stand at `at` end."""
    found = _NEWLINES.match(data, at)
    assert found is not None
    return found.end()
