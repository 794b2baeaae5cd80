"""The slow, obvious quality filters that the native ones are held to.

In: a text and a filter's section. Out: a `Verdict`: why the document goes, if it does, the text that is left,
and what was measured up to there. Held in memory: the words of one document, and its n-grams.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from word_traits import SYMBOLS, TERMINAL

from krill.config.filters import (
    C4,
    FineWeb,
    GopherQuality,
    GopherRepetition,
    RepeatedLines,
    RepeatedParagraphs,
)
from oracles.words import reference_sentences, reference_words

_CITATION = re.compile(r"\[\d*]|\[edit]|\[citation needed]")
_POLICY = ("terms of use", "privacy policy", "cookie policy", "uses cookies", "use of cookies", "use cookies")

Rules = Iterator[tuple[str, float, bool]]
"""Name of the reason, value, and whether it breaks the rule; in the order of judgement."""


@dataclass
class Verdict:
    """What a filter makes of a document. A reason of None keeps it."""

    text: str
    reason: str | None = None
    values: list[float] = field(default_factory=list)


def reference_filter(text: str, section: Any) -> Verdict:
    """One document judged by one filter."""
    if isinstance(section, C4):
        return _c4(text, section)
    if isinstance(section, RepeatedLines | RepeatedParagraphs):
        return _without_repeated(text, section)
    rules: dict[type, Callable[[str, Any], Rules]] = {
        GopherQuality: _gopher_quality,
        GopherRepetition: _gopher_repetition,
        FineWeb: _fineweb,
    }
    verdict = Verdict(text)
    for reason, value, broken in rules[type(section)](text, section):
        verdict.values.append(value)
        if broken:
            verdict.reason = reason
            break
    return verdict


def _gopher_quality(text: str, limits: GopherQuality) -> Rules:
    words = reference_words(text)
    lines = text.splitlines()
    real_words = [word for word in words if any(c not in SYMBOLS for c in word)]
    if not words:
        yield "gopher_short_doc", 0, True
    yield "gopher_short_doc", len(real_words), len(real_words) < (limits.min_doc_words or 0)
    yield "gopher_long_doc", len(real_words), 0 < (limits.max_doc_words or 0) < len(real_words)
    mean = sum(map(len, real_words)) / len(real_words) if real_words else float("nan")
    yield "gopher_below_avg_threshold", mean, mean < (limits.min_avg_word_length or 0)
    yield "gopher_above_avg_threshold", mean, mean > (limits.max_avg_word_length or math.inf)
    hashes = text.count("#") / len(words)
    yield "gopher_too_many_hashes", hashes, 0 < (limits.max_symbol_word_ratio or 0) < hashes
    ellipses = (text.count("...") + text.count("…")) / len(words)
    yield "gopher_too_many_ellipsis", ellipses, 0 < (limits.max_symbol_word_ratio or 0) < ellipses
    bullets = sum(line.lstrip().startswith(("•", "-")) for line in lines) / len(lines)
    yield "gopher_too_many_bullets", bullets, 0 < (limits.max_bullet_lines_ratio or 0) < bullets
    ends = sum(line.rstrip().endswith(("...", "…")) for line in lines) / len(lines)
    yield "gopher_too_many_end_ellipsis", ends, 0 < (limits.max_ellipsis_lines_ratio or 0) < ends
    lettered = sum(any(map(str.isalpha, word)) for word in words) / len(words)
    yield "gopher_below_alpha_threshold", lettered, lettered < (limits.max_non_alpha_words_ratio or 0)
    stop_words = len(set(limits.stop_words) & set(words))
    yield "gopher_enough_stop_words", stop_words, stop_words < (limits.min_stop_words or 0)


def _gopher_repetition(text: str, limits: GopherRepetition) -> Rules:
    if not text:
        yield "gopher_empty", 0, True
    paragraphs = re.split(r"\n{2,}", text.strip())
    pieces, characters = _repeats(paragraphs)
    share = pieces / len(paragraphs)
    yield "gopher_dup_para_frac", share, 0 < (limits.dup_para_frac or 0) < share
    share = characters / len(text)
    yield "gopher_dup_para_char_frac", share, 0 < (limits.dup_para_char_frac or 0) < share
    lines = re.split("\n+", text)
    pieces, characters = _repeats(lines)
    share = pieces / len(lines)
    yield "gopher_dup_line_frac", share, 0 < (limits.dup_line_frac or 0) < share
    share = characters / len(text)
    yield "gopher_dup_line_char_frac", share, 0 < (limits.dup_line_char_frac or 0) < share
    words = reference_words(text)
    for n, limit in limits.top_n_grams:
        share = _top(words, n) / len(text)
        yield f"gopher_top_{n}_gram", share, share > limit
    for n, limit in limits.dup_n_grams:
        share = _repeated_n_grams(words, n) / len(text)
        yield f"gopher_duplicated_{n}_n_grams", share, share > limit


def _fineweb(text: str, limits: FineWeb) -> Rules:
    lines = [line for line in text.split("\n") if line.strip()]
    if not lines:
        yield "fineweb_empty", 0, True
    stops = tuple(TERMINAL) if limits.stop_chars is None else limits.stop_chars
    punctuated = sum(line.endswith(stops) for line in lines) / len(lines)
    spared = punctuated == 0 and limits.line_punct_exclude_zero
    yield "fineweb_line_punct_ratio", punctuated, punctuated < limits.line_punct_thr and not spared
    short = sum(len(line) <= limits.short_line_length for line in lines) / len(lines)
    yield "fineweb_short_line_ratio", short, short > limits.short_line_thr
    newlines = text.count("\n")
    repeated = _repeats(lines)[1] / (len(text) - newlines)
    yield "fineweb_char_dup_ratio", repeated, repeated > limits.char_duplicates_ratio
    per_word = newlines / len(reference_words(text))
    yield "fineweb_list_ratio", per_word, per_word > limits.new_line_ratio


def _repeats(pieces: Sequence[str]) -> tuple[int, int]:
    """How many pieces stood before, and the characters of those."""
    again = [piece for number, piece in enumerate(pieces) if pieces.index(piece) < number]
    return len(again), sum(map(len, again))


def _top(words: Sequence[str], n: int) -> int:
    """Characters of the most frequent n words in a row, all occurrences together; of equals the first."""
    grams = Counter(" ".join(words[at : at + n]) for at in range(len(words) - n + 1))
    return sum(len(gram) * count for gram, count in grams.most_common(1))


def _repeated_n_grams(words: Sequence[str], n: int) -> int:
    """Characters of n words in a row, written together, that stood before; then on behind them."""
    seen: set[str] = set()
    characters = at = 0
    while at + n <= len(words):
        gram = "".join(words[at : at + n])
        if gram in seen:
            characters += len(gram)
            at += n
        else:
            seen.add(gram)
            at += 1
    return characters


def _c4(text: str, rules: C4) -> Verdict:
    kept: list[str] = []
    removed = sentences = 0
    for raw in text.splitlines() if rules.split_paragraph else reference_sentences(text):
        line = raw.strip()
        words = line.split()
        without = _CITATION.sub("", line) if rules.remove_citations else line
        low = without.lower()
        punctuated = without.endswith((".", "?", "!", '"', "'")) and not without.endswith("...")
        if (
            (rules.max_word_length != -1 and any(len(word) > rules.max_word_length for word in words))
            or (rules.filter_no_terminal_punct and not punctuated)
            or len(words) < rules.min_words_per_line
        ):
            removed += 1
        elif rules.filter_lorem_ipsum and "lorem ipsum" in low:
            return Verdict(text, "c4_lorem_ipsum")
        elif rules.filter_javascript and "javascript" in low:
            removed += 1
        elif rules.filter_curly_bracket and "{" in without:
            return Verdict(text, "c4_curly_bracket")
        elif rules.filter_policy and any(phrase in low for phrase in _POLICY):
            removed += 1
        else:
            sentences += len(reference_sentences(without)) if rules.split_paragraph else 1
            kept.append(without)
    if sentences < rules.min_num_sentences:
        return Verdict(text, "c4_too_few_sentences", [removed, sentences])
    left = ("\n" if rules.split_paragraph else " ").join(kept).strip()
    return Verdict(left, None, [removed, sentences])


def _without_repeated(text: str, section: RepeatedLines | RepeatedParagraphs) -> Verdict:
    first, *rest = re.split("(\n)" if isinstance(section, RepeatedLines) else "(\n{2,})", text)
    seen = {first}
    kept = [first]
    removed = 0
    for newlines, piece in zip(rest[::2], rest[1::2], strict=True):
        if piece in seen and len(piece.strip()) >= max(section.min_chars, 1):
            removed += 1
        else:
            kept += (newlines, piece)
        seen.add(piece)
    return Verdict("".join(kept), None, [removed])
