"""Files that are either whole or absent.

Comes in: bytes or JSON values. Goes out: a file that was written under a temporary name in the same folder,
synced, renamed, and whose folder was synced: after a crash a name holds its old content or its new content,
never a part. Held in memory: one write buffer (8 KiB).

All packages that write go through here, so that a full disk or a read-only folder reads the same everywhere.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

import orjson

from krill.errors import StorageError
from krill.faults import refused_resources

TEMPORARY_SUFFIX = ".krill-tmp"
_SYSTEM_ROOTS = (Path("/dev"), Path("/proc"), Path("/sys"))
_SHARED_MEMORY = Path("/dev/shm")

# What the operating system said -> the fact, the remedy.
_REMEDIES: dict[int, tuple[str, str]] = {
    errno.ENOSPC: ("no space left on the device", "free some space, or choose a folder on another device"),
    errno.EDQUOT: ("disk quota exceeded", "free some of the quota, or choose a folder on another device"),
    errno.EFBIG: ("file size limit exceeded", "raise the limit (`ulimit -f`), or lower `shard_size`"),
    errno.EROFS: ("the file system is read-only", "choose a folder that can be written"),
    errno.EACCES: ("permission denied", "change the folder's permissions, or choose another folder"),
    errno.EPERM: ("permission denied", "change the folder's permissions, or choose another folder"),
    errno.ENOENT: ("the folder does not exist", "create the folder, or choose another one"),
    errno.ENOTDIR: ("a part of the path is a file, not a folder", "choose another folder"),
    errno.ELOOP: ("links lead from one to the other and to no file", "remove one of the links"),
    errno.ENAMETOOLONG: ("the name is too long", "choose a shorter path"),
}
_NO_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


@contextmanager
def storage_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn an OSError of the body, which must do nothing but write `path`, into a StorageError; one that the
    system refused memory or an open file into a BudgetError."""
    try:
        yield
    except OSError as error:
        if (refused := refused_resources(error)) is not None:
            raise refused from error
        fact, hint = _REMEDIES.get(
            error.errno or 0, (error.strerror or str(error), "check the device, or choose another folder")
        )
        raise StorageError(f"cannot write `{os.fspath(path)}`: {fact}", hint=hint) from error
    except RuntimeError as error:  # of `Path.resolve`, up to Python 3.12
        if not str(error).startswith("Symlink loop"):
            raise
        fact = "links lead from one to the other and to no file"
        raise StorageError(
            f"cannot write `{os.fspath(path)}`: {fact}", hint="remove one of the links"
        ) from None


def refuse_special(path: Path) -> None:
    """Raise if a device, a pipe or a socket stands at `path`, or it is among the system's own files.

    A rename would put a file in its place: `/dev/null` would be gone, for everybody on the machine.
    """
    with storage_errors(path):
        folder = path.parent.resolve()
        try:
            kind = path.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            kind = stat.S_IFREG
    ours = stat.S_ISREG(kind) or stat.S_ISDIR(kind)  # a folder is refused by the rename
    system = any(root in (folder, *folder.parents) for root in _SYSTEM_ROOTS)
    if not ours or (system and _SHARED_MEMORY not in (folder, *folder.parents)):
        raise StorageError(
            f"cannot write `{path}`: a device, a pipe or another file of the system is there",
            hint="choose another name",
        )


class AtomicFile:
    """A file in the making; `commit` gives it its name, `abort` leaves nothing behind.

    Without `replace`, a file that has come to have that name meanwhile stays, and `commit` is refused.
    """

    def __init__(self, path: str | os.PathLike[str], *, replace: bool = True) -> None:
        self.path = Path(path)
        self._replace = replace
        # The name is random, not derived from the target: a second writer of the same unit (a requeued job
        # whose first life has not ended) must not write into this one's file.
        unique = f".{self.path.name}.{os.urandom(4).hex()}{TEMPORARY_SUFFIX}"
        self.temporary = self.path.with_name(unique)
        """Where it is until then, for libraries that write files by their names."""
        self._position = 0
        refuse_special(self.path)
        with storage_errors(self.path):
            self._file: BinaryIO = open(self.temporary, "xb")  # noqa: SIM115  closed by commit or abort

    @property
    def closed(self) -> bool:
        return self._file.closed

    def write(self, data: Any) -> int:
        """Write all of `data` (anything with the buffer protocol)."""
        with storage_errors(self.path):
            self._file.write(data)
        size = memoryview(data).nbytes
        self._position += size
        return size

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        with storage_errors(self.path):
            self._file.flush()

    def commit(self) -> None:
        """Sync, rename to the final name, sync the folder."""
        with undo_on_error(self.abort), storage_errors(self.path):
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._give_name()
        fsync_dir(self.path.parent)

    def _give_name(self) -> None:
        if not self._replace:
            try:
                # Unlike a rename, a link never takes the place of another file.
                os.link(self.temporary, self.path)
            except FileExistsError:
                raise StorageError(
                    f"`{self.path}` was made by somebody else meanwhile: it was not touched",
                    hint="choose another name, or move that file elsewhere",
                ) from None
            except OSError as error:
                # A file system without links: then a look before the rename is all there is.
                if error.errno not in _NO_LINKS or self.path.exists():
                    raise
            else:
                self.temporary.unlink()
                return
        self.temporary.replace(self.path)

    def abort(self) -> None:
        """Remove what was written so far. Never raises: it runs while another error is on its way."""
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            self.temporary.unlink()


@contextmanager
def undo_on_error(undo: Callable[[], object]) -> Iterator[None]:
    """If the body raises, `undo` is called, which must not raise itself."""
    try:
        yield
    except BaseException:
        undo()
        raise


@contextmanager
def atomic_writer(path: str | os.PathLike[str]) -> Iterator[AtomicFile]:
    """A file to write that appears under `path` when the body ends, and not at all if it raises."""
    file = AtomicFile(path)
    with undo_on_error(file.abort):
        yield file
    file.commit()


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    with atomic_writer(path) as file:
        file.write(data)


def encode_json(value: Any) -> bytes:
    """Indented JSON in the key order of `value`, with a final newline."""
    option = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY
    return orjson.dumps(value, listed, option)


def listed(value: Any) -> list[Any]:
    """For `orjson`: a sequence that makes its items when they are asked for, as a list."""
    if isinstance(value, Sequence):
        return list(value)
    raise TypeError(f"{type(value).__name__} has no place in JSON")


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    write_bytes(path, encode_json(value))


def in_one_line(value: Any) -> Any:
    """A long list within JSON that is written indented: else every number of it would take a line."""
    return orjson.Fragment(orjson.dumps(value))


def make_folder(folder: str | os.PathLike[str]) -> None:
    with storage_errors(folder):
        Path(folder).mkdir(parents=True, exist_ok=True)


def fsync_dir(folder: str | os.PathLike[str]) -> None:
    """Make renames inside `folder` survive a power cut."""
    with storage_errors(folder):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def sweep_temporaries(folder: str | os.PathLike[str]) -> int:
    """Remove what a killed run left half-written in `folder`; returns how many. Only under the run's lock."""
    leftovers = list(Path(folder).glob(f".*{TEMPORARY_SUFFIX}"))
    for leftover in leftovers:
        with storage_errors(leftover):
            leftover.unlink(missing_ok=True)
    return len(leftovers)
