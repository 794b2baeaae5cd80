"""Files of an output: what is known of a finished one, and how one is written, counted and hashed on its way.

In: bytes from Arrow's writers, or what a manifest says. Out: the file, whole or not at all, and a `ShardInfo`
that the manifest and the commit log store as JSON, without reading the file back. Held in memory: one write
buffer (8 KiB), a Parquet writer's pages; eight bytes (and a Python integer) for each record batch.
"""

from __future__ import annotations

import hashlib
import operator
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from krill.dataset.fields import Fields
from krill.storage.atomic import AtomicFile, undo_on_error

if TYPE_CHECKING:
    import pyarrow as pa

_SHA256 = re.compile(r"[0-9a-f]{64}")


def token_shard_name(number: int) -> str:
    return f"data-{number:05d}.arrow"


def text_shard_name(number: int) -> str:
    return f"text-{number:05d}.parquet"


def rejected_shard_name(number: int) -> str:
    return f"rejected-{number:05d}.parquet"


@dataclass(frozen=True, slots=True)
class ShardInfo:
    """One finished file. `batches` are the byte offsets of its record batch messages; empty for Parquet.
    `tokens` is stated where rows vary in length."""

    file: str
    rows: int
    bytes: int
    sha256: str
    batches: tuple[int, ...] = ()
    tokens: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)

    def to_json(self) -> dict[str, Any]:
        known: dict[str, Any] = {
            "file": self.file,
            "rows": self.rows,
            "bytes": self.bytes,
            "sha256": self.sha256,
        }
        if self.tokens is not None:
            known["tokens"] = self.tokens
        if self.batches:
            known["batches"] = list(self.batches)
        return known | dict(self.extra)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ShardInfo:
        return cls.from_fields(Fields(value, source="shard"))

    @classmethod
    def from_fields(cls, fields: Fields) -> ShardInfo:
        file = fields.text("file")
        if not is_plain_name(file):
            fields.refuse("file", f"must be a file name inside the folder, not `{file}`")
        sha256 = fields.text("sha256")
        if _SHA256.fullmatch(sha256) is None:
            fields.refuse("sha256", f"must be 64 hexadecimal digits, not `{sha256[:80]}`")
        size = fields.count("bytes")
        batches = fields.counts("batches") if fields.has("batches") else ()
        if not all(map(operator.lt, batches, (*batches[1:], size))):
            pairs = enumerate(pairwise((*batches, size)))
            index, before, after = next((index, *pair) for index, pair in pairs if pair[0] >= pair[1])
            fields.refuse(f"batches[{index}]", f"is `{before}`, not below what follows it, `{after}`")
        tokens = fields.count("tokens") if fields.has("tokens") else None
        return cls(file, fields.count("rows"), size, sha256, batches, tokens, fields.rest())


def is_plain_name(name: str) -> bool:
    """One path component that names neither this folder, nor another one, nor a hidden file."""
    return 0 < len(name) < 256 and not name.startswith(".") and not set(name) & {"/", "\\", "\0"}


class HashingFile:
    """What pyarrow takes for a Python file. It raises StorageErrors, which pyarrow passes on unchanged."""

    def __init__(self, path: Path) -> None:
        self._file = AtomicFile(path)
        self._hash = hashlib.sha256()

    @property
    def closed(self) -> bool:
        return self._file.closed

    def write(self, data: Any) -> int:
        self._hash.update(data)
        return self._file.write(data)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        """Nothing: Arrow flushes after each message, the file is flushed and synced once, by `commit`."""

    def commit(self, rows: int, batches: tuple[int, ...] = (), tokens: int | None = None) -> ShardInfo:
        self._file.commit()
        name, size = self._file.path.name, self._file.tell()
        return ShardInfo(name, rows, size, self._hash.hexdigest(), batches, tokens)

    def abort(self) -> None:
        self._file.abort()


class UnfinishedShard(ABC):
    """A shard being written. Used in a `with`, it is closed at the end; if the body raises, no file stays."""

    _info: ShardInfo | None = None

    def close(self) -> ShardInfo:
        """Write what is pending, sync, and give the file its name. A second call returns the same."""
        if self._info is None:
            with undo_on_error(self._abort):
                self._info = self._finish()
        return self._info

    @abstractmethod
    def _finish(self) -> ShardInfo: ...

    @abstractmethod
    def _abort(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        elif self._info is None:
            self._abort()


class HashedParquet:
    """A zstd Parquet file in the making."""

    def __init__(self, path: Path, schema: pa.Schema, **options: Any) -> None:
        import pyarrow.parquet as pq  # takes 9 MB and 80 ms, which only those who write it should pay

        self._file = HashingFile(path)
        with undo_on_error(self._file.abort):
            self._parquet = pq.ParquetWriter(
                self._file,
                schema,
                compression="zstd",
                compression_level=1,
                write_statistics=False,
                store_schema=True,
                **options,
            )

    def write(self, table: pa.Table) -> None:
        """One row group."""
        self._parquet.write_table(table, row_group_size=max(1, table.num_rows))

    def commit(self, rows: int) -> ShardInfo:
        with undo_on_error(self.abort):
            self._parquet.close()
        return self._file.commit(rows)

    def abort(self) -> None:
        # Closed first: left open, the Parquet writer would write its footer when it is collected.
        with suppress(Exception):
            self._parquet.close()
        self._file.abort()
