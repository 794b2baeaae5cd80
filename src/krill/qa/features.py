"""Features of some paragraphs, as the tables of one unit.

In: paragraphs and a tokenizer. Out: a `FeatureUnit`, and what was counted on the way. Held in
memory: the paragraphs, their tokens and spans, and a few numbers for each feature.

Each paragraph is tokenised once for all of its questions, and everything after that is done in columns.
`tests/oracles/qa.py` does the same one feature at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from krill.corpus.buffers import offsets_of, text_column_of
from krill.errors import ConfigError
from krill.qa.answers import (
    NOT_FOUND,
    Answer,
    ContextWindows,
    choose_answer,
    compose,
    find_spans,
    find_windows,
)
from krill.qa.encoding import QaTokenizer
from krill.qa.examples import Paragraph, Question
from krill.qa.layout import FeatureLayout
from krill.qa.tables import (
    EncodedSpans,
    Examples,
    Features,
    FeatureUnit,
    Lists,
    Numbers,
    Paragraphs,
    inexact_spans,
    number_list_column,
    text_list_column,
)

QUESTION_TOO_LONG: Final = "questions_too_long"
EMPTY_CONTEXT: Final = "empty_contexts"
INEXACT: Final = "spans_not_exact"
# Of examples whose tokens don't begin and end with the answer, so many are named.
MOST_LISTED: Final = 20

OnMissing = Literal["no_answer", "drop"]


@dataclass(frozen=True, slots=True)
class Shape:
    """How features are cut. `max_n_segs` windows of an example are kept, None = all."""

    max_seq_length: int = 384
    doc_stride: int = 128
    max_n_segs: int | None = None
    on_missing: OnMissing = "no_answer"

    def check(self, layout: FeatureLayout) -> None:
        room = self.max_seq_length - layout.fixed
        if room < 2:
            raise ConfigError(
                f"`max_seq_length` is `{self.max_seq_length}`, and the tokenizer puts {layout.fixed} special"
                " tokens into each feature",
                hint="give a larger max_seq_length, or fewer memory tokens",
            )
        if not 0 <= self.doc_stride < room:
            raise ConfigError(
                f"`doc_stride` is `{self.doc_stride}`, but a window holds {room} tokens at most: the overlap"
                " must be smaller",
                hint=f"give a doc_stride from 0 to {room - 1}, or a larger max_seq_length",
            )
        if self.max_n_segs is not None and self.max_n_segs < 1:
            raise ConfigError(
                f"`max_n_segs` (--max-segments) is `{self.max_n_segs}`",
                hint="give a number from 1 on, or leave it out to keep all windows",
            )
        if self.on_missing not in ("no_answer", "drop"):
            raise ConfigError(f"`on_missing` is `{self.on_missing}`", hint='give "no_answer" or "drop"')


@dataclass(frozen=True, slots=True)
class MadeUnit:
    """A unit, counts by reason, and some examples whose tokens are not exactly the answer."""

    unit: FeatureUnit
    counts: dict[str, int]
    inexact: list[str]


@dataclass(frozen=True, slots=True)
class _Asked:
    question: Question
    paragraph: int
    answer: Answer


def make_unit(paragraphs: Sequence[Paragraph], tokenizer: QaTokenizer, shape: Shape) -> MadeUnit:
    counts: Counter[str] = Counter()
    asked = _choose_answers(paragraphs, shape, counts)
    contexts = _encode_contexts(paragraphs, tokenizer)
    questions = tokenizer.encoder.encode([compose(one.question.text.lstrip()).text for one in asked])
    of = np.array([one.paragraph for one in asked], np.int64)
    windows = find_windows(
        questions.lengths,
        contexts.lengths[of] if len(of) else of,
        room=shape.max_seq_length - tokenizer.layout.fixed,
        stride=shape.doc_stride,
        most=shape.max_n_segs,
    )
    begins = np.array([one.answer.begin for one in asked], np.int64)
    ends = np.array([one.answer.end for one in asked], np.int64)
    spans = find_spans(windows, contexts, of, begins, ends)
    kept = np.flatnonzero(windows.counts)
    unit = FeatureUnit(
        _paragraph_table(paragraphs, contexts),
        _example_table([asked[number] for number in kept], _pick(questions, kept), windows),
        _feature_table(windows, *spans, kept),
    )
    inexact = [span.example_id for span in inexact_spans(unit, tokenizer.space_ids)]
    counts.update(_count(paragraphs, windows, len(inexact)))
    return MadeUnit(unit, dict(counts), inexact[:MOST_LISTED])


def _choose_answers(paragraphs: Sequence[Paragraph], shape: Shape, counts: Counter[str]) -> list[_Asked]:
    asked = []
    for number, paragraph in enumerate(paragraphs):
        context = paragraph.context
        for question in paragraph.questions:
            answer = choose_answer(context, question.answers)
            if answer.note is not None:
                counts[answer.note] += 1
                if answer.note == NOT_FOUND and shape.on_missing == "drop":
                    continue
            asked.append(_Asked(question, number, answer))
    return asked


def _encode_contexts(paragraphs: Sequence[Paragraph], tokenizer: QaTokenizer) -> EncodedSpans:
    """Tokens of the contexts in normal form C, with the spans that they have in the original."""
    composed = [compose(paragraph.context) for paragraph in paragraphs]
    encoded = tokenizer.encoder.encode_spans([text.text for text in composed])
    changed = [number for number, text in enumerate(composed) if text.begins is not None]
    if not changed:
        return encoded
    spans = encoded.spans.copy()
    for number in changed:
        own = slice(encoded.starts[number], encoded.starts[number + 1])
        spans[own] = composed[number].original_spans(spans[own])
    return EncodedSpans(encoded.values, encoded.starts, spans)


def _count(paragraphs: Sequence[Paragraph], windows: ContextWindows, inexact: int) -> dict[str, int]:
    found = {
        EMPTY_CONTEXT: sum(not paragraph.context.strip() for paragraph in paragraphs),
        QUESTION_TOO_LONG: int((windows.counts == 0).sum()),
        INEXACT: inexact,
    }
    return {reason: count for reason, count in found.items() if count}


def _paragraph_table(paragraphs: Sequence[Paragraph], contexts: EncodedSpans) -> Paragraphs:
    return Paragraphs(
        text_column_of(paragraph.context for paragraph in paragraphs),
        contexts,
        Lists(contexts.spans.reshape(-1), 2 * contexts.starts),
    )


def _example_table(asked: Sequence[_Asked], tokens: Lists, windows: ContextWindows) -> Examples:
    return Examples(
        text_column_of(one.question.id for one in asked),
        text_column_of(one.question.text for one in asked),
        tokens,
        np.array([one.paragraph for one in asked], np.int32),
        windows.counts[windows.counts > 0].astype(np.int32),
        text_column_of(one.answer.text for one in asked),
        np.array([one.answer.begin for one in asked], np.int32),
        np.array([one.answer.end for one in asked], np.int32),
        text_list_column([[text for text, _ in one.question.answers] for one in asked]),
        number_list_column([[start for _, start in one.question.answers] for one in asked]),
    )


def _feature_table(
    windows: ContextWindows, first: Numbers, last: Numbers, kept: npt.NDArray[np.intp]
) -> Features:
    row_of = np.zeros(len(windows.counts), np.int64)
    row_of[kept] = np.arange(len(kept))
    columns = (row_of[windows.example], windows.segment, windows.begin, windows.length, first, last)
    return Features(*(column.astype(np.int32) for column in columns))


def _pick(lists: Lists, kept: npt.NDArray[np.intp]) -> Lists:
    if len(kept) == len(lists.starts) - 1:
        return lists
    chosen = [lists[number] for number in kept.tolist()]
    values = np.concatenate(chosen) if chosen else lists.values[:0]
    return Lists(values, offsets_of([len(one) for one in chosen]))
