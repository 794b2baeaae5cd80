"""The documents of a finished output, read again: one Parquet file.

Comes in: a text shard that may have been damaged since it was written. Goes out: row groups whose every value
was checked, or an InputError that names the file. Held in memory: the footer, and the row group at hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import pyarrow as pa

from krill.corpus.parquet_footer import read_footer
from krill.dataset.shard_file import ShardFile, VerifiedReads
from krill.faults import first_line


def check_names(file: ShardFile, names: Sequence[str]) -> None:
    """Refuse columns that have one name: which of them is meant, nobody can say."""
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        file.fail(f"has more than one column `{twice}`")


class TextShard:
    """An open shard of documents, kept or rejected; in a `with`.

    With `verify`, what is read is hashed on its way, for `finish` to hold it against the manifest."""

    def __init__(self, file: ShardFile, *, verify: bool = False) -> None:
        import pyarrow.parquet as pq  # not at the top: a dataset without text is read without it

        self._file = file
        self._reads = VerifiedReads(file) if verify else None
        with self._decoding():
            footer = read_footer(lambda start, end: bytes(file.read(start, end - start)), file.shard.bytes)
            self._parquet = pq.ParquetFile(
                self._reads or file.path, metadata=footer.arrow, memory_map=False, pre_buffer=False
            )
            self.schema: pa.Schema = self._parquet.schema_arrow
            self.names: list[str] = self.schema.names
            self.group_rows: list[int] = footer.rows.tolist()
        check_names(file, self.names)

    def read(self, group: int, columns: Sequence[str] | None = None) -> pa.Table:
        """A row group, or some columns of it."""
        for name in columns or ():
            if name not in self.names:
                self._file.fail(f"has no column `{name}`")
        with self._decoding():
            table = self._parquet.read_row_group(group, columns, use_threads=False)
            table.validate(full=True)
            if table.num_rows != self.group_rows[group]:
                raise EOFError(f"row group {group} has {table.num_rows} rows, not {self.group_rows[group]}")
        return table

    def finish(self) -> None:
        """After all row groups: an InputError if the file is not the one that was written."""
        if self._reads is not None:
            self._reads.finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._parquet.close()

    @contextmanager
    def _decoding(self) -> Iterator[None]:
        try:
            yield
        # Names of columns in a damaged footer may not be UTF-8.
        except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
            self.finish()  # that it is another file says more than what is wrong with it
            self._file.fail(f"cannot be decoded: {first_line(error)}")
