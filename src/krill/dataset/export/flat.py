"""nanoGPT's format: all tokens one after the other in a file without a header.

Comes in: rows. Goes out: `train.bin` and `val.bin`, little-endian `uint16` as nanoGPT's `train.py` maps them,
or `uint32` where the vocabulary needs it; and `meta.json`. Held in memory: a batch of tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from krill.dataset.export.sink import ExportedFile
from krill.dataset.export.token_type import as_type
from krill.dataset.rows import RowBatch
from krill.dataset.shard import HashingFile
from krill.storage.atomic import encode_json

META_NAME: Final = "meta.json"
# What nanoGPT calls the splits.
FILE_NAMES: Final = {"train": "train.bin", "validation": "val.bin"}


class FlatSink:
    """One `.bin` file."""

    def __init__(self, path: Path, dtype: str) -> None:
        self._dtype = np.dtype(dtype).newbyteorder("<")
        self._rows = 0
        self._tokens = 0
        self._file = HashingFile(path)

    def prepare(self, batch: RowBatch) -> tuple[npt.NDArray[Any], int]:
        """Tokens of the file's type, and how many rows they were."""
        return as_type(batch.tokens, self._dtype), batch.rows

    def write(self, prepared: tuple[npt.NDArray[Any], int]) -> None:
        tokens, rows = prepared
        self._file.write(tokens)
        self._tokens += len(tokens)
        self._rows += rows

    def commit(self) -> list[ExportedFile]:
        return [ExportedFile.of(self._file, {"rows": self._rows, "tokens": self._tokens})]

    def abort(self) -> None:
        self._file.abort()


def write_meta(
    folder: Path, dtype: str, files: Sequence[ExportedFile], tokenizer: Mapping[str, Any]
) -> ExportedFile:
    """What a reader of the files has to know; nanoGPT itself would only read a pickle."""
    meta = {
        "vocab_size": tokenizer["vocab_size"],
        "dtype": dtype,
        "byte_order": "little",
        "eos_id": tokenizer.get("eos_id"),
        "tokenizer": tokenizer.get("name"),
        "tokens": {Path(file.file).stem: file.counts["tokens"] for file in files},
    }
    file = HashingFile(folder / META_NAME)
    try:
        file.write(encode_json(meta))
    except BaseException:
        file.abort()
        raise
    return ExportedFile.of(file, {})
