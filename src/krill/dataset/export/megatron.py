"""Megatron-LM's `IndexedDataset`: `NAME.bin` with the tokens, `NAME.idx` with where each document lies.

Comes in: tokens and where documents end. Goes out: the two files, version 1 of the format, one sequence a
document, as `tools/preprocess_data.py` makes them. Held in memory: a batch; the documents' lengths, which the
index has before everything that follows from them, wait in a file of four bytes each.

The index, little-endian: `MMIDIDX\\0\\0`; version, uint64; the code of the tokens' type, uint8; the number of
sequences, uint64; the number of document indices, uint64; then lengths of the sequences in tokens, int32;
where they begin in bytes, int64; and the sequences with which documents begin, int64, with one more for the
end. As each document is one sequence, the last are 0, 1, 2 and so on.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt

from krill.dataset.export.documents import EndedTokens
from krill.dataset.export.sink import ExportedFile
from krill.dataset.export.token_type import as_type
from krill.dataset.shard import HashingFile
from krill.errors import InputError
from krill.storage.atomic import TEMPORARY_SUFFIX, storage_errors

# The types that Megatron-LM itself writes, and their codes.
TYPE_CODES: Final = {"int32": 4, "uint16": 8}
_MAGIC: Final = b"MMIDIDX\x00\x00"
_VERSION: Final = 1
_LONGEST_DOCUMENT: Final = 2**31 - 1
_AT_ONCE: Final = 2**17


class MegatronSink:
    """`NAME.bin` and `NAME.idx`."""

    def __init__(self, folder: Path, name: str, dtype: str) -> None:
        self._index_path = folder / f"{name}.idx"
        self._dtype = np.dtype(dtype).newbyteorder("<")
        self._code = TYPE_CODES[dtype]
        self._documents = 0
        self._tokens = 0
        self._begun = 0
        self._file = HashingFile(folder / f"{name}.bin")
        self._lengths_path = folder / f".{name}.lengths{TEMPORARY_SUFFIX}"
        try:
            with storage_errors(self._lengths_path):
                self._lengths: BinaryIO = open(self._lengths_path, "w+b")  # noqa: SIM115  closed by `abort`
        except BaseException:
            self._file.abort()
            raise

    def prepare(self, item: EndedTokens) -> EndedTokens:
        """Tokens of the file's type."""
        return EndedTokens(as_type(item.tokens, self._dtype), item.ends)

    def write(self, prepared: EndedTokens) -> None:
        self._file.write(prepared.tokens)
        self._tokens += len(prepared.tokens)
        if len(prepared.ends):
            lengths = np.diff(prepared.ends, prepend=-self._begun)
            self._add_lengths(lengths)
            self._begun = len(prepared.tokens) - int(prepared.ends[-1])
        else:
            self._begun += len(prepared.tokens)

    def commit(self) -> list[ExportedFile]:
        """Packing may have cut the last document: it ends where the tokens end."""
        if self._begun:
            self._add_lengths(np.array([self._begun], np.int64))
        index = HashingFile(self._index_path)
        try:
            for part in self._index_parts():
                index.write(part)
        except BaseException:
            index.abort()
            raise
        self._forget_lengths()
        counts = {"documents": self._documents, "tokens": self._tokens}
        return [ExportedFile.of(self._file, counts), ExportedFile.of(index, {})]

    def abort(self) -> None:
        self._forget_lengths()
        self._file.abort()

    def _add_lengths(self, lengths: npt.NDArray[np.int64]) -> None:
        if lengths.max() > _LONGEST_DOCUMENT:
            raise InputError(
                f"document {self._documents + int(lengths.argmax()):,} has {lengths.max():,} tokens, "
                "more than Megatron-LM's index can say",
                hint="export to bin, or prepare the dataset with a lower `preprocess.max_document_bytes`",
            )
        with storage_errors(self._lengths_path):
            self._lengths.write(lengths.astype("<i4").data)
        self._documents += len(lengths)

    def _index_parts(self) -> Iterator[Any]:
        yield _MAGIC + struct.pack("<QBQQ", _VERSION, self._code, self._documents, self._documents + 1)
        yield from self._read_lengths()
        begin = 0
        for lengths in self._read_lengths():
            ends = np.cumsum(lengths, dtype=np.int64) * self._dtype.itemsize + begin
            begins = np.concatenate((np.array([begin], np.int64), ends[:-1]))
            yield begins.astype("<i8", copy=False)
            begin = int(ends[-1])
        for first in range(0, self._documents + 1, _AT_ONCE):
            yield np.arange(first, min(first + _AT_ONCE, self._documents + 1), dtype="<i8")

    def _read_lengths(self) -> Iterator[npt.NDArray[np.int32]]:
        with storage_errors(self._lengths_path):
            self._lengths.seek(0)
            while content := self._lengths.read(4 * _AT_ONCE):
                yield np.frombuffer(content, "<i4")

    def _forget_lengths(self) -> None:
        with suppress(OSError):
            self._lengths.close()
        with suppress(OSError):
            self._lengths_path.unlink()
