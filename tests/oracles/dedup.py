"""The slow, obvious versions that fast ones are held to: exact dedup, MinHash's words and shingles, clusters,
lines and paragraphs."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence, Set

DIGIT = "0"
SIGMA = "\N{GREEK SMALL LETTER SIGMA}"
SEPARATORS = ".,\u060c\u066b\u2396\u2397\u2398"
"""What may stand once between the digits of one number."""


def reference_exact(units: Sequence[Sequence[bytes]]) -> list[list[bool]]:
    """For each unit, whether each of its hashes is the first of its kind in all units."""
    seen: set[bytes] = set()
    keep: list[list[bool]] = []
    for unit in units:
        flags = []
        for key in unit:
            flags.append(key not in seen)
            seen.add(key)
        keep.append(flags)
    return keep


def fold_character(character: str) -> str:
    """What a character is compared as: lower case, decomposed, without marks and invisible characters; a
    digit is `0`, and whitespace, punctuation, symbols and controls are a space."""
    lowered = character.lower()
    if len(lowered) == 1:
        kind = unicodedata.category(lowered)
        if kind == "Nd":
            return DIGIT
        if kind[0] in "PS" or kind == "Cc" or lowered.isspace():
            return " "
    decomposed = unicodedata.normalize("NFD", lowered).replace("\N{GREEK SMALL LETTER FINAL SIGMA}", SIGMA)
    return "".join(part for part in decomposed if unicodedata.category(part) not in ("Mn", "Cf"))


def reference_words(text: str) -> list[str]:
    """The words of a text as near-duplicates are looked for: each character folded, each number a 0."""
    out: list[str] = []
    at = 0
    while at < len(text):
        end = _number_end(text, at)
        if end > at:
            out.append(DIGIT)
            at = end
        else:
            out.append(fold_character(text[at]))
            at += 1
    return [word for word in "".join(out).split(" ") if word]


def _number_end(text: str, at: int) -> int:
    """Where the number at `at` ends: digits, and after one separator more digits; `at` if there is none."""
    end = _digits_end(text, at)
    if at < end < len(text) and text[end] in SEPARATORS:
        fraction = _digits_end(text, end + 1)
        return fraction if fraction > end + 1 else end
    return end


def _digits_end(text: str, at: int) -> int:
    while at < len(text) and unicodedata.category(text[at]) == "Nd":
        at += 1
    return at


def reference_shingles(text: str, ngram: int) -> set[tuple[str, ...]]:
    """The runs of `ngram` words of a text; all words if there are fewer, and the text itself if there are
    none."""
    words = reference_words(text)
    if not words:
        return {("", text)}
    if len(words) < ngram:
        return {tuple(words)}
    return {tuple(words[at : at + ngram]) for at in range(len(words) - ngram + 1)}


def reference_least_numbers(shingles: Iterable[int], permutations: int) -> list[int]:
    """The least number that each permutation gives to any of some shingles' hashes."""
    least = []
    for number in range(permutations):
        factors = _mix((number + 1) * 0x9E3779B97F4A7C15 % 2**64)
        low, high = factors % 2**32 | 1, factors >> 32 | 1
        least.append(min((shingle % 2**32 * low + (shingle >> 32) * high) % 2**32 for shingle in shingles))
    return least


def _mix(word: int) -> int:
    """The last step of MurmurHash3."""
    word = (word ^ word >> 33) * 0xFF51AFD7ED558CCD % 2**64
    word = (word ^ word >> 33) * 0xC4CEB9FE1A85EC53 % 2**64
    return word ^ word >> 33


def reference_jaccard(one: Set[object], other: Set[object]) -> float:
    """What two sets have in common."""
    return len(one & other) / len(one | other)


def reference_clusters(bands: Sequence[Sequence[int]]) -> list[int]:
    """For each document the first one that it is connected to: documents that agree in a band are, and so are
    those that are connected to the same one."""
    first = list(range(len(bands)))
    changed = True
    while changed:
        changed = False
        least: dict[int, int] = {}
        for document, values in enumerate(bands):
            for value in values:
                least[value] = min(least.get(value, document), first[document])
        for document, values in enumerate(bands):
            smallest = min((least[value] for value in values), default=document)
            if smallest < first[document]:
                first[document] = smallest
                changed = True
    return first


def reference_largest(first: Sequence[int], seen: int) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Of the clusters whose first document is not among the `seen`, the five largest, the first of equal
    ones: how many documents, and the first four, counted from the first that was not seen."""
    clusters: dict[int, list[int]] = {}
    for document in range(seen, len(first)):
        clusters.setdefault(first[document], []).append(document - seen)
    own = [members for head, members in clusters.items() if head >= seen and len(members) > 1]
    own.sort(key=lambda members: (-len(members), members[0]))
    return tuple((len(members), tuple(members[:4])) for members in own[:5])


def reference_pieces(text: str, level: str) -> list[tuple[str, bool]]:
    """All parts of a text, and whether each is a piece: not only whitespace."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    parts = lines if level == "line" else _paragraphs(lines)
    return [(part, bool(part.strip())) for part in parts]


def reference_keep_pieces(text: str, level: str, keep: Iterable[bool]) -> str:
    """The text without the pieces that are not kept."""
    flags = iter(keep)
    parts = reference_pieces(text, level)
    return "".join(part for part, is_piece in parts if not is_piece or next(flags))


def _paragraphs(lines: Iterable[str]) -> list[str]:
    """Runs of lines that are not blank, each with the blank ones after it."""
    parts: list[str] = []
    after_blank = True
    for line in lines:
        blank = not line.strip()
        if not parts or (after_blank and not blank):
            parts.append(line)
        else:
            parts[-1] += line
        after_blank = blank
    return parts
