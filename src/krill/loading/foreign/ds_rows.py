"""Documents of datatrove's `.ds` files, each a row.

In: `.ds` files with their `.ds.index`, from datatrove's `DocumentTokenizer` and `DocumentTokenizerMerger`,
`krill.datatrove` or `krill export --to datatrove`. Out: a `RowSource`. All indexes are read once when it is
opened, for the longest document. Held in memory: 24 bytes for each 4,096 documents, and what
`chunked_rows.py` says.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from krill.dataset.export.token_files import END_DTYPE, INDEX_SUFFIX, ds_token_bytes
from krill.errors import InputError
from krill.loading.foreign.chunked_rows import ChunkedRows, ChunkIndex
from krill.loading.foreign.row_files import NumbersFile, RowFiles, read_exactly

_END: Final = np.dtype(END_DTYPE)
_CHUNK: Final = 4096
_CHUNKS_AT_ONCE: Final = 32
_DTYPES: Final[dict[int, np.dtype[Any]]] = {2: np.dtype("<u2"), 4: np.dtype("<u4")}


def open_ds_rows(name: str, files: RowFiles, indexes: RowFiles, *, cache_bytes: int) -> ChunkedRows:
    """The documents of `.ds` files; `indexes` are theirs, in the same order."""
    lengths = _Lengths()
    digest = hashlib.blake2b(digest_size=16)
    sizes = []
    chunk_rows: list[int] = []
    chunk_files: list[int] = []
    for number in range(len(files.names)):
        tokens = 0
        for ends in _ends(indexes, number):
            digest.update(ends.tobytes())
            lengths.add(ends, tokens, indexes.names[number])
            tokens = int(ends[-1])
            chunk_rows += [min(_CHUNK, len(ends) - first) for first in range(0, len(ends), _CHUNK)]
            chunk_files += [number] * (-(-len(ends) // _CHUNK))
        sizes.append(ds_token_bytes(files.names[number], files.size(number), tokens))
    known = {size for size in sizes if size}
    if not known:
        raise InputError(f"`{name}` has no tokens", hint="give files that have some")
    if len(known) > 1:
        raise InputError(f"`{name}` has files of tokens of 2 and of 4 bytes", hint="load them apart")
    counts = np.array(chunk_rows, np.int64), np.array(chunk_files, np.int64)
    store = _Chunks(files, indexes, *counts, _DTYPES[known.pop()], digest.hexdigest())
    rows = ChunkedRows(name, store, tokens=lengths.total, cache_bytes=cache_bytes)
    return rows.set_lengths(lengths.shortest, lengths.longest)


def _ends(indexes: RowFiles, number: int) -> Iterator[npt.NDArray[np.int64]]:
    """A file's ends of documents, some chunks at a time."""
    size, shown = indexes.size(number), indexes.names[number]
    if size % _END.itemsize:
        raise InputError(f"`{shown}` is not whole numbers of 8 bytes", hint="copy the file again")
    step = _CHUNKS_AT_ONCE * _CHUNK * _END.itemsize
    with indexes.open_ranges(number) as opened:
        for first in range(0, size, step):
            data = read_exactly(opened, shown, first, min(size, first + step))
            yield np.frombuffer(data, _END).astype(np.int64)


class _Lengths:
    """The shortest and longest document, and all tokens."""

    def __init__(self) -> None:
        self.shortest = 2**63 - 1
        self.longest = 0
        self.total = 0

    def add(self, ends: npt.NDArray[np.int64], begin: int, shown: str) -> None:
        lengths = np.diff(ends, prepend=begin)
        if lengths.min() < 0:
            raise InputError(
                f"`{shown}` is not an index: its ends are not ascending", hint="write both files again"
            )
        self.shortest = min(self.shortest, int(lengths.min()))
        self.longest = max(self.longest, int(lengths.max()))
        self.total += int(lengths.sum())


class _Chunks:
    """A `ChunkStore` of so many documents at a time; none reaches over the end of a file."""

    block_rows = _CHUNK

    def __init__(
        self,
        files: RowFiles,
        indexes: RowFiles,
        chunk_rows: npt.NDArray[np.int64],
        chunk_files: npt.NDArray[np.int64],
        dtype: np.dtype[Any],
        mark: str,
    ) -> None:
        self.dtype = dtype
        self.chunk_rows = chunk_rows
        self.nbytes = chunk_rows.nbytes + chunk_files.nbytes
        self._files = files
        self._indexes = indexes
        self._chunk_files = chunk_files
        self._mark = mark

    def digest(self) -> hashlib.blake2b:
        return hashlib.blake2b(f"{self._mark} {self.dtype}".encode(), digest_size=16)

    def file_of(self, chunk: int) -> int:
        return int(self._chunk_files[chunk])

    def path(self, file: int) -> Path:
        return self._files.path(file)

    def shown(self, file: int) -> str:
        return self._files.names[file]

    def index(self, chunk: int, file: NumbersFile) -> ChunkIndex:
        number = self.file_of(chunk)
        first = (chunk - int(np.searchsorted(self._chunk_files, number))) * _CHUNK
        # The end before the first document is where it begins.
        start = max(0, first - 1) * _END.itemsize
        end = min(self._indexes.size(number), (first + _CHUNK) * _END.itemsize)
        with self._indexes.open_ranges(number) as opened:
            data = read_exactly(opened, self._indexes.names[number], start, end)
        ends = np.frombuffer(data, _END).astype(np.int64)
        return ChunkIndex(0, ends if first else np.concatenate(([0], ends)))


def index_names(names: Sequence[str]) -> list[str]:
    """The indexes of these files."""
    return [name + INDEX_SUFFIX for name in names]
