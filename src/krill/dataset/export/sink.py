"""How every format is written: prepared on any thread, written in order, whole or not at all.

In: items in the order of the dataset. Out: files under their names, when all of them are written. Held in
memory: the items in flight, bounded in bytes, and what the sink holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from krill.dataset.shard import HashedParquet, HashingFile
from krill.threads import Throttle, ordered_map
from krill.threads.progress import Progress

Item = TypeVar("Item")
Item_contra = TypeVar("Item_contra", contravariant=True)
Prepared = TypeVar("Prepared")


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """One finished file; `counts` says what is in it, such as rows and tokens."""

    file: str
    bytes: int
    sha256: str
    counts: Mapping[str, int]
    split: str | None = None

    @classmethod
    def of(cls, file: HashingFile | HashedParquet, counts: Mapping[str, int]) -> ExportedFile:
        """Give a file its name."""
        info = file.commit(0)
        return cls(info.file, info.bytes, info.sha256, counts)

    def to_json(self) -> dict[str, Any]:
        split = {} if self.split is None else {"split": self.split}
        return {"file": self.file, **split, **self.counts, "bytes": self.bytes, "sha256": self.sha256}


def export_file(path: Path, parts: Iterable[Any]) -> ExportedFile:
    """Write a small file that stands beside tokens, whole or not at all."""
    file = HashingFile(path)
    try:
        for part in parts:
            file.write(part)
    except BaseException:
        file.abort()
        raise
    return ExportedFile.of(file, {})


class Sink(Protocol[Item_contra, Prepared]):
    """One format's files of one split."""

    def prepare(self, item: Item_contra) -> Prepared:
        """What will be written of an item; runs on several threads at once."""
        ...

    def write(self, prepared: Prepared) -> None:
        """Append; runs in order."""
        ...

    def commit(self) -> list[ExportedFile]:
        """Complete the files and give them their names."""
        ...

    def abort(self) -> None:
        """Remove what was written."""
        ...


@dataclass(frozen=True, slots=True)
class ExportFlow:
    """On how many threads, how many bytes at once, and who shows the progress."""

    threads: int
    bytes_in_flight: int
    throttle: Throttle
    progress: Progress


def write_in_order(
    items: Iterable[Item], sink: Sink[Item, Prepared], size: Callable[[Item], int], flow: ExportFlow
) -> list[ExportedFile]:
    """Write all items; `size` is what one takes from being read to being written."""
    try:
        with closing(
            ordered_map(
                sink.prepare,
                items,
                threads=flow.threads,
                bytes_in_flight=flow.bytes_in_flight,
                size=size,
                throttle=flow.throttle,
            )
        ) as results:
            for prepared in results:
                sink.write(prepared)
        return sink.commit()
    except BaseException:
        sink.abort()
        raise
