"""Archives of HTML: what members of zip and tar files have in common.

In: the name of a member. Out: whether it is a page; the page, whose `url` and `id` are the path of the
archive with the member's name behind it. Nothing is ever written under such a name. Held in memory: nothing.

Other members than pages are no documents. Pages in archives inside of an archive are not looked for, but
those archives are counted.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from krill.corpus.formats import ARCHIVES, Compression, CorpusFile, Format, recognise, suffix_of
from krill.corpus.pages import WebPage, checked_page, decoded_body
from krill.errors import InputError

PAGE: Final = "page"
_NESTED: Final = frozenset({".7z", ".rar"})
_DRIVE: Final = re.compile(r"[A-Za-z]:")
_SHOWN: Final = 200


class Member(NamedTuple):
    """A page in an archive."""

    offset: int
    name: bytes
    content: bytes

    def page(self, file: CorpusFile, limit: int) -> WebPage | str:
        content: bytes | str = self.content
        if self.name.lower().endswith(b".gz"):
            content = decoded_body(self.content, b"gzip", limit)
        if isinstance(content, str):
            return content
        name = f"{file.path}/".encode() + self.name.removeprefix(b"./")
        return checked_page(WebPage(self.offset, content, name, b"", name, b"text/html", b""), limit)


def member_kind(name: bytes) -> str | None:
    """`PAGE`, or why a member that may be one is not read; None for what is no page."""
    text = name.decode("utf-8", "replace")
    try:
        known = recognise(text)
    except InputError:  # a table, or a zip file, that is compressed once more
        return None
    if suffix_of(text) in _NESTED or (known is not None and known[0] in ARCHIVES | {Format.WARC}):
        return "archive_nested"
    if known is None or known[0] is not Format.HTML:
        return None
    parts = text.replace("\\", "/").split("/")
    if ".." in parts or parts[0] == "" or _DRIVE.match(text) or "\0" in text:
        return "archive_name"
    return PAGE if known[1] in (None, Compression.GZIP) else "page_encoding"


class ArchiveRecords:
    """The pages of an archive from some offset on."""

    def __init__(self, file: CorpusFile, *, skip: bool) -> None:
        self._file = file
        self._skip = skip
        self._counts: Counter[str] = Counter()

    def take_counts(self) -> Counter[str]:
        counts, self._counts = self._counts, Counter()
        return counts

    @property
    def _limit(self) -> int:
        return self._file.source.max_page_bytes

    @property
    @abstractmethod
    def end(self) -> int: ...

    @abstractmethod
    def __iter__(self) -> Iterator[Member]: ...

    @abstractmethod
    def close(self) -> None: ...

    def _damaged(self, fact: str) -> None:
        if not self._skip:
            raise InputError(
                f"`{self._file.path}`: {fact}",
                hint="get the archive again, or set `on_error: skip` to leave out and count what is damaged",
            )
        self._counts["archive_corrupt"] += 1


def shown_name(name: bytes) -> str:
    """For a message."""
    return f"`{name[:_SHOWN].decode('utf-8', 'backslashreplace')}`"
