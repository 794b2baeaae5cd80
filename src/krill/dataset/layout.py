"""How rows look on disk: the columns, their types, and how many rows one record batch holds.

In: numbers from the config. Out: the Arrow schema with Hugging Face's feature description. Held in memory:
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from krill.dataset.fields import Fields

if TYPE_CHECKING:
    import pyarrow as pa

TOKEN_DTYPES = ("uint8", "uint16", "uint32", "uint64", "int32", "int64")
BATCH_BYTES = 2**20
_LONGEST_ROW = 2**31 - 1  # Arrow's lists count in int32


def smallest_dtype(vocab_size: int) -> str:
    """The smallest unsigned type that holds every id below `vocab_size`."""
    if vocab_size < 1:
        raise ValueError(f"a vocabulary has at least one token, not {vocab_size}")
    return next(name for name in TOKEN_DTYPES if vocab_size - 1 <= np.iinfo(name).max)


def _most_rows(sequence_len: int, *, fixed: bool) -> int:
    """Rows of a record batch beyond which the offsets of variable rows would not fit."""
    return _LONGEST_ROW if fixed else _LONGEST_ROW // sequence_len


@dataclass(frozen=True)
class Layout:
    """The shape of a dataset. It comes from the config alone, never from memory or threads.

    `rows_per_batch` 0 stands for the default: as many rows as fit one mebibyte of tokens, at least one. Rows
    are `fixed` when each has exactly `sequence_len` tokens, and variable when that is the most. Rows of
    conversations have `labels`, and with `attention_mask` a column of ones for trainers that ask for it.
    """

    sequence_len: int
    token_dtype: str
    rows_per_batch: int = 0
    fixed: bool = True
    labels: bool = False
    attention_mask: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.sequence_len <= _LONGEST_ROW:
            raise ValueError(f"sequence_len must be between 1 and {_LONGEST_ROW}, not {self.sequence_len}")
        if self.token_dtype not in TOKEN_DTYPES:
            raise ValueError(f"token_dtype must be one of {TOKEN_DTYPES}, not {self.token_dtype!r}")
        if self.rows_per_batch < 0:
            raise ValueError(f"rows_per_batch must be positive, not {self.rows_per_batch}")
        if self.rows_per_batch == 0:
            object.__setattr__(self, "rows_per_batch", max(1, BATCH_BYTES // self.row_bytes))
        if (self.labels and self.fixed) or (self.attention_mask and not self.labels):
            raise ValueError("labels are of variable rows, and an attention mask goes with labels")
        if self.rows_per_batch > _most_rows(self.sequence_len, fixed=self.fixed):
            raise ValueError(f"a record batch of {self.rows_per_batch} rows is longer than Arrow can count")

    @cached_property
    def row_bytes(self) -> int:
        """Bytes of one row's tokens; of a variable row the most that they can be."""
        return self.sequence_len * self.token_bytes

    @property
    def token_bytes(self) -> int:
        """What a token takes in all columns."""
        return self.dtype.itemsize + 4 * self.labels + self.attention_mask

    @property
    def more_columns(self) -> int:
        """Columns besides `input_ids` and `seq_lengths`, of as many numbers as tokens."""
        return self.labels + self.attention_mask

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.token_dtype)

    def batches_in(self, rows: int) -> int:
        """How many record batches a shard of so many rows has."""
        return -(-rows // self.rows_per_batch)

    def rows_in_batch(self, shard_rows: int, batch: int) -> int:
        """How many rows record batch `batch` of a shard has: as many as all, the last perhaps fewer."""
        return min(self.rows_per_batch, shard_rows - batch * self.rows_per_batch)

    @cached_property
    def features(self) -> dict[str, Any]:
        """Hugging Face's description of the columns.

        `Sequence` is the spelling of datasets 2 and 3; 4 and later write `List` but still read `Sequence`.
        Older versions don't know `List`, so the old word is the one that every version opens.
        """
        width = {"length": self.sequence_len} if self.fixed else {}
        return {
            "input_ids": {
                "feature": {"dtype": self.token_dtype, "_type": "Value"},
                **width,
                "_type": "Sequence",
            },
            "seq_lengths": _sequence("int32"),
            **({"labels": _sequence("int32")} if self.labels else {}),
            **({"attention_mask": _sequence("int8")} if self.attention_mask else {}),
        }

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns as Arrow knows them, for writers and checks; readers find rows without it."""
        import pyarrow as pa  # not at the top: importing it takes longer than a loader's first batch

        token = pa.from_numpy_dtype(self.dtype)
        return pa.schema(
            [
                ("input_ids", pa.list_(token, self.sequence_len) if self.fixed else pa.list_(token)),
                ("seq_lengths", pa.list_(pa.int32())),
                *([("labels", pa.list_(pa.int32()))] if self.labels else []),
                *([("attention_mask", pa.list_(pa.int8()))] if self.attention_mask else []),
            ],
            metadata={"huggingface": orjson.dumps({"info": {"features": self.features}})},
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "sequence_len": self.sequence_len,
            "token_dtype": self.token_dtype,
            "rows_per_batch": self.rows_per_batch,
            **({} if self.fixed else {"fixed": False}),
            **({"labels": True} if self.labels else {}),
            **({"attention_mask": True} if self.attention_mask else {}),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Layout:
        return cls.from_fields(Fields(value, source="layout"))

    @classmethod
    def from_fields(cls, fields: Fields) -> Layout:
        token_dtype = fields.text("token_dtype")
        if token_dtype not in TOKEN_DTYPES:
            fields.refuse("token_dtype", f"must be one of {', '.join(TOKEN_DTYPES)}, not `{token_dtype}`")
        sequence_len = fields.count("sequence_len", least=1, most=_LONGEST_ROW)
        fixed = fields.flag("fixed") if fields.has("fixed") else True
        most = _most_rows(sequence_len, fixed=fixed)
        rows = fields.count("rows_per_batch", least=1, most=most)
        labels, mask = (fields.has(name) and fields.flag(name) for name in ("labels", "attention_mask"))
        if (labels and fixed) or (mask and not labels):
            fields.refuse("labels", "is for rows that vary in length, and goes with `attention_mask`")
        return cls(sequence_len, token_dtype, rows, fixed, labels, mask)


def _sequence(dtype: str) -> dict[str, Any]:
    return {"feature": {"dtype": dtype, "_type": "Value"}, "_type": "Sequence"}
