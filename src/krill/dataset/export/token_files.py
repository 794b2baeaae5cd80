"""Tokens one after the other in a file without a header, as nanoGPT, datatrove and Megatron-LM read them.

In: rows, or tokens and where documents end. Out: little-endian tokens in a type that the vocabulary chooses,
never one that folds an id into another, and beside them what each format has:

- nanoGPT: `train.bin` and `val.bin`, `uint16` as its `train.py` maps them or `uint32` where the vocabulary
  needs it; and `meta.json`.
- datatrove, as its `DocumentTokenizer` writes them: `NAME.ds`; `NAME.ds.index` with the number of tokens up
  to the end of each document, `uint64`; `NAME.ds.metadata`, three lines for people.
- Megatron-LM's `IndexedDataset`, version 1, one sequence a document, as `tools/preprocess_data.py` makes it:
  `NAME.bin` and `NAME.idx`. The index, little-endian: `MMIDIDX\\0\\0`; version, uint64; the code of the
  tokens' type, uint8; the number of sequences, uint64; the number of document indices, uint64; then lengths
  of the sequences in tokens, int32; where they begin in bytes, int64; and the sequences with which documents
  begin, int64, with one more for the end. As each document is one sequence, the last are 0, 1, 2 and so on.

Held in memory: a batch, twice where the types differ. Megatron's index has the documents' lengths before
everything that follows from them: they wait in a file of four bytes each.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from krill.dataset.export.documents import EndedTokens
from krill.dataset.export.options import ExportOptions
from krill.dataset.export.sink import Content, ExportedFile, WaitingFile, export_file
from krill.dataset.layout import smallest_dtype
from krill.dataset.rows import RowBatch
from krill.dataset.shard import HashingFile
from krill.errors import ConfigError, InputError
from krill.storage.atomic import encode_json, undo_on_error
from krill.storage.input_file import read_input

# Megatron-LM itself gives vocabularies below this size 16 bits, and others 32.
_SMALL_VOCABULARY: Final = 65_500
# What nanoGPT calls the splits.
BIN_NAMES: Final = {"train": "train.bin", "validation": "val.bin"}
META_NAME: Final = "meta.json"

TOKENS_SUFFIX: Final = ".ds"
INDEX_SUFFIX: Final = ".index"
METADATA_SUFFIX: Final = ".metadata"
_MOST_METADATA: Final = 2**16
END_DTYPE: Final = "<u8"
_THOUSANDS: Final = ("", "k", "M", "G", "T", "P", "E")

# The types that Megatron-LM itself writes, and their codes.
_TYPE_CODES: Final = {"int32": 4, "uint16": 8}
_MAGIC: Final = b"MMIDIDX\x00\x00"
_VERSION: Final = 1
_LONGEST_DOCUMENT: Final = 2**31 - 1
_AT_ONCE: Final = 2**17


def token_dtype(options: ExportOptions, vocab_size: int) -> str:
    """The type as asked for, or the one that the format's own tools would choose."""
    if options.dtype == "auto":
        if options.to == "megatron":
            return "uint16" if vocab_size < _SMALL_VOCABULARY else "int32"
        return "uint16" if vocab_size <= 2**16 else smallest_dtype(vocab_size)
    if vocab_size - 1 > np.iinfo(options.dtype).max:
        raise ConfigError(
            f"--dtype is `{options.dtype}`, which can't hold the vocabulary of {vocab_size:,} tokens",
            hint="leave it out: the type is then chosen by the vocabulary",
        )
    return options.dtype


def _as_type(tokens: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    if len(tokens) and not np.can_cast(tokens.dtype, dtype):
        limits = np.iinfo(dtype)
        for token in (tokens.min(), tokens.max()):
            if not limits.min <= token <= limits.max:
                raise InputError(
                    f"a token of the dataset is `{token}`, which is not in its vocabulary",
                    hint="`krill validate` names the file; copy it again, or write it with --overwrite",
                )
    return np.ascontiguousarray(tokens, dtype)


def bin_tokens(batch: RowBatch, dtype: str) -> Content:
    """nanoGPT's: the tokens of rows, one after the other."""
    tokens = _as_type(batch.tokens, np.dtype(dtype).newbyteorder("<"))
    return Content([tokens], {"rows": batch.rows, "tokens": len(tokens)})


def write_meta(
    folder: Path, dtype: str, files: Sequence[ExportedFile], tokenizer: Mapping[str, Any]
) -> ExportedFile:
    """What a reader of `.bin` files has to know; nanoGPT itself would only read a pickle."""
    meta = {
        "vocab_size": tokenizer["vocab_size"],
        "dtype": dtype,
        "byte_order": "little",
        "eos_id": tokenizer.get("eos_id"),
        "tokenizer": tokenizer.get("name"),
        "tokens": {Path(file.file).stem: file.counts["tokens"] for file in files},
    }
    return export_file(folder / META_NAME, [encode_json(meta)])


class _DocumentsSink:
    """Tokens in one file, with the ends of documents to be written beside it."""

    def __init__(self, path: Path, dtype: str) -> None:
        self._dtype = np.dtype(dtype).newbyteorder("<")
        self._documents = 0
        self._tokens = 0
        self._file = HashingFile(path)

    def prepare(self, item: EndedTokens) -> EndedTokens:
        return EndedTokens(_as_type(item.tokens, self._dtype), item.ends)

    def _exported(self) -> ExportedFile:
        return ExportedFile.of(self._file, {"documents": self._documents, "tokens": self._tokens})


class DsSink(_DocumentsSink):
    """datatrove's files of one split; `tokenizer` is what the metadata call it."""

    def __init__(self, folder: Path, name: str, dtype: str, tokenizer: str) -> None:
        super().__init__(folder / f"{name}{TOKENS_SUFFIX}", dtype)
        self._tokenizer = tokenizer
        self._metadata_path = folder / f"{name}{TOKENS_SUFFIX}{METADATA_SUFFIX}"
        self._ended = 0
        with undo_on_error(self._file.abort):
            self._index = HashingFile(folder / f"{name}{TOKENS_SUFFIX}{INDEX_SUFFIX}")

    def write(self, prepared: EndedTokens) -> None:
        self._file.write(prepared.tokens)
        self._add_ends(prepared.ends + self._tokens)
        self._tokens += len(prepared.tokens)

    def commit(self) -> list[ExportedFile]:
        """Packing may have cut the last document: it ends where the tokens end."""
        if self._ended < self._tokens:
            self._add_ends(np.array([self._tokens], np.int64))
        lines = metadata_of(self._tokenizer, self._tokens, self._dtype.itemsize)
        metadata = export_file(self._metadata_path, [lines.encode()])
        return [self._exported(), ExportedFile.of(self._index, {}), metadata]

    def abort(self) -> None:
        self._file.abort()
        self._index.abort()

    def _add_ends(self, ends: npt.NDArray[np.int64]) -> None:
        if len(ends):
            self._index.write(ends.astype(END_DTYPE).data)
            self._documents += len(ends)
            self._ended = int(ends[-1])


def ds_token_bytes(name: object, size: int, tokens: int) -> int:
    """How many bytes a token takes in a file of `size` bytes; 0 for a file of none."""
    if tokens == 0 and size == 0:
        return 0
    if tokens == 0 or size not in (2 * tokens, 4 * tokens):
        raise InputError(
            f"`{name}` has {size:,} bytes, and its index has {tokens:,} tokens of 2 or 4 bytes",
            hint="copy or write both files again",
        )
    return size // tokens


def check_ds_metadata(path: str | Path, tokens: int, token_bytes: int) -> None:
    """Refuse a `.ds` file of this machine whose metadata, where it has some, say other numbers than its index
    and its size do: read with the wrong width, any file gives tokens."""
    try:
        content = read_input(f"{path}{METADATA_SUFFIX}", _MOST_METADATA)
    except OSError:
        return
    first, _, rest = content.partition(b"\n")
    stated = rest.partition(b"\n")[0].strip(), first.rpartition(b"|")[2].strip()
    found = b"%d" % tokens, b"%d" % token_bytes
    # Other lines than these are not datatrove's, and older files don't say how many bytes a token takes.
    if tokens and any(said.isdigit() and said != is_so for said, is_so in zip(stated, found, strict=True)):
        raise InputError(
            f"`{path}` and its index have {tokens:,} tokens of {token_bytes} bytes, and"
            f" `{path}{METADATA_SUFFIX}` says something else",
            hint="copy or write all three files again",
        )


def metadata_of(tokenizer: str, tokens: int, token_bytes: int) -> str:
    """The lines of a `.metadata` file: tokenizer and bytes of a token, how many tokens, and for people."""
    return f"{tokenizer}|{token_bytes}\n{tokens}\n{format_tokens(tokens)}"


def format_tokens(tokens: int) -> str:
    """A number of tokens to three digits, with a prefix for thousands: `1.23 MT`."""
    digits = len(str(tokens)) - 1
    power = min(digits // 3, len(_THOUSANDS) - 1)
    decimals = max(0, 2 - (digits - 3 * power))
    return f"{tokens / 1000**power:.{decimals}f} {_THOUSANDS[power]}T"


class MegatronSink(_DocumentsSink):
    """Megatron-LM's `NAME.bin` and `NAME.idx`."""

    def __init__(self, folder: Path, name: str, dtype: str) -> None:
        super().__init__(folder / f"{name}.bin", dtype)
        self._index_path = folder / f"{name}.idx"
        self._code = _TYPE_CODES[dtype]
        self._begun = 0
        with undo_on_error(self._file.abort):
            self._lengths = WaitingFile(folder / f"{name}.lengths")

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
        index = export_file(self._index_path, self._index_parts())
        self._lengths.remove()
        return [self._exported(), index]

    def abort(self) -> None:
        self._lengths.remove()
        self._file.abort()

    def _add_lengths(self, lengths: npt.NDArray[np.int64]) -> None:
        if lengths.max() > _LONGEST_DOCUMENT:
            raise InputError(
                f"document {self._documents + int(lengths.argmax()):,} has {lengths.max():,} tokens, "
                "more than Megatron-LM's index can say",
                hint="export to bin, or prepare the dataset with a lower `preprocess.max_document_bytes`",
            )
        self._lengths.add(lengths.astype("<i4").data)
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
        return (np.frombuffer(content, "<i4") for content in self._lengths.blocks(4 * _AT_ONCE))
