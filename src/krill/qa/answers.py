"""Answers and windows: which answer is taught, and between which tokens of which windows it stands.

In: contexts, answers as given, and the spans of tokens. Out: for each question the chosen answer,
the windows over its context, and for each window the first and last token of the answer. Held in memory: a
few numbers for each token of a unit.

Tokenizers get texts in normal form C (`compose`): composition happens inside clusters, a character and those
after it that may join it. Clusters are composed one by one, so each new character belongs to one cluster of
the original; two numbers for each character say which, and only where the text changes.

The first answer is chosen, as in Hugging Face's scripts. It stands where it is said to stand, or else at its
occurrence nearest to there; where it does not occur at all, the question counts as one without an answer.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from krill.qa.tables import NOWHERE, EncodedSpans

MOVED: Final = "answers_moved"
NOT_FOUND: Final = "answers_not_in_context"
# So many tokens are searched at a time, or one paragraph.
SEARCHED_TOKENS: Final = 1 << 16
# Vowels and final consonants of Hangul compose by rule, not by table.
_HANGUL: Final = [*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)]

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer that is taught: characters of the original context; `note` is a reason to count, or None."""

    text: str
    begin: int
    end: int
    note: str | None = None


NO_ANSWER: Final = Answer("", NOWHERE, NOWHERE)


def choose_answer(context: str, answers: Sequence[tuple[str, int]]) -> Answer:
    if not answers:
        return NO_ANSWER
    text, start = answers[0]
    if text and start >= 0 and context.startswith(text, start):
        return Answer(text, start, start + len(text))
    begin = nearest(context, text, start)
    if begin != NOWHERE:
        return Answer(text, begin, begin + len(text), MOVED)
    return _composed_answer(context, text, start)


def nearest(context: str, text: str, start: int) -> int:
    """Where `text` occurs nearest to `start`, the earlier of two that are as near; -1 if nowhere."""
    if not text:
        return NOWHERE
    start = min(max(start, 0), len(context))
    before = context.rfind(text, 0, start + len(text))
    after = context.find(text, start)
    if before == NOWHERE or after == NOWHERE:
        return max(before, after)
    return before if start - before <= after - start else after


def _composed_answer(context: str, text: str, start: int) -> Answer:
    """The same where context and answer spell the same letters with different characters."""
    composed, wanted = compose(context), unicodedata.normalize("NFC", text)
    near = len(unicodedata.normalize("NFC", context[: max(start, 0)]))
    begin = nearest(composed.text, wanted, near)
    if begin == NOWHERE:
        return Answer("", NOWHERE, NOWHERE, NOT_FOUND)
    span = composed.original_spans(np.array([[begin, begin + len(wanted)]], np.int32))[0].tolist()
    return Answer(context[span[0] : span[1]], span[0], span[1], None if begin == near else MOVED)


@dataclass(frozen=True, slots=True)
class ContextWindows:
    """One entry for each window; `example` rises, and `segment` counts from 0 in each example."""

    example: Numbers
    segment: Numbers
    begin: Numbers
    length: Numbers
    counts: Numbers
    """Windows of each example; 0 where the question leaves no room."""


def find_windows(
    questions: Numbers, contexts: Numbers, *, room: int, stride: int, most: int | None
) -> ContextWindows:
    """As Hugging Face's `return_overflowing_tokens` with truncation of the context alone: each window has as
    many tokens as the question leaves room for, the next one begins so that `stride` tokens are in both, and
    the last is the first that reaches the end.

    `questions` and `contexts` are numbers of tokens, `room` is what fixed tokens leave of a feature; `most`
    windows of an example are kept, None = all.
    """
    rooms = room - questions
    fits = contexts <= rooms
    steps = np.where(fits, 1, rooms - stride)
    possible = fits | ((rooms > 0) & (steps > 0))
    # Of a context that fits there is one window, whatever the room.
    beyond = np.where(fits, 0, contexts - rooms)
    counts = np.where(possible, 1 - (-beyond // np.maximum(steps, 1)), 0)
    if most is not None:
        counts = np.minimum(counts, most)
    example = np.repeat(np.arange(len(counts)), counts)
    segment = np.arange(len(example)) - np.repeat(np.cumsum(counts) - counts, counts)
    begin = segment * steps[example]
    length = np.minimum(rooms[example], contexts[example] - begin)
    return ContextWindows(example, segment, begin, length, counts)


def find_spans(
    windows: ContextWindows, contexts: EncodedSpans, paragraph: Numbers, begins: Numbers, ends: Numbers
) -> tuple[Numbers, Numbers]:
    """For each window the first and last token of the answer, counted from the window's begin; or -1, -1.
    `paragraph`, `begins` and `ends` have an entry for each example: its context, and its answer in it."""
    example = windows.example
    if not len(contexts.values):
        nowhere = np.full(len(example), NOWHERE, np.int64)
        return nowhere, nowhere
    low = contexts.starts[paragraph[example]] + windows.begin
    high = low + windows.length - 1
    inside = (begins[example] != NOWHERE) & (windows.length > 0)
    low, high = np.where(inside, low, 0), np.where(inside, high, 0)
    inside &= contexts.spans[low, 0] <= begins[example]
    inside &= contexts.spans[high, 1] >= ends[example]
    first, last = _tokens_of_answers(contexts, paragraph, begins, ends)
    first, last = np.clip(first[example], low, high), np.clip(last[example], low, high)
    return np.where(inside, first - low, NOWHERE), np.where(inside, last - low, NOWHERE)


def _tokens_of_answers(
    contexts: EncodedSpans, paragraph: Numbers, begins: Numbers, ends: Numbers
) -> tuple[Numbers, Numbers]:
    """First and last token of each answer; some paragraphs at a time, as a token takes 80 bytes meanwhile.

    Paragraphs come in order.
    """
    first, last = (np.zeros(len(paragraph), np.int64) for _ in range(2))
    starts = contexts.starts
    begin = 0
    while begin < len(starts) - 1:
        end = int(np.searchsorted(starts, starts[begin] + SEARCHED_TOKENS, side="right")) - 1
        end = max(end, begin + 1)
        some = EncodedSpans(
            contexts.values[:0],
            starts[begin : end + 1] - starts[begin],
            contexts.spans[starts[begin] : starts[end]],
        )
        own = slice(*np.searchsorted(paragraph, [begin, end]))
        if len(some.spans) and len(paragraph[own]):
            found = _tokens_at(some, paragraph[own] - begin, begins[own], ends[own])
            first[own], last[own] = found[0] + starts[begin], found[1] + starts[begin]
        begin = end
    return first, last


def _tokens_at(
    contexts: EncodedSpans, paragraph: Numbers, begins: Numbers, ends: Numbers
) -> tuple[Numbers, Numbers]:
    """The last token that begins where the answer does or before, and the first that ends where it does or
    after, as Hugging Face's scripts have it.

    Tokens may share a character, each with some bytes of it, and then these two cut it, and cross if it is
    all of the answer. What is crossed becomes all tokens of the character; what is only cut is counted
    later (`tables.inexact_spans`).
    """
    # One search for all: tokens of later paragraphs have larger keys.
    keys = contexts.spans + (np.repeat(np.arange(len(contexts.starts) - 1), contexts.lengths) << 32)[:, None]
    begin_keys = np.maximum.accumulate(keys[:, 0])
    end_keys = np.minimum.accumulate(keys[::-1, 1])[::-1]
    first = np.maximum(np.searchsorted(begin_keys, begins + (paragraph << 32), side="right") - 1, 0)
    last = np.minimum(np.searchsorted(end_keys, ends + (paragraph << 32), side="left"), len(keys) - 1)
    numbers = np.arange(len(keys))
    alike = np.append((keys[1:] == keys[:-1]).all(axis=1), False)
    first_alike = np.maximum.accumulate(np.where(np.roll(alike, 1), 0, numbers))[first]
    last_alike = np.minimum.accumulate(np.where(alike, len(keys), numbers)[::-1])[::-1][last]
    crossed = first > last
    return np.where(crossed, first_alike, first), np.where(crossed, last_alike, last)


@dataclass(frozen=True, slots=True)
class Composed:
    """A text in normal form C; `begins` and `ends` have a number for each character, None = unchanged."""

    text: str
    begins: npt.NDArray[np.int32] | None = None
    ends: npt.NDArray[np.int32] | None = None

    def original_spans(self, spans: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Begins and ends in the composed text, shape (n, 2), as those of the original."""
        if self.begins is None or self.ends is None or not len(self.text):
            return spans
        last = len(self.text) - 1
        begins = self.begins[np.minimum(spans[:, 0], last)]
        # An empty span stays empty, where the character after it begins.
        ends = np.where(spans[:, 1] > spans[:, 0], self.ends[np.maximum(spans[:, 1] - 1, 0)], begins)
        return np.stack([begins, ends], axis=1).astype(np.int32)


def compose(text: str) -> Composed:
    if unicodedata.is_normalized("NFC", text):
        return Composed(text)
    joining = _joining()
    parts: list[str] = []
    begins: list[int] = []
    ends: list[int] = []
    start = 0
    for end in range(1, len(text) + 1):
        if end < len(text) and text[end] in joining:
            continue
        cluster = text[start:end]
        composed = unicodedata.normalize("NFC", cluster)
        parts.append(composed)
        if composed == cluster:  # character by character
            begins += range(start, end)
            ends += range(start + 1, end + 1)
        else:
            begins += [start] * len(composed)
            ends += [end] * len(composed)
        start = end
    return Composed("".join(parts), np.array(begins, np.int32), np.array(ends, np.int32))


@cache
def _joining() -> frozenset[str]:
    """Characters that may join or reorder with what stands before them: 0.3 s to find, once."""
    found = {chr(code) for code in _HANGUL}
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        if unicodedata.combining(character):
            found.add(character)
        parts = unicodedata.decomposition(character)
        if parts and not parts.startswith("<"):
            codes = [int(part, 16) for part in parts.split()]
            found.update(map(chr, codes[1:]))
            # A character whose decomposition begins with a mark joins as the mark would.
            if unicodedata.combining(chr(codes[0])):
                found.add(character)
    return frozenset(found)
