"""Rows of Hugging Face datasets on disk that Krill did not write.

Comes in: a folder of `save_to_disk`, a `DatasetDict` of them, or single Arrow files. Goes out: a `RowSource`
that reads a row where it lies, without decoding or mapping what is around it; `datasets` is not needed.
Held in memory: 72 bytes for each record batch (of 1,000 rows, if `datasets` wrote it) and what
`chunked_rows.py` says.
"""

from __future__ import annotations

from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from krill.dataset.row_batch import RowBatch
from krill.dataset.shard import is_plain_name
from krill.errors import InputError
from krill.loading.foreign.arrow_index import BATCH, ArrowFile, BatchColumns, checked_offsets
from krill.loading.foreign.chunked_rows import ChunkedRows, ChunkIndex
from krill.loading.foreign.id_columns import IDS, SEQ_LENGTHS
from krill.loading.foreign.row_files import NumbersFile, RowFiles


class ArrowRows:
    """A `RowSource` over Arrow files. `mark` is what else tells the data apart: its own fingerprint."""

    def __init__(self, name: str, files: RowFiles, *, cache_bytes: int, mark: str = "") -> None:
        self.name = name
        columns, batches, (shortest, longest, self.tokens) = _index(name, files)
        self.width = longest
        self.fixed = shortest == longest
        self.dtype = columns.ids.dtype
        # What is fetched as a whole lies together, so that shuffling needs few files at a time.
        blocks = np.bincount(batches["file"], batches["rows"]) if files.fetched else batches["rows"]
        self.block_rows = int(blocks.max())
        self._batches = batches
        store = _RecordBatches(files, columns, batches)
        self._rows = ChunkedRows(name, store, batches["rows"], self.dtype, cache_bytes)
        self.rows = self._rows.rows
        self.held_bytes = cache_bytes + batches.nbytes + self._rows.starts.nbytes
        self._mark = mark

    @cached_property
    def fingerprint(self) -> str:
        """Of where every row lies, and of the first and the last row."""
        digest = blake2b(self._mark.encode(), digest_size=16)
        digest.update(f"{self.dtype} {self.block_rows}".encode())
        digest.update(self._batches.tobytes())
        ends = self.read(np.array([0, self.rows - 1]))
        digest.update(ends.tokens.tobytes())
        return digest.hexdigest()

    def read(self, rows: npt.NDArray[np.int64]) -> RowBatch:
        return self._rows.read(rows)

    def close(self) -> None:
        self._rows.close()


def _index(name: str, files: RowFiles) -> tuple[BatchColumns, npt.NDArray[Any], tuple[int, int, int]]:
    """What all files have in common, their record batches, the shortest and longest row, all tokens."""
    columns: BatchColumns | None = None
    found: list[tuple[int, ...]] = []
    lengths: list[tuple[int, int, int]] = []
    for number, file in enumerate(files.names):
        with files.look_into(number) as opened:
            arrow = ArrowFile(file, opened, files.size(number))
            if columns is not None and arrow.columns != columns:
                raise InputError(
                    f"`{file}` has columns of other types than `{files.names[0]}`", hint="load them apart"
                )
            columns = arrow.columns
            for message in arrow.batches:
                found.append(arrow.places(number, message))
                lengths.append(arrow.lengths(found[-1]))
    if columns is None or not found:
        raise InputError(f"`{name}` has no rows", hint="give a dataset that has some")
    shortest, longest, tokens = zip(*lengths, strict=True)
    if max(longest) == 0:
        raise InputError(f"all rows of `{name}` are empty", hint="give a dataset that has tokens")
    return columns, np.array(found, BATCH), (min(shortest), max(longest), sum(tokens))


class _RecordBatches:
    """A `ChunkStore` of record batches."""

    def __init__(self, files: RowFiles, columns: BatchColumns, batches: npt.NDArray[Any]) -> None:
        self._batches = batches
        self._files = files
        self._columns = columns

    def file_of(self, chunk: int) -> int:
        return int(self._batches["file"][chunk])

    def path(self, file: int) -> Path:
        return self._files.path(file)

    def shown(self, file: int) -> str:
        return self._files.names[file]

    def index(self, chunk: int, file: NumbersFile) -> ChunkIndex:
        batch, columns = self._batches[chunk], self._columns
        rows, tokens_at = int(batch["rows"]), int(batch["tokens_at"])
        if columns.ids.width is not None:
            token_offsets = np.arange(rows + 1, dtype=np.int64) * columns.ids.width
        else:
            stored = file.read(columns.offset_dtype, int(batch["offsets_at"]), rows + 1)
            token_offsets = checked_offsets(stored, int(batch["tokens"]), IDS, file.shown)
        if columns.ids.seq_dtype is None:
            return ChunkIndex(tokens_at, token_offsets)
        return ChunkIndex(tokens_at, token_offsets, *self._pieces(batch, columns.ids.seq_dtype, file))

    def _pieces(
        self, batch: Any, dtype: np.dtype[Any], file: NumbersFile
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        rows, count = int(batch["rows"]), int(batch["seq_count"])
        stored = file.read(self._columns.seq_offset_dtype, int(batch["seq_offsets_at"]), rows + 1)
        offsets = checked_offsets(stored, count, SEQ_LENGTHS, file.shown)
        lengths = file.read(dtype, int(batch["seq_at"]), count)
        if not batch["seq_valid_at"]:
            return offsets, lengths.astype(np.int32)
        # What lies beneath a null list means nothing: those rows state no pieces.
        flags = file.read(np.uint8, int(batch["seq_valid_at"]), -(-rows // 8))
        valid = np.unpackbits(flags, bitorder="little", count=rows).astype(bool)
        counts = np.diff(offsets)
        lengths = lengths[int(offsets[0]) : int(offsets[-1])][np.repeat(valid, counts)]
        return np.concatenate([[0], np.cumsum(np.where(valid, counts, 0))]), lengths.astype(np.int32)


def saved_files(folder: str, content: bytes) -> tuple[list[str], str]:
    """The names of a saved dataset's files, from its `state.json`, and the mark that `datasets` gave it."""
    state = _decoded(content, f"{folder}/state.json")
    if state.get("_indices_data_files") or state.get("_indices_files"):
        raise InputError(
            f"`{folder}` was saved with a selection or order of its rows beside them",
            hint="save it again: `load_from_disk(...).flatten_indices().save_to_disk(...)`",
        )
    entries = state.get("_data_files")
    if not isinstance(entries, list) or not entries:
        raise InputError(
            f"`{folder}` has no data files: its `state.json` names none",
            hint="copy or save the dataset again",
        )
    names = [str(entry.get("filename") if isinstance(entry, dict) else entry) for entry in entries]
    for name in names:
        if not is_plain_name(name):
            raise InputError(
                f"`{folder}/state.json` names `{name[:80]}`, which is no file in the folder",
                hint="copy or save the dataset again",
            )
    return names, str(state.get("_fingerprint", ""))


def split_folder(folder: str, content: bytes, split: str) -> str:
    """The name of a split's folder inside of a saved `DatasetDict`, from its `dataset_dict.json`."""
    splits = _decoded(content, f"{folder}/dataset_dict.json").get("splits")
    if not isinstance(splits, list):
        raise InputError(f"`{folder}/dataset_dict.json` lists no splits", hint="copy the file again")
    if split not in splits or not is_plain_name(split):
        there = ", ".join(f"`{name}`" for name in splits)
        raise InputError(
            f"no split `{split}` in `{folder}`; there are: {there or 'none'}", hint="name one that is there"
        )
    return split


def _decoded(content: bytes, path: str) -> dict[str, Any]:
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise InputError(f"`{path}` is not valid JSON: {error}", hint="copy the file again") from None
    if not isinstance(value, dict):
        raise InputError(f"`{path}` is not a JSON object", hint="copy the file again")
    return value
