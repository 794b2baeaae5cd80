"""An object store: whole objects under a prefix, by fsspec (S3, Google Cloud Storage, Azure and others).

Comes in: a URL such as `s3://bucket/folder`. Goes out: objects read, written, listed and removed, named from
there on. An object appears when it is whole, or not at all; nothing is ever appended or renamed. Held in
memory: a part of the object that is sent or fetched, and what is known of each object while some are listed.

Credentials and addresses are those that the protocol's own file system finds in its environment. Objects are
cut into parts here, as s3fs itself would hold up to ten parts of 50 MiB at once. Not obstore, though it is
lighter (100 MB in parts from a local S3 server, with imports: 19 MB of memory at 30 MB/s, s3fs 61 MB at 20
MB/s): it would be a second library beside fsspec, by which the corpus and `datasets` read every protocol.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from krill.errors import ConfigError, KrillError, MissingExtra, StorageError
from krill.faults import first_line
from krill.storage.atomic import TEMPORARY_SUFFIX, storage_errors

PART_BYTES: Final = 5 << 20
"""What is sent or fetched at once: S3 takes no smaller parts, and 10,000 of them."""

_NO_CREDENTIALS: Final = ("NoCredentialsError", "PartialCredentialsError", "TokenRetrievalError")
# What only the disk of this machine says.
_OF_THIS_MACHINE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


def is_object_url(path: str) -> bool:
    return "://" in path


@contextmanager
def store_errors(url: str, doing: str) -> Iterator[None]:
    """Turn what a store's file system raises into an error of ours; `doing` is what failed with `url`."""
    try:
        yield
    except KrillError:
        raise
    except ImportError as error:
        if url.startswith("s3"):
            raise MissingExtra(f"`{url}`", "s3") from error
        raise ConfigError(f"cannot {doing} `{url}`: {error}", hint="pip install what it names") from error
    except Exception as error:  # a store's file system may raise anything
        if isinstance(error, OSError) and error.errno in _OF_THIS_MACHINE:
            raise
        fact, hint = _describe(error)
        raise StorageError(f"cannot {doing} `{url}`: {fact}", hint=hint) from error


def _describe(error: Exception) -> tuple[str, str]:
    fact = first_line(error)
    if type(error).__name__ in _NO_CREDENTIALS:
        return "no credentials were found", (
            "set those of the store, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, on every machine"
        )
    if isinstance(error, FileNotFoundError):
        return fact, "create the bucket, or name one that is there"
    if isinstance(error, PermissionError):
        return fact, "check the credentials, and that they may list, read, write and delete there"
    return fact, (
        "check the address and the connection, then run the same command again: what was committed is kept"
    )


class ObjectStore:
    """The objects below `url`. Safe to use from any thread."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        protocol = self.url.partition("://")[0]
        with store_errors(self.url, "use"):
            import fsspec

            if protocol not in fsspec.available_protocols():
                raise ConfigError(
                    f"`{self.url}`: there is no protocol `{protocol}`",
                    hint="s3://, gs:// and az:// are object stores",
                )
            # A remembered listing would hide what other machines have committed since.
            self._system, root = fsspec.core.url_to_fs(self.url, use_listings_cache=False)
        self._root = root.rstrip("/")

    def url_of(self, name: str) -> str:
        return f"{self.url}/{name}"

    def size(self, name: str) -> int | None:
        """The bytes of an object; None if there is none."""
        with store_errors(self.url_of(name), "read"):
            try:
                return int(self._system.info(self._key(name))["size"])
            except FileNotFoundError:
                return None

    def sizes(self, folder: str) -> dict[str, int]:
        """The names below a folder, and the bytes of each."""
        with store_errors(self.url_of(folder), "list"):
            found = self._system.find(self._key(folder), detail=True)
        # Some tools leave an empty object in the place of a folder.
        return {
            self._name(key): int(info["size"] or 0)
            for key, info in found.items()
            if info.get("type", "file") == "file"
        }

    def any(self, folder: str) -> bool:
        """Whether there is anything below a folder; looks at one level of it."""
        with store_errors(self.url_of(folder), "list"):
            try:
                return bool(self._system.ls(self._key(folder), detail=False))
            except FileNotFoundError:
                return False

    def read(self, name: str) -> bytes | None:
        """A small object; None if there is none."""
        with store_errors(self.url_of(name), "read"):
            try:
                return bytes(self._system.cat_file(self._key(name)))
            except FileNotFoundError:
                return None

    def read_all(self, names: Iterable[str]) -> dict[str, bytes]:
        """Small objects, many at once; those that are not there are left out."""
        found: dict[str, bytes] = {}
        answers = self._system.cat([self._key(name) for name in names], on_error="return")
        for key, answer in answers.items():
            with store_errors(self.url_of(self._name(key)), "read"), suppress(FileNotFoundError):
                if isinstance(answer, BaseException):
                    raise answer
                found[self._name(key)] = bytes(answer)
        return found

    def write(self, name: str, data: bytes) -> None:
        with store_errors(self.url_of(name), "write"):
            self._system.pipe_file(self._key(name), data)

    def upload(self, path: Path, name: str) -> None:
        with storage_errors(path), store_errors(self.url_of(name), "write"), path.open("rb") as file:
            if os.fstat(file.fileno()).st_size <= PART_BYTES:
                self._system.pipe_file(self._key(name), file.read())
                return
            target = self._system.open(self._key(name), "wb", block_size=PART_BYTES)
            try:
                while part := file.read(PART_BYTES):
                    target.write(part)
            except BaseException:
                with suppress(Exception):
                    target.discard()
                    target.closed = True  # left open, it would complete the object when it is collected
                raise
            target.close()

    def download(self, name: str, path: Path) -> bool:
        """An object, into a file of this machine that is whole or absent; False if there is none."""
        size = self.size(name)
        if size is None:
            return False
        temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}{TEMPORARY_SUFFIX}")
        try:
            with storage_errors(path), temporary.open("wb") as file:
                for start in range(0, size, PART_BYTES):
                    file.write(self.read_part(name, start, min(size, start + PART_BYTES)))
            with storage_errors(path):
                temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        return True

    def read_part(self, name: str, start: int, end: int) -> bytes:
        """Bytes of an object.

        Not by the file systems' own way to fetch a file: some fetch many parts at once, in memory.
        """
        with store_errors(self.url_of(name), "read"):
            part = bytes(self._system.cat_file(self._key(name), start=start, end=end))
            if len(part) != end - start:
                raise EOFError(f"{len(part):,} bytes came from {start:,} on, not {end - start:,}")
            return part

    def remove(self, folder: str, *, first: str = "") -> None:
        """All objects below a folder; those whose names end in `first` before the others."""
        names = list(self.sizes(folder))
        self.remove_objects([name for name in names if name.endswith(first)])
        self.remove_objects([name for name in names if not name.endswith(first)])

    def remove_objects(self, names: Sequence[str]) -> None:
        if names:
            with store_errors(self.url, "remove objects of"):
                self._system.rm([self._key(name) for name in names])

    def _key(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _name(self, key: str) -> str:
        return key[len(self._root) + 1 :]
