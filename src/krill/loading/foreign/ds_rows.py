"""Documents of datatrove's `.ds` files, each a row.

In: `.ds` files with their `.ds.index`, from datatrove's `DocumentTokenizer` and `DocumentTokenizerMerger`,
`krill.datatrove` or `krill export --to datatrove`. Out: a `RowSource`. All indexes are read once when it is
opened, for the longest document. Held in memory: 24 bytes for each 4,096 documents, and what
`chunked_rows.py` says.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from krill.dataset.export.token_files import END_DTYPE, check_ds_metadata, ds_token_bytes
from krill.errors import InputError
from krill.loading.foreign.chunked_rows import ChunkedRows, ChunkIndex, ChunkStore, Counts
from krill.loading.foreign.row_files import NumbersFile, RowFiles, read_exactly

_END: Final = np.dtype(END_DTYPE)
_CHUNK: Final = 4096
_CHUNKS_AT_ONCE: Final = 32
_DTYPES: Final[dict[int, np.dtype[Any]]] = {2: np.dtype("<u2"), 4: np.dtype("<u4")}


def open_ds_rows(name: str, files: RowFiles, indexes: RowFiles, *, cache_bytes: int) -> ChunkedRows:
    """The documents of `.ds` files; `indexes` are theirs, in the same order."""
    lengths: list[tuple[int, int]] = []
    total = 0
    digest = hashlib.blake2b(digest_size=16)
    sizes = []
    chunk_rows: list[int] = []
    chunk_files: list[int] = []
    for number in range(len(files.names)):
        tokens = 0
        for ends in _ends(indexes, number):
            digest.update(ends.tobytes())
            of_documents = np.diff(ends, prepend=tokens)
            if of_documents.min() < 0:
                raise InputError(
                    f"`{indexes.names[number]}` is not an index: its ends are not ascending",
                    hint="write both files again",
                )
            lengths.append((int(of_documents.min()), int(of_documents.max())))
            tokens = int(ends[-1])
            chunk_rows += [min(_CHUNK, len(ends) - first) for first in range(0, len(ends), _CHUNK)]
            chunk_files += [number] * (-(-len(ends) // _CHUNK))
        total += tokens
        sizes.append(ds_token_bytes(files.names[number], files.size(number), tokens))
        if not files.fetched:
            check_ds_metadata(files.names[number], tokens, sizes[-1])
    known = {size for size in sizes if size}
    if not known:
        raise InputError(f"`{name}` has no tokens", hint="give files that have some")
    if len(known) > 1:
        raise InputError(f"`{name}` has files of tokens of 2 and of 4 bytes", hint="load them apart")
    counts = np.array(chunk_files, np.int64), np.array(chunk_rows, np.int64)
    store = _Chunks(files, indexes, _DTYPES[known.pop()], *counts, digest.hexdigest())
    rows = ChunkedRows(name, store, tokens=total, cache_bytes=cache_bytes)
    shortest, longest = zip(*lengths, strict=True)
    return rows.set_lengths(min(shortest), max(longest))


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


class _Chunks(ChunkStore):
    """So many documents at a time; no chunk reaches over the end of a file."""

    def __init__(
        self,
        files: RowFiles,
        indexes: RowFiles,
        dtype: np.dtype[Any],
        chunk_files: Counts,
        chunk_rows: Counts,
        mark: str,
    ) -> None:
        super().__init__(files, dtype, chunk_files, chunk_rows, chunk_rows.nbytes + chunk_files.nbytes)
        self.block_rows = _CHUNK
        self._indexes = indexes
        self._mark = mark

    def digest(self) -> hashlib.blake2b:
        return hashlib.blake2b(f"{self._mark} {self.dtype}".encode(), digest_size=16)

    def index(self, chunk: int, file: NumbersFile) -> ChunkIndex:
        number = int(self.chunk_files[chunk])
        first = (chunk - int(np.searchsorted(self.chunk_files, number))) * _CHUNK
        # The end before the first document is where it begins.
        start = max(0, first - 1) * _END.itemsize
        end = min(self._indexes.size(number), (first + _CHUNK) * _END.itemsize)
        with self._indexes.open_ranges(number) as opened:
            data = read_exactly(opened, self._indexes.names[number], start, end)
        ends = np.frombuffer(data, _END).astype(np.int64)
        return ChunkIndex(0, ends if first else np.concatenate(([0], ends)))
