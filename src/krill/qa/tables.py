"""One unit of a cache: its paragraphs, questions and features, as tables.

Comes in: columns. Goes out: three Arrow IPC streams of one record batch each, and the same columns again,
mapped. Held in memory: what is written; of what is read, the pages that were touched since they were last let
go.

Nothing is stored twice: a paragraph's tokens once for all its questions, a question's once for all its
features. A feature is six numbers, and its row of ids is put together when it is read (`assembly.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from krill import _native
from krill.corpus.arrays import as_arrow, as_numpy
from krill.errors import InputError
from krill.flow.atomic import atomic_writer

FEATURE_COLUMNS: Final = ("example", "segment", "begin", "length", "first", "last")
_IDS: Final = pa.large_list(pa.uint32())
_INTS: Final = pa.large_list(pa.int32())
SCHEMAS: Final = {
    "paragraphs": pa.schema([("context", pa.large_string()), ("tokens", _IDS), ("spans", _INTS)]),
    "examples": pa.schema(
        [
            ("id", pa.large_string()),
            ("question", pa.large_string()),
            ("tokens", _IDS),
            ("paragraph", pa.int32()),
            ("features", pa.int32()),
            ("answer_text", pa.large_string()),
            ("answer_begin", pa.int32()),
            ("answer_end", pa.int32()),
            ("answers", pa.large_list(pa.large_string())),
            ("answer_starts", _INTS),
        ]
    ),
    "features": pa.schema([(name, pa.int32()) for name in FEATURE_COLUMNS]),
}
# What a table's file begins with. Arrow's own reader takes three times as long to find that out again.
_HEADS: Final = {table: schema.serialize().to_pybytes() for table, schema in SCHEMAS.items()}

Ints = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Lists:
    """Lists of numbers, one after the other; list `i` is `values[starts[i]:starts[i + 1]]`."""

    values: npt.NDArray[Any]
    starts: npt.NDArray[np.int64]

    def __getitem__(self, number: int) -> npt.NDArray[Any]:
        return self.values[self.starts[number] : self.starts[number + 1]]


@dataclass(frozen=True, slots=True)
class Features:
    """A row for each feature: its example, which of its windows it is, where the window begins among the
    context's tokens and how many it has, and the answer's first and last token in it (-1: none)."""

    example: Ints
    segment: Ints
    begin: Ints
    length: Ints
    first: Ints
    last: Ints


@dataclass(frozen=True, slots=True)
class Examples:
    """A row for each question; `features` is how many it has."""

    ids: pa.Array
    questions: pa.Array
    tokens: Lists
    paragraph: Ints
    features: Ints
    answer_text: pa.Array
    answer_begin: Ints
    answer_end: Ints
    answers: pa.Array
    answer_starts: pa.Array


@dataclass(frozen=True, slots=True)
class Paragraphs:
    """A row for each context; `spans` has two numbers for each token: begin and end in characters."""

    contexts: pa.Array
    tokens: Lists
    spans: Lists


@dataclass(frozen=True, slots=True)
class Unit:
    """All of a unit; `files` are what it is read from."""

    paragraphs: Paragraphs
    examples: Examples
    features: Features
    files: tuple[_native.MappedFile, ...] = ()

    @property
    def rows(self) -> tuple[int, int, int]:
        """Of each table."""
        return len(self.paragraphs.contexts), len(self.examples.ids), len(self.features.example)

    def first_feature(self, example: int) -> int:
        """The row of an example's first feature: those of an example follow each other, in their order."""
        return int(self.features.example.searchsorted(example))

    def drop_pages(self) -> None:
        """Let go of what was read; what is wanted again comes back from the system's cache."""
        for file in self.files:
            file.drop_pages()

    def write(self, folder: Path, number: int) -> int:
        """Save the three tables; returns their bytes."""
        columns = {
            "paragraphs": _paragraph_columns(self.paragraphs),
            "examples": _example_columns(self.examples),
            "features": [as_arrow(getattr(self.features, name)) for name in FEATURE_COLUMNS],
        }
        return sum(_write(unit_path(folder, number, table), table, columns[table]) for table in SCHEMAS)


def unit_path(folder: Path, number: int, table: str) -> Path:
    """Where a table of a unit is."""
    return folder / f"{table}-{number:05d}.arrow"


def read_unit(folder: Path, number: int) -> Unit:
    """A unit's columns over mapped files; InputError if one of them is damaged."""
    read = [_read(unit_path(folder, number, table), table) for table in SCHEMAS]
    paragraphs, examples, features = (batch for batch, _ in read)
    return Unit(
        Paragraphs(
            paragraphs.column("context"),
            _lists(paragraphs.column("tokens"), "uint32"),
            _lists(paragraphs.column("spans"), "int32"),
        ),
        Examples(
            examples.column("id"),
            examples.column("question"),
            _lists(examples.column("tokens"), "uint32"),
            as_numpy(examples.column("paragraph"), "int32"),
            as_numpy(examples.column("features"), "int32"),
            examples.column("answer_text"),
            as_numpy(examples.column("answer_begin"), "int32"),
            as_numpy(examples.column("answer_end"), "int32"),
            examples.column("answers"),
            examples.column("answer_starts"),
        ),
        Features(*(as_numpy(features.column(name), "int32") for name in FEATURE_COLUMNS)),
        tuple(file for _, file in read),
    )


def check_unit(folder: Path, number: int) -> None:
    """Look at every value of a unit: InputError if what the files say of themselves does not hold."""
    for table in SCHEMAS:
        path = unit_path(folder, number, table)
        try:
            _read(path, table)[0].validate(full=True)
        except pa.ArrowInvalid as error:
            raise _damaged(path, str(error)) from None


def _paragraph_columns(table: Paragraphs) -> list[pa.Array]:
    return [table.contexts, _column(table.tokens), _column(table.spans)]


def _example_columns(table: Examples) -> list[pa.Array]:
    return [
        table.ids,
        table.questions,
        _column(table.tokens),
        as_arrow(table.paragraph),
        as_arrow(table.features),
        table.answer_text,
        as_arrow(table.answer_begin),
        as_arrow(table.answer_end),
        table.answers,
        table.answer_starts,
    ]


def _column(lists: Lists) -> pa.Array:
    return pa.LargeListArray.from_arrays(as_arrow(lists.starts), as_arrow(lists.values))


def _lists(column: pa.Array, dtype: str) -> Lists:
    starts = (
        np.frombuffer(column.buffers()[1], np.int64, len(column) + 1) if len(column) else np.zeros(1, int)
    )
    return Lists(as_numpy(column.values, dtype), starts)


def _write(path: Path, table: str, columns: Sequence[pa.Array]) -> int:
    schema = SCHEMAS[table]
    with atomic_writer(path) as file:
        with pa.ipc.new_stream(file, schema) as writer:
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
        return file.tell()


def _read(path: Path, table: str) -> tuple[pa.RecordBatch, _native.MappedFile]:
    head = _HEADS[table]
    try:
        file = _native.MappedFile(bytes(path))
        content = pa.BufferReader(pa.py_buffer(file.content()))
        if content.read(len(head)) != head:
            raise _damaged(path, "it does not begin as this table does")
        return pa.ipc.read_record_batch(pa.ipc.read_message(content), SCHEMAS[table]), file
    except (OSError, EOFError, pa.ArrowInvalid) as error:
        raise _damaged(path, str(error)) from None


def _damaged(path: Path, fact: str) -> InputError:
    return InputError(
        f"`{path}` can't be read: {fact}",
        hint="the cache is damaged: remove its folder and prepare it again",
    )
