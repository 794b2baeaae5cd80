"""The persistent index: what earlier finished runs kept, so that others drop it.

In: the hashes or bands of a run's documents and who of them was kept. Out: files of such numbers, one
*generation* for each finished run. Held in memory: one block of them.

The folder has `krill-index.json` (version and kind), and for each run that finished `IDENTITY.generation`:
the raw numbers of what it kept. A generation is written in two steps, since it must not count before the
run's own output is in place. `prepare` leaves it, whole and synced, as `IDENTITY.pending`; `commit` renames
it. A run that dies before `prepare` is through leaves a temporary name that everybody ignores and the next
`prepare` removes; one that dies before `commit` is helped by `adopt`. Only names that end in `.generation`
are ever seen by others.

A run's own generation is never held against it: the same config gives the same output again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from krill.dedup.index_folder import IndexFolder, check_identity, record_bytes
from krill.dedup.streams import bytes_of, number_blocks, records_in
from krill.errors import StorageError
from krill.storage.atomic import atomic_writer, fsync_dir, storage_errors, sweep_temporaries
from krill.storage.commits import damaged, reading_artifact

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_GENERATION = ".generation"
_PENDING = ".pending"
_BLOCK_RECORDS = 16_384


@dataclass(frozen=True, slots=True)
class Generation:
    """What one finished run kept."""

    name: str
    path: Path
    records: int


@dataclass(frozen=True, slots=True)
class Pending:
    """A generation that is written and doesn't count yet."""

    path: Path

    def commit(self) -> None:
        """Let it count from now on."""
        with storage_errors(self.path):
            self.path.replace(self.path.with_suffix(_GENERATION))
        fsync_dir(self.path.parent)


class DedupIndex:
    """The index in `folder`, which is made with its first generation."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._folder = IndexFolder(folder, "files")

    def pin(self, kind: str, identity: str) -> list[Generation]:
        """What other runs have kept so far, in the order of their names. Refuses a folder of another kind."""
        size = record_bytes(kind)
        if not self._folder.check(kind):
            return []
        with storage_errors(self.folder):
            paths = sorted(self.folder.glob("*" + _GENERATION))
        return [_generation(path, size) for path in paths if path.stem != identity]

    def pinned(self, names: Sequence[str]) -> list[Generation]:
        """The generations that a run has pinned before, found again."""
        found = []
        for name in names:
            path = self.folder / name
            if Path(name).name != name or not path.is_file():
                raise StorageError(
                    f"`{path}`, which this run was begun with, is gone from the index of duplicates",
                    hint="put it back, or start anew with --overwrite",
                )
            kind = (self._folder.description() or {}).get("kind")
            found.append(_generation(path, record_bytes(str(kind))))
        return found

    def prepare(self, kind: str, identity: str, files: Sequence[Path], keep_files: Sequence[Path]) -> Pending:
        """Write what was kept, whole and synced, without letting it count. `files` hold the hashes or bands
        of each unit, `keep_files` its keep bits."""
        size = record_bytes(kind)
        path = self._path(identity, _PENDING)
        with self._folder.locked():
            sweep_temporaries(self.folder)
            if not self._folder.check(kind):
                self._folder.describe(kind)
            with atomic_writer(path) as out:
                for file, keep_file in zip(files, keep_files, strict=True):
                    for kept in kept_blocks(file, keep_file, size):
                        out.write(bytes_of(kept))
        return Pending(path)

    def publish(self, kind: str, identity: str, files: Sequence[Path], keep_files: Sequence[Path]) -> None:
        """`prepare` and `commit` at once."""
        self.prepare(kind, identity, files, keep_files).commit()

    def adopt(self, identity: str) -> bool:
        """Commit what a run, finished since, had prepared when it died; returns whether there was
        anything."""
        path = self._path(identity, _PENDING)
        if not path.is_file():
            return False
        Pending(path).commit()
        return True

    def _path(self, identity: str, suffix: str) -> Path:
        return self.folder / (check_identity(identity) + suffix)


def _generation(path: Path, size: int) -> Generation:
    return Generation(path.name, path, records_in(path, size))


def kept_blocks(file: Path, keep_file: Path, size: int) -> Iterator[NDArray[np.uint64]]:
    """The rows of a unit that are kept, block by block."""
    import numpy as np

    count = records_in(file, size)
    with reading_artifact(keep_file):
        bits = np.fromfile(keep_file, np.uint8)
    if len(bits) != -(-count // 8):
        raise damaged(keep_file, f"has `{len(bits)}` bytes for `{count}` documents")
    width = size // 8
    first = 0
    for numbers in number_blocks([file], _BLOCK_RECORDS * width):
        rows = numbers.reshape(-1, width)
        part = bits[first // 8 : -(-(first + len(rows)) // 8)]
        yield rows[np.unpackbits(part, count=len(rows), bitorder="little").view(bool)]
        first += len(rows)
