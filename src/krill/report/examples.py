"""Examples of dropped documents that a run has kept, and near-duplicates side by side.

In: `examples.jsonl` of a run. Out: texts for a page, with what differs marked. Held in memory: the file,
which a run bounds at 20 examples of 2 kB for each reason, and its texts.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from markupsafe import escape as escape_html

from krill.errors import escape
from krill.report.figures import Figures
from krill.report.parts import Beside, HeadedText, MarkedText, Part, Texts, percent
from krill.report.runs import ReportedRun

EXAMPLES: Final = "examples.jsonl"
_MOST_BYTES: Final = 16_000_000
# Bytes around a piece of text in the page.
_TAGS: Final = 40
_LONGEST: Final = 2048
# What is the same in all texts is cut to so many characters before and after what differs.
_CONTEXT: Final = 200
# As many characters that are the same are no coincidence.
_SAME_AGAIN: Final = 20
_MOST_PAIRS: Final = 20
_MOST_COPIES: Final = 3


def read_examples(run: ReportedRun) -> list[Figures] | None:
    """The examples in the file's order; None where the run kept none. Lines that are damaged are left out."""
    content = run.files.read(EXAMPLES, _MOST_BYTES)
    if content is None:
        return None
    found = []
    for line in content.splitlines():
        try:
            value: Any = orjson.loads(line)
        except orjson.JSONDecodeError:
            run.figures.note(f"a line of `{EXAMPLES}` is not JSON")
            continue
        example = Figures(value)
        if example.text("text") is not None and example.text("reason") is not None:
            found.append(example)
    return found


def example_parts(
    examples: Sequence[Figures], dropped: Mapping[str, int], describe: Callable[[str], str], room: int
) -> Iterator[Part]:
    """Examples by reason in the order of `dropped`, each behind a line that is opened: of each reason as many
    as fit its part of `room` bytes."""
    reasons: dict[str, list[Figures]] = {reason: [] for reason in dropped}
    for example in examples:
        if not example.inner("kept", wanted=False):
            reasons.setdefault(example.text("reason") or "", []).append(example)
    reasons = {reason: found for reason, found in reasons.items() if found}
    for reason, found in reasons.items():
        all_texts = [HeadedText(place_of(example), [MarkedText(_text_of(example))]) for example in found]
        texts = list(_fitting(([text] for text in all_texts), room // len(reasons)))
        of = dropped.get(reason, len(found))
        yield Texts(
            f"{describe(reason)}: {len(texts)} of {of:,} document{'' if of == 1 else 's'}",
            [text for group in texts for text in group],
        )


def duplicate_parts(examples: Sequence[Figures], room: int) -> Iterator[Part]:
    """What was kept beside what was dropped for it, as many as fit `room` bytes: first the largest clusters
    that the run has, then pairs, those first of which most of the examples are copies."""
    clusters: dict[str, _Copies] = {}
    for example in sorted(examples, key=lambda each: each.count("cluster", wanted=False) is None):
        kept = example.inner("kept", wanted=False)
        if not kept:
            continue
        found = clusters.setdefault(place_of(kept), _Copies(kept))
        found.size = max(found.size, example.count("cluster", wanted=False) or 0)
        # One of the examples by hash may be among the first of a large cluster.
        same = (place_of(example), _text_of(example))
        if all(same != (place_of(other), _text_of(other)) for other in found.dropped):
            found.dropped.append(example)
    ordered = sorted(clusters.values(), key=lambda found: (-found.size, -len(found.dropped)))
    ordered = ordered[: _MOST_PAIRS + sum(found.size > 0 for found in ordered)]
    beside = (found.side_by_side() for found in ordered)
    for texts, found, place in zip(_fitting(beside, room), ordered, itertools.count(1), strict=False):
        yield Beside(f"{found.describe(place)}: {found.difference()}", texts)


@dataclass(slots=True)
class _Copies:
    """A kept document, and examples of what was dropped for it; `size` where its cluster is one of the
    largest."""

    kept: Figures
    dropped: list[Figures] = field(default_factory=list)
    size: int = 0

    def describe(self, place: int) -> str:
        copies = len(self.dropped)
        if self.size:
            return f"Cluster {place}, {self.size:,} documents"
        return f"Pair {place}" if copies == 1 else f"Cluster {place}, {copies} of its copies"

    def difference(self) -> str:
        """How far its texts are the same, in a few words."""
        pieces = [piece for side in self._marked() for piece in side]
        differing = sum(len(piece.text) for piece in pieces if piece.mark)
        if differing:
            return f"{percent(differing / sum(len(piece.text) for piece in pieces))} of the characters differ"
        if self._whole():
            return "the texts are equal"
        return "no difference in the first 2 kB, which are what the run keeps of an example"

    def side_by_side(self) -> list[HeadedText]:
        """What was kept beside what was dropped; of equal texts one."""
        dropped = (f"dropped: {place_of(example)}" for example in self._shown())
        places, sides = [f"kept: {place_of(self.kept)}", *dropped], self._marked()
        if not any(piece.mark for side in sides for piece in side):
            return [HeadedText("; ".join(places), sides[0])]
        return [HeadedText(place, _cut_equal(pieces)) for place, pieces in zip(places, sides, strict=True)]

    def _shown(self) -> Sequence[Figures]:
        return self.dropped[:_MOST_COPIES]

    def _marked(self) -> list[list[MarkedText]]:
        sides = marked(_text_of(self.kept), *map(_text_of, self._shown()))
        return sides if self._whole() else [_without_end(pieces) for pieces in sides]

    def _whole(self) -> bool:
        """Whether the run kept all of its texts."""
        return all(_is_whole(example) for example in (self.kept, *self._shown()))


def _without_end(pieces: Sequence[MarkedText]) -> list[MarkedText]:
    """Unmarked at its end: of texts that were cut, the end of one may be behind that of another."""
    found, seen = list(pieces), 0
    for place in reversed(range(len(found))):
        seen += len(found[place].text)
        if seen > _CONTEXT or (not found[place].mark and len(found[place].text) >= _SAME_AGAIN):
            break
        found[place] = MarkedText(found[place].text)
    return found


def _cut_equal(pieces: Sequence[MarkedText]) -> list[MarkedText]:
    """What is marked, with as much before and after it as tells where it stands."""
    found = []
    for place, piece in enumerate(pieces):
        before = _CONTEXT if place else 0
        after = _CONTEXT if place < len(pieces) - 1 else 0
        left_out = len(piece.text) - before - after
        if piece.mark or left_out < _CONTEXT or not before + after:
            found.append(piece)
            continue
        beginning, end = piece.text[:before], piece.text[len(piece.text) - after :]
        found.append(MarkedText(f"{beginning} [... {left_out:,} equal characters ...] {end}".strip(" ")))
    return found


def _fitting(groups: Iterable[list[HeadedText]], room: int) -> Iterator[list[HeadedText]]:
    """The first of some groups of texts, as long as the page has room for them."""
    for texts in groups:
        room -= sum(
            _TAGS + len(escape_html(escape(piece.text)).encode()) for text in texts for piece in text.pieces
        )
        if room < 0:
            return
        yield texts


def marked(kept: str, *others: str) -> list[list[MarkedText]]:
    """All texts in pieces: marked is what the first has and not every other, and what they have beyond it."""
    words, *rest = (re.findall(r"\w+|\s+|[^\w\s]", text) for text in (kept, *others))
    common = [common_words(words, own) for own in rest]
    everywhere = set(range(len(words))).intersection(*common)
    sides = [_marked_words(words, everywhere, "removed")]
    for own, places in zip(rest, common, strict=True):
        sides.append(_marked_words(own, set(places.values()), "added"))
    return sides


def _marked_words(words: Sequence[str], common: Set[int], mark: str) -> list[MarkedText]:
    runs = itertools.groupby(enumerate(words), key=lambda item: item[0] in common)
    return [MarkedText("".join(word for _, word in run), "" if both else mark) for both, run in runs]


def common_words(left: Sequence[str], right: Sequence[str]) -> dict[int, int]:
    """A longest common subsequence: places in `left`, and where the same words are in `right`.

    By the bits of one number (Hyyrö 2004): a few operations for each word, whatever the texts are. The
    matcher of `difflib` takes 11 s for two kilobytes of repeated words, this 2 ms.
    """
    places: dict[str, int] = {}
    for place, word in enumerate(left):
        places[word] = places.get(word, 0) | 1 << place
    row, rows = (1 << len(left)) - 1, []
    for word in right:
        equal = row & places.get(word, 0)
        row = ((row + equal) | (row - equal)) & ((1 << len(left)) - 1)
        rows.append(row)
    found: dict[int, int] = {}
    column, line = len(left), len(right)
    while line and column:
        if rows[line - 1] >> (column - 1) & 1:
            column -= 1
        else:
            line -= 1
            if not line or rows[line - 1] >> (column - 1) & 1:
                column -= 1
                found[column] = line
    return found


def place_of(example: Figures) -> str:
    """Where a document stood, in a few words."""
    file, position = example.text("file", wanted=False), example.count("position", wanted=False)
    language, length = example.text("language", wanted=False), example.count("bytes", wanted=False)
    found = [file or "an unknown file"]
    found += [] if position is None else [f"at {position:,}"]
    found += [] if language is None else [f"language {language}"]
    found += [] if length is None else [f"{length:,} bytes"]
    return ", ".join(found)


def _is_whole(example: Figures) -> bool:
    """Whether the run kept all of its text."""
    size = example.count("bytes", wanted=False)
    return size is None or len((example.text("text", wanted=False) or "").encode(errors="replace")) == size


def _text_of(example: Figures) -> str:
    text = example.text("text", wanted=False) or ""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
