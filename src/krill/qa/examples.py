"""Questions and their contexts, from any source, paragraph by paragraph.

In: SQuAD's JSON (versions 1 and 2), JSON lines of {id, question, context, answers}, or rows of a
dataset that Hugging Face `datasets` opens. Out: paragraphs, each a context with its questions. Held in
memory: one paragraph, with at most `MOST_QUESTIONS` of its questions.

A paragraph is what is tokenised once. In JSON lines and rows, it is a run of equal contexts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import orjson

from krill import _native
from krill.corpus.buffers import text_buffers, text_column_of
from krill.errors import BudgetError, InputError
from krill.qa.squad_json import ByteReader, RecordTooLong, read_paragraphs, rest_of_line

# A paragraph with more questions is taken in parts, each with the context: what a part holds stays small.
MOST_QUESTIONS: Final = 1000
READ_BYTES: Final = 1 << 18
# JSON may hold halves of a character, which no tokenizer takes; one for one, so that offsets stay.
_SURROGATE = re.compile("[\ud800-\udfff]")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
# Where an answer begins is stored in 32 bits.
_MOST_START: Final = 2**31
# What an answer takes besides its characters, in characters.
_ANSWER_CHARACTERS: Final = 8
_FIRST_TABLE: Final = 1 << 20
_HASH_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Question:
    """A question; `answers` are texts and where each begins in the context, in characters."""

    id: str
    text: str
    answers: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Paragraph:
    context: str
    questions: list[Question]

    @property
    def size(self) -> int:
        """Characters, which units are cut by."""
        return len(self.context) + sum(len(question.text) for question in self.questions)

    @property
    def answer_size(self) -> int:
        """Characters of the answers, and as much as a short one for each."""
        return sum(
            _ANSWER_CHARACTERS + len(text) for question in self.questions for text, _ in question.answers
        )


def squad_paragraphs(file: ByteReader, name: str, longest: int | None = None) -> Iterator[Paragraph]:
    """The paragraphs of a SQuAD file; RecordTooLong for one above `longest` characters."""
    for number, raw in enumerate(read_paragraphs(file, name, longest), 1):
        where = f"`{name}`, paragraph {number:,}"
        context, entries = raw.get("context"), raw.get("qas", [])
        if not isinstance(context, str) or not isinstance(entries, list):
            raise InputError(
                f"{where}: `context` is not a string, or `qas` is not a list",
                hint="see docs/qa.md for the format",
            )
        for first in range(0, len(entries), MOST_QUESTIONS):
            some = entries[first : first + MOST_QUESTIONS]
            yield Paragraph(_whole(context), [_question(entry, where) for entry in some])


def line_paragraphs(file: ByteReader, name: str, longest: int | None = None) -> Iterator[Paragraph]:
    """The paragraphs of JSON lines; RecordTooLong for a line above `longest` bytes."""
    return grouped(_json_lines(file, name, longest), name)


def grouped(rows: Iterable[Mapping[str, Any]], name: str) -> Iterator[Paragraph]:
    """Rows of {id, question, context, answers}; consecutive rows on the same context are one paragraph."""
    context: str | None = None
    questions: list[Question] = []
    for number, row in enumerate(rows, 1):
        where = f"`{name}`, row {number:,}"
        this = row.get("context")
        if not isinstance(this, str):
            raise InputError(
                f"{where}: `context` is `{repr(this)[:60]}`, not a string",
                hint="each line needs id, question, context and answers",
            )
        if questions and (this != context or len(questions) == MOST_QUESTIONS):
            assert context is not None
            yield Paragraph(_whole(context), questions)
            questions = []
        if "answers" not in row:
            raise InputError(
                f"{where} has no key `answers`", hint="write `answers: []` where a question has none"
            )
        context = this
        questions.append(_question(row, where))
    if context is not None:
        yield Paragraph(_whole(context), questions)


def first_questions(paragraphs: Iterable[Paragraph], most: int | None) -> Iterator[Paragraph]:
    if most is None:
        yield from paragraphs
        return
    left = most
    for paragraph in paragraphs:
        if left <= 0:
            return
        if len(paragraph.questions) > left:
            paragraph = Paragraph(paragraph.context, paragraph.questions[:left])
        left -= len(paragraph.questions)
        yield paragraph


def _line_batches(file: ByteReader, name: str, longest: int | None) -> Iterator[list[bytes]]:
    begun: list[bytes] = []  # the line that has not ended, in pieces, as it may be long
    size = number = 0
    while data := file.read(READ_BYTES):
        if number == 0 and size == 0:
            data = data.removeprefix(_BYTE_ORDER_MARK)
        first, *lines = data.split(b"\n")
        begun.append(first)
        size += len(first)
        if longest is not None and size > longest:
            there = 0 if lines else rest_of_line(file)
            raise RecordTooLong(f"`{name}`, line {number + 1:,}", size + there)
        if lines:
            rest = lines.pop()
            yield [b"".join(begun), *lines]
            number += 1 + len(lines)
            begun, size = [rest], len(rest)
    yield [b"".join(begun)]


def _json_lines(file: ByteReader, name: str, longest: int | None) -> Iterator[dict[str, Any]]:
    number = 0
    for lines in _line_batches(file, name, longest):
        for line in lines:
            number += 1
            if not line.strip():
                continue
            try:
                row = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise InputError(
                    f"`{name}`, line {number:,} is not JSON: {error.msg}",
                    hint="fix the line or remove it; a SQuAD file should end in `.json`",
                ) from None
            if not isinstance(row, dict):
                raise InputError(
                    f"`{name}`, line {number:,} is not an object",
                    hint="each line needs id, question, context and answers",
                )
            yield row


def _question(entry: Any, where: str) -> Question:
    try:
        number, text, answers = entry["id"], entry["question"], entry.get("answers")
        has_none = not answers or entry.get("is_impossible") is True
        pairs = () if has_none else _answers(answers)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        missing = f"no key {error}" if isinstance(error, KeyError) else str(error)
        raise InputError(
            f"{where}: a question can't be read: {missing}",
            hint="a question needs id, question and answers with text and answer_start",
        ) from None
    if (
        type(number) not in (str, int)
        or not isinstance(text, str)
        or not all(isinstance(answer, str) and _is_start(start) for answer, start in pairs)
    ):
        raise InputError(
            f"{where}: the question `{number}` has an id, a text or an answer of another type than it should",
            hint="id, question and text are strings, answer_start is a number of characters",
        )
    found = Question(str(number), text, pairs)
    return found if _is_whole(found) else _made_whole(found)


def _answers(answers: Any) -> tuple[tuple[str, int], ...]:
    """Both forms: a list of answers, or lists of their texts and starts."""
    if not isinstance(answers, dict):
        return tuple((answer["text"], answer["answer_start"]) for answer in answers)
    texts, starts = answers["text"], answers["answer_start"]
    if len(texts) != len(starts):
        raise ValueError(f"`answers` has {len(texts)} of `text` and {len(starts)} of `answer_start`")
    return tuple(zip(texts, starts, strict=True))


def _is_start(value: object) -> bool:
    return type(value) is int and -_MOST_START <= value < _MOST_START


def _is_whole(question: Question) -> bool:
    together = "".join([question.id, question.text, *(text for text, _ in question.answers)])
    return together.isascii() or not _SURROGATE.search(together)


def _made_whole(question: Question) -> Question:
    answers = tuple((_whole(text), start) for text, start in question.answers)
    return Question(_whole(question.id), _whole(question.text), answers)


def _whole(text: str) -> str:
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


class SeenIds:
    """Ids of earlier questions, in at most `most_bytes` bytes: a 128-bit hash of each, and a table of them
    that doubles when it is full."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._hashes: list[npt.NDArray[np.uint64]] = []
        self._table = _native.HashSet(_FIRST_TABLE)

    @staticmethod
    def bytes_for(ids: int) -> int:
        """Memory for so many ids: their hashes, and a table of two to four times their size."""
        return 2 * _FIRST_TABLE + ids * _HASH_BYTES * 4

    def add(self, ids: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Whether each of the ids is new."""
        hashes = _native.hash_documents(*text_buffers(text_column_of(ids)))
        if len(self._table) + len(hashes) > self._table.max_keys:
            self._grow(len(self._table) + len(hashes))
        new = self._table.insert(hashes).astype(bool)
        self._hashes.append(hashes if new.all() else hashes[new])
        return new

    def _grow(self, keys: int) -> None:
        size = self._table.nbytes
        per_key = size / self._table.max_keys
        while size / per_key < keys:
            size *= 2
        held = keys * _HASH_BYTES
        if size + held > self._most:
            raise BudgetError(
                f"the ids of {keys:,} questions take {size + held:,} bytes,"
                f" and the budget leaves {self._most:,}",
                hint="give more --memory",
            )
        self._table = _native.HashSet(size)
        for hashes in self._hashes:
            self._table.insert(hashes)
