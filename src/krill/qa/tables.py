"""One unit of a cache: its paragraphs, questions and features, as tables; which spans are not exact.

In: columns. Out: three Arrow IPC streams of one record batch each, and the same columns again,
mapped. Held in memory: what is written; of what is read, the pages that were touched since they were last let
go.

Nothing is stored twice: a paragraph's tokens once for all its questions, a question's once for all its
features. A feature is six numbers, and its row of ids is put together when it is read (`stored.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from krill import _native
from krill.corpus.arrays import as_arrow, as_numpy
from krill.corpus.buffers import offsets_of, text_column_of
from krill.corpus.checks import check_batch
from krill.dataset.shard import HashingFile
from krill.errors import InputError
from krill.storage.atomic import undo_on_error
from krill.storage.outputs import refuse_checksum

NOWHERE: Final = -1
"""The place of an answer that is not in the context, or not in a window of it."""

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
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Lists:
    """Lists of numbers, one after the other; list `i` is `values[starts[i]:starts[i + 1]]`."""

    values: npt.NDArray[Any]
    starts: Numbers

    @property
    def lengths(self) -> Numbers:
        return np.diff(self.starts)

    def __getitem__(self, number: int) -> npt.NDArray[Any]:
        return self.values[self.starts[number] : self.starts[number + 1]]


@dataclass(frozen=True, slots=True)
class EncodedSpans(Lists):
    """The ids of some texts, with begin and end of each token in its text, in characters, shape (n, 2)."""

    spans: npt.NDArray[np.int32]


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
    """A row for each question; `features` is how many it has. Fields are in the order of the columns."""

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
class FeatureUnit:
    """The tables of a unit; `files` are the mapped files under them."""

    paragraphs: Paragraphs
    examples: Examples
    features: Features
    files: tuple[_native.MappedFile, ...] = ()

    @property
    def rows(self) -> tuple[int, int, int]:
        return len(self.paragraphs.contexts), len(self.examples.ids), len(self.features.example)

    def first_feature(self, example: int) -> int:
        """The row of an example's first feature; features are in the order of their examples."""
        return int(self.features.example.searchsorted(example))

    def drop_pages(self) -> None:
        """Release the mapped pages; they come back from the system's cache when they are read again."""
        for file in self.files:
            file.drop_pages()

    def write(self, folder: Path, number: int) -> list[dict[str, Any]]:
        """Save the three tables; returns the name, bytes and checksum of each."""
        columns = {
            "paragraphs": _columns(self.paragraphs),
            "examples": _columns(self.examples),
            "features": _columns(self.features),
        }
        return [_write(unit_path(folder, number, table), table, columns[table]) for table in SCHEMAS]

    def check(self, folder: Path, number: int, checksums: Mapping[str, str]) -> None:
        """Compare the mapped files with these checksums: InputError if one differs."""
        for table, file in zip(SCHEMAS, self.files, strict=True):
            expected = checksums.get(table_name(number, table))
            if expected is not None and (found := sha256(file.content().data).hexdigest()) != expected:
                refuse_checksum(str(unit_path(folder, number, table)), found, expected)


def table_name(number: int, table: str) -> str:
    return f"{table}-{number:05d}.arrow"


def unit_path(folder: Path, number: int, table: str) -> Path:
    return folder / table_name(number, table)


def read_unit(folder: Path, number: int) -> FeatureUnit:
    """A unit's columns over mapped files; InputError if one of them is damaged."""
    read = [_read(unit_path(folder, number, table), table) for table in SCHEMAS]
    paragraphs, examples, features = (batch for batch, _ in read)
    unit = FeatureUnit(
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
    fault = _contradiction(unit)
    if fault is not None:
        raise _damaged(unit_path(folder, number, "features"), fault)
    return unit


def _contradiction(unit: FeatureUnit) -> str | None:
    """How the tables contradict each other, if they do."""
    paragraphs, examples, features = unit.rows
    numbers = unit.features.example
    if features and not (numbers[0] >= 0 and numbers[-1] < examples and (numbers[1:] >= numbers[:-1]).all()):
        return "its features are not of examples that are there, in their order"
    within = (unit.examples.paragraph >= 0) & (unit.examples.paragraph < paragraphs)
    if not within.all():
        return "an example is about a paragraph that is not there"
    if (np.bincount(numbers, minlength=examples) != unit.examples.features).any():
        return "an example has another number of features than it says"
    starts = unit.paragraphs.tokens.starts
    if (unit.paragraphs.spans.starts != 2 * starts).any():
        return "a paragraph has tokens without their place in the text"
    tokens = np.diff(starts)[unit.examples.paragraph[numbers]]
    begin, length = unit.features.begin.astype(np.int64), unit.features.length
    if ((begin < 0) | (length < 0) | (begin + length > tokens)).any():
        return "a feature is of tokens that its paragraph does not have"
    if any(
        ((place < NOWHERE) | (place >= length)).any() for place in (unit.features.first, unit.features.last)
    ):
        return "an answer lies outside of its feature"
    return None


def value(column: pa.Array, row: int) -> Any:
    try:
        return column[row].as_py()
    except UnicodeDecodeError as error:
        raise InputError(
            f"a text of the cache is not UTF-8: {error}",
            hint="the cache is damaged: remove its folder and prepare it again",
        ) from None


def check_unit(folder: Path, number: int) -> None:
    """Validate every value of a unit: InputError if its files contradict themselves."""
    for table in SCHEMAS:
        path = unit_path(folder, number, table)
        try:
            _read(path, table)[0].validate(full=True)
        except pa.ArrowInvalid as error:
            raise _damaged(path, str(error)) from None


# Columns from lists of Python. `pa.array` would load pandas: 45 MB that no budget has planned.


def text_list_column(lists: Sequence[Sequence[str]]) -> pa.Array:
    texts = text_column_of(text for texts in lists for text in texts)
    return pa.LargeListArray.from_arrays(as_arrow(offsets_of([len(texts) for texts in lists])), texts)


def number_list_column(lists: Sequence[Sequence[int]]) -> pa.Array:
    values = np.array([number for numbers in lists for number in numbers], np.int32)
    return _column(Lists(values, offsets_of([len(numbers) for numbers in lists])))


def _columns(table: Paragraphs | Examples | Features) -> list[pa.Array]:
    return [_column(getattr(table, field.name)) for field in fields(table)]


def _column(values: pa.Array | Lists | Ints) -> pa.Array:
    if isinstance(values, Lists):
        return pa.LargeListArray.from_arrays(as_arrow(values.starts), as_arrow(values.values))
    return as_arrow(values) if isinstance(values, np.ndarray) else values


def _lists(column: pa.Array, dtype: str) -> Lists:
    starts = (
        np.frombuffer(column.buffers()[1], np.int64, len(column) + 1) if len(column) else np.zeros(1, int)
    )
    return Lists(as_numpy(column.values, dtype), starts)


def _write(path: Path, table: str, columns: Sequence[pa.Array]) -> dict[str, Any]:
    schema = SCHEMAS[table]
    file = HashingFile(path)
    with undo_on_error(file.abort), pa.ipc.new_stream(file, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    written = file.commit(len(columns[0]))
    return {"file": written.file, "bytes": written.bytes, "sha256": written.sha256}


def _read(path: Path, table: str) -> tuple[pa.RecordBatch, _native.MappedFile]:
    head = _HEADS[table]
    try:
        file = _native.MappedFile(bytes(path))
        content = pa.BufferReader(pa.py_buffer(file.content()))
        if content.read(len(head)) != head:
            raise _damaged(path, "it does not begin as this table does")
        batch = pa.ipc.read_record_batch(pa.ipc.read_message(content), SCHEMAS[table])
        check_batch(batch)
        return batch, file
    except (OSError, EOFError, pa.ArrowException) as error:
        raise _damaged(path, str(error)) from None


def _damaged(path: Path, fact: str) -> InputError:
    return InputError(
        f"`{path}` can't be read: {fact}",
        hint="the cache is damaged: remove its folder and prepare it again",
    )


@dataclass(frozen=True, slots=True)
class InexactSpan:
    """A feature, the answer that it should have, and the text from its first token to its last.

    The two texts are the same where a token beside these has a part of their first or last character.
    """

    example_id: str
    segment_index: int
    answer: str
    text: str


def inexact_spans(unit: FeatureUnit, space_ids: Sequence[int] = ()) -> Iterator[InexactSpan]:
    """All of a unit; spaces around an answer don't count.

    `space_ids` are tokens of nothing but the mark of a space. Where a tokenizer puts one before a text, it
    has the span of the first character, but no part of it.
    """
    features, examples, contexts = unit.features, unit.examples, unit.paragraphs
    rows = np.flatnonzero(features.first != NOWHERE)
    example = features.example[rows]
    paragraph = examples.paragraph[example]
    window = contexts.tokens.starts[paragraph] + features.begin[rows]
    first, last = window + features.first[rows], window + features.last[rows]
    spans = contexts.spans.values.reshape(-1, 2)
    begin, end = spans[first, 0], spans[last, 1]
    is_space = np.isin(contexts.tokens.values, np.array(space_ids, np.uint32))
    cut = _share_a_character(spans, is_space, first, contexts.tokens.starts[paragraph], -1)
    cut |= _share_a_character(spans, is_space, last, contexts.tokens.starts[paragraph + 1] - 1, 1)
    differs = cut | (begin != examples.answer_begin[example]) | (end != examples.answer_end[example])
    context, context_of = "", -1
    for place in np.flatnonzero(differs).tolist():
        if context_of != paragraph[place]:
            context, context_of = value(contexts.contexts, int(paragraph[place])), int(paragraph[place])
        answer = value(examples.answer_text, int(example[place]))
        text = context[begin[place] : end[place]]
        if cut[place] or text.strip() != answer.strip():
            name = value(examples.ids, int(example[place]))
            yield InexactSpan(name, int(features.segment[rows[place]]), answer, text)


def _share_a_character(
    spans: Ints, is_space: npt.NDArray[np.bool_], tokens: Numbers, ends: Numbers, step: int
) -> npt.NDArray[np.bool_]:
    """Whether the token before (-1) or after (1) each of some tokens, in its context, has the same span: both
    have some bytes of one character. `ends` are the contexts' last tokens on that side."""
    beside = np.where(tokens == ends, tokens, tokens + step)
    alike = (spans[beside] == spans[tokens]).all(axis=1)
    return np.asarray((beside != tokens) & alike & ~is_space[beside])
