"""The files that rows are read from, in order.

In: paths. Out: open files, by number. A dataset on this machine and one that is fetched (`remote.py`) look
the same here. Held in memory: a name and a size for each file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from krill.dataset.layout import TOKEN_DTYPES
from krill.errors import InputError, KrillError, MissingExtra
from krill.faults import first_line
from krill.storage.input_file import ClosedOnExit, open_regular


class RowFiles(Protocol):
    """Safe to use from several threads, and picklable. `fetched` says that files come as a whole, or parts of
    them at a cost."""

    fetched: bool

    @property
    def names(self) -> Sequence[str]:
        """As shown to users: paths or URLs."""

    def size(self, number: int) -> int:
        """In bytes."""

    def mark(self, number: int) -> str:
        """What identifies this version of the file on this machine."""

    def open_ranges(self, number: int) -> BinaryIO:
        """The file, to read small parts of it at any position."""

    def path(self, number: int) -> Path:
        """The whole file on this machine; what was fetched may be dropped again later."""


class LocalRowFiles:
    fetched = False

    def __init__(self, paths: Sequence[str | Path]) -> None:
        self.names = [str(path) for path in paths]

    def size(self, number: int) -> int:
        with reading(self.names[number]):
            return Path(self.names[number]).stat().st_size

    def mark(self, number: int) -> str:
        with reading(self.names[number]):
            path = Path(self.names[number]).resolve()
            status = path.stat()
        return f"{path} {status.st_size} {status.st_mtime_ns}"

    def open_ranges(self, number: int) -> BinaryIO:
        with reading(self.names[number]):
            return open_regular(self.names[number])

    def path(self, number: int) -> Path:
        return Path(self.names[number])


def is_url(path: str) -> bool:
    return "://" in path


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Errors of the body, which must do nothing but read the file `name`, as errors for the user."""
    try:
        yield
    except KrillError:
        raise
    except FileNotFoundError:
        raise InputError(
            f"no such file: `{name}`", hint="copy the dataset again, with all its files"
        ) from None
    except ImportError as error:
        if not name.startswith("http"):
            raise InputError(f"can't read `{name}`: {error}", hint="pip install what it names") from error
        raise MissingExtra(f"reading `{name}`", "hub") from error
    except Exception as error:
        # A remote file's protocol may raise anything; with a local one, the unexpected is a bug of ours.
        # Names inside of a damaged file may not be UTF-8.
        if not (is_url(name) or isinstance(error, OSError | pa.ArrowException | UnicodeDecodeError)):
            raise
        raise InputError(f"can't read `{name}`: {first_line(error)}", hint=_hint(name)) from error


def _hint(name: str) -> str:
    if is_url(name):
        return "try again when the server answers; what was fetched so far is kept"
    return "the file is damaged or can't be read: copy it again"


class NumbersFile(ClosedOnExit):
    """Arrays out of a file of this machine; `shown` is what a user knows it by. Opening raises OSErrors."""

    def __init__(self, path: Path, shown: str) -> None:
        self.shown = shown
        self._opened = open_regular(path)

    @property
    def size(self) -> int:
        return os.fstat(self._opened.fileno()).st_size

    def read(self, dtype: npt.DTypeLike, position: int, count: int) -> npt.NDArray[Any]:
        kind = np.dtype(dtype)
        data = read_exactly(self._opened, self.shown, position, position + count * kind.itemsize)
        return np.frombuffer(data, kind)

    def close(self) -> None:
        self._opened.close()


def read_exactly(opened: BinaryIO, name: str, start: int, end: int) -> bytes:
    """The bytes from `start` to `end` of a file that was opened by `open_ranges`."""
    with reading(name):
        opened.seek(start)
        data = opened.read(end - start)
        while len(data) < end - start:
            more = opened.read(end - start - len(data))
            if not more:
                raise InputError(
                    f"`{name}` is truncated: it ends before byte {end:,}", hint="copy the file again"
                )
            data += more
    return data


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
        for column in (IDS, SEQ_LENGTHS):
            if schema.names.count(column) > 1:
                raise InputError(f"`{name}` has more than one column `{column}`", hint="write it with one")
        kind = _field(schema, name).type
        dtype = _integers(kind)
        if dtype is None or dtype.name not in TOKEN_DTYPES:
            raise InputError(
                f"`{IDS}` in `{name}` has the type `{kind}`, not a list of integers",
                hint=f"ids are lists of {', '.join(TOKEN_DTYPES)}",
            )
        fixed = pa.types.is_fixed_size_list(kind)
        return cls(dtype, kind.list_size if fixed else None, _seq_dtype(schema, name))


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
