"""Which columns of somebody else's table hold tokens, and whether they can be read.

Comes in: an Arrow schema. Goes out: the type of the ids, their number where it is the same in every row, and
whether `seq_lengths` says where documents begin; or an InputError that names what is there instead. Held in
memory: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from krill.dataset.layout import TOKEN_DTYPES
from krill.errors import InputError

IDS, SEQ_LENGTHS = "input_ids", "seq_lengths"


@dataclass(frozen=True, slots=True)
class IdColumns:
    """`width` is None where rows may vary; `seq_dtype` is None where each row is one document."""

    dtype: np.dtype[Any]
    width: int | None
    seq_dtype: np.dtype[Any] | None

    @classmethod
    def of(cls, schema: pa.Schema, name: str) -> IdColumns:
        """What the table in the file `name` has."""
        _only_once(schema, name)
        kind = _field(schema, name).type
        dtype = _integers(kind)
        if dtype is None or dtype.name not in TOKEN_DTYPES:
            raise InputError(
                f"`{IDS}` in `{name}` has the type `{kind}`, not a list of integers",
                hint=f"ids are lists of {', '.join(TOKEN_DTYPES)}",
            )
        fixed = pa.types.is_fixed_size_list(kind)
        return cls(dtype, kind.list_size if fixed else None, _seq_dtype(schema, name))


def _only_once(schema: pa.Schema, name: str) -> None:
    for column in (IDS, SEQ_LENGTHS):
        if schema.names.count(column) > 1:
            raise InputError(f"`{name}` has more than one column `{column}`", hint="write it with one")


def _field(schema: pa.Schema, name: str) -> pa.Field:
    if IDS in schema.names:
        return schema.field(IDS)
    there = ", ".join(f"`{column}`" for column in schema.names)
    raise InputError(
        f"no column `{IDS}` in `{name}`; there are: {there or 'none'}",
        hint=f"rename the column of token ids to `{IDS}`; text is prepared by `krill preprocess` first",
    )


def _seq_dtype(schema: pa.Schema, name: str) -> np.dtype[Any] | None:
    if SEQ_LENGTHS not in schema.names:
        return None
    kind = schema.field(SEQ_LENGTHS).type
    dtype = _integers(kind)
    if dtype is None or pa.types.is_fixed_size_list(kind):
        raise InputError(
            f"`{SEQ_LENGTHS}` in `{name}` has the type `{kind}`, not `list<int32>`",
            hint="it says how many tokens each document of a row has; remove the column if it says else",
        )
    return dtype


def _integers(kind: pa.DataType) -> np.dtype[Any] | None:
    """The type of a list's values, if they are integers."""
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    if not is_list or not pa.types.is_integer(kind.value_type):
        return None
    return np.dtype(str(kind.value_type))
