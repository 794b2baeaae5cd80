"""The files of a corpus as columns of numbers and names: fifty thousand small files are an ordinary corpus.

In: `CorpusFile`s, one after the other. Out: the same, each made again when it is asked for. Held in memory:
about 30 bytes and the name for each file (of a remote one also what tells its version), where an object of
its own would take 300; of what a run says of its input, 16 bytes for each.
"""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, overload

from krill.corpus.formats import CorpusFile, DatasetSource

DIGEST_BYTES = 16

Item = TypeVar("Item")


class _Rows(Sequence[Item]):
    """A sequence whose items are made when they are asked for."""

    @abstractmethod
    def _item(self, at: int) -> Item: ...

    def __iter__(self) -> Iterator[Item]:
        return map(self._item, range(len(self)))

    @overload
    def __getitem__(self, at: int) -> Item: ...
    @overload
    def __getitem__(self, at: slice) -> list[Item]: ...
    def __getitem__(self, at: int | slice) -> Item | list[Item]:
        places = range(len(self))[at]
        return self._item(places) if isinstance(places, int) else list(map(self._item, places))


class FileTable(_Rows[CorpusFile]):
    def __init__(self, files: Iterable[CorpusFile] = ()) -> None:
        # What files have in common: all but name, size, and bounds.
        self._groups: list[CorpusFile] = []
        self._group_of: dict[CorpusFile, int] = {}
        self._group = array("i")
        self._names = bytearray()
        self._ends = array("q")
        self._bytes = array("q")
        self._bounds: dict[int, tuple[int, int | None]] = {}
        # Of files before the first with a version there is nothing.
        self._versions = bytearray()
        self._version_ends = array("q")
        self.extend(files)

    def append(self, file: CorpusFile) -> None:
        """One more file, whose ordinal is its place here."""
        ordinal = len(self)
        shared = _common_end(file.path, file.location)
        group = replace(
            file,
            ordinal=0,
            path=file.path[: len(file.path) - shared],
            location=file.location[: len(file.location) - shared],
            bytes=0,
            start=0,
            stop=None,
            version="",
        )
        if group not in self._group_of:
            self._group_of[group] = len(self._groups)
            self._groups.append(group)
        self._group.append(self._group_of[group])
        self._names += file.path[len(file.path) - shared :].encode()
        self._ends.append(len(self._names))
        self._bytes.append(file.bytes)
        if file.start or file.stop is not None:
            self._bounds[ordinal] = file.start, file.stop
        if file.version or self._versions:
            self._versions += file.version.encode()
            self._version_ends.extend([0] * (ordinal - len(self._version_ends)))
            self._version_ends.append(len(self._versions))

    def extend(self, files: Iterable[CorpusFile]) -> None:
        for file in files:
            self.append(file)

    def with_source(self, source: DatasetSource) -> FileTable:
        return FileTable(replace(file, source=source) for file in self)

    @property
    def sequential(self) -> bool:
        """Whether one of them can only be read from its beginning."""
        return any(group.sequential for group in self._groups)

    def sources(self) -> Iterator[DatasetSource]:
        """Where they come from; some may come more than once."""
        return (group.source for group in self._groups)

    @property
    def input_bytes(self) -> int:
        return sum(self._bytes)

    @property
    def name_bytes(self) -> int:
        """What the names take, and the versions of remote files."""
        return len(self._names) + len(self._versions) + self._version_ends.itemsize * len(self._version_ends)

    def __len__(self) -> int:
        return len(self._bytes)

    def _item(self, at: int) -> CorpusFile:
        group = self._groups[self._group[at]]
        name = self._names[self._ends[at - 1] if at else 0 : self._ends[at]].decode()
        start, stop = self._bounds.get(at, (0, None))
        return CorpusFile(
            at,
            group.path + name,
            group.location + name,
            group.format,
            group.compression,
            self._bytes[at],
            group.source,
            group.dataset,
            group.remote,
            start,
            stop,
            self._version(at),
        )

    def _version(self, at: int) -> str:
        if at >= len(self._version_ends):
            return ""
        return self._versions[self._version_ends[at - 1] if at else 0 : self._version_ends[at]].decode()


def _common_end(one: str, other: str) -> int:
    """How many of their last characters are the same."""
    shorter = min(len(one), len(other))
    if one[len(one) - shorter :] == other[len(other) - shorter :]:
        return shorter
    return next(at for at in range(shorter) if one[-1 - at] != other[-1 - at])


class Fingerprints(_Rows[Mapping[str, Any]]):
    """What a run stores of each file, in order, to recognise it: `path`, `bytes`, `fingerprint`."""

    def __init__(self, files: FileTable) -> None:
        self._files = files
        self._digests = bytearray()

    def append(self, digest: bytes) -> None:
        self._digests += digest

    def __len__(self) -> int:
        return len(self._digests) // DIGEST_BYTES

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(other) != len(self):
            return False
        return all(own == its for own, its in zip(self, other, strict=True))

    def _item(self, at: int) -> Mapping[str, Any]:
        file = self._files[at]
        digest = self._digests[at * DIGEST_BYTES : (at + 1) * DIGEST_BYTES]
        return {"path": file.path, "bytes": file.bytes, "fingerprint": digest.hex()}
