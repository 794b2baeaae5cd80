"""The slow, obvious definition of words and sentences that the native splitter is held to.

Text is cut into chunks at whitespace. Ideographs and hiragana stand in pairs, cut off from what is around
them, and wide marks alone, for their scripts have no spaces. In any other chunk:

1. marks, quotes, currencies and pictures are taken off the front one by one, and off the end also `'s`, units
   after a digit, and a full stop that ends a sentence; a contraction or an abbreviation stops this;
2. what is left is one word if it is an address (`krill.example.org/a-b`, `me@example.org`). If not, it is cut
   at what joins letters (`-`, `/`, `,`, `:`, `=`, `<`, `>`), at operators between digits, at a full stop
   between a small and a capital letter, at dots in a row and at pictures, all of which are words themselves;
3. two neighbours that form a smiley, or a letter and its full stop, are one word again.

This is what spaCy's blank English tokenizer does in all but rare cases; see docs/filters.md for how rare.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, pairwise

import word_traits as of
from word_traits import LONGEST_CONTRACTION, contractions

MAX_BACK_MARKS = 256
"""How many pieces are taken off the end of one chunk, so that no chunk needs memory of its own."""


def _set_of(words: str) -> frozenset[str]:
    return frozenset(words.split())


UNITS = _set_of(
    "m km cm mm dm nm µm m² km² cm² mm² dm² m³ km³ cm³ mm³ dm³ ha in ft yd g kg mg µg t lb oz m/s km/h kmh "
    "mph Pa hPa mbar mb MB kb KB gb GB tb TB T G M K %"
)
SMILEYS = _set_of(":) (: =) (= :] [: [= =] :} 8) ;) (; :( ): =( :/ =/ =| :| ]= =[ :* :> ''")
LETTER_STOPS = frozenset(f"{letter}." for letter in "abcdefghijklmnopqrstuvwxyz")

_HYPHENS = ("---", "--", "——", "-", "–", "—", "~")
_LONGEST_LABEL = 64


def reference_words(text: str) -> list[str]:
    """The words of a text. Without the whitespace between them they are all of it."""
    return [word for chunk in text.split() for piece in _by_script(chunk) for word in piece]


def reference_sentences(text: str) -> list[str]:
    """The sentences of a text, which together are all of it; whitespace belongs to the one before it.

    A sentence ends after terminal punctuation and whatever other punctuation follows it.
    """
    begins = [0]
    ended = False
    end = 0
    for word in reference_words(text):
        begin = text.index(word, end)
        end = begin + len(word)
        terminal = word in of.TERMINAL
        if ended and not terminal and not all(map(of.is_punctuation, word)):
            begins.append(begin)
            ended = False
        elif terminal:
            ended = True
    return [text[begin:stop] for begin, stop in pairwise([*begins, len(text)])]


def _by_script(chunk: str) -> Iterator[list[str]]:
    """A chunk cut where ideographs, hiragana and wide marks begin and end."""

    def kind(character: str) -> str:
        if character in of.WIDE_MARKS:
            return "wide mark"
        if of.is_han(character):
            return "han"
        return "hiragana" if of.is_hiragana(character) else "spaced"

    for found, group in groupby(chunk, kind):
        piece = "".join(group)
        if found == "spaced":
            yield _chunk_words(piece)
        else:
            step = 1 if found == "wide mark" else 2
            yield [piece[at : at + step] for at in range(0, len(piece), step)]


def _chunk_words(chunk: str) -> list[str]:
    front: list[str] = []
    back: list[str] = []
    rest = chunk
    while rest and not _contraction(rest):
        before = _front_mark(rest)
        after = _back_mark(rest[before:]) if len(back) < MAX_BACK_MARKS else 0
        if before and _contraction(rest[before:]):
            after = 0
        elif after and _contraction(rest[: len(rest) - after]):
            before = 0
        if before == after == 0:
            break
        if before:
            front.append(rest[:before])
        if after:
            back.append(rest[len(rest) - after :])
        rest = rest[before : len(rest) - after]
    return _joined([*front, *_inner_words(rest), *reversed(back)])


def _contraction(text: str) -> tuple[str, ...]:
    return contractions().get(text, ()) if len(text) <= LONGEST_CONTRACTION else ()


def _inner_words(text: str) -> list[str]:
    if not text:
        return []
    return list(_contraction(text)) or ([text] if is_address(text) else _split_inside(text))


def _joined(words: list[str]) -> list[str]:
    joined: list[str] = []
    for word in words:
        if joined and (joined[-1] + word in SMILEYS or joined[-1] + word in LETTER_STOPS):
            joined[-1] += word
        else:
            joined.append(word)
    return joined


def _dots(text: str) -> int:
    return len(text) - len(text.lstrip("."))


def _front_mark(text: str) -> int:
    """The length of what is taken off the front, 0 for nothing."""
    first, second = text[0], text[1:2]
    if first in of.FRONT_MARKS or of.is_picture(first):
        return 1
    if first == "+":
        return 0 if second and of.is_digit(second) else 1
    if first == ".":
        return _dots(text) if second == "." else 0
    if text.startswith("US$"):
        return 3
    return 2 if text.startswith(("A$", "C$")) else 0


def _back_mark(text: str) -> int:
    """The length of what is taken off the end, 0 for nothing."""
    if not text:
        return 0
    last, before = text[-1], text[-2:-1]
    if last == ".":
        return _dots(text[::-1]) if before == "." else _full_stop(text)
    if last in "sS" and before and before in "'’":
        return 2
    if last in of.BACK_MARKS or of.is_picture(last):
        return 1
    if before and of.is_digit(before) and (last == "+" or last in of.CURRENCIES):
        return 1
    for length in (4, 3, 2, 1):
        if len(text) > length and text[-length:] in UNITS and of.is_digit(text[-length - 1]):
            return length
    return 0


def _full_stop(text: str) -> int:
    """1 if the full stop at the end ends a sentence, 0 if it belongs to an initial or stands alone."""
    if len(text) == 1:
        return 0
    before = text[-2]
    if of.is_digit(before) or of.may_be_lower(before) or before in of.MARKS or before in "%²-+|":
        return 1
    return int(len(text) > 2 and of.may_be_upper(before) and of.may_be_upper(text[-3]))


def _split_inside(text: str) -> list[str]:
    words: list[str] = []
    begin = at = 0
    while at < len(text):
        length = _joint(text, at)
        if length and at > 0:
            words += [text[begin:at], text[at : at + length]] if begin < at else [text[at : at + length]]
            begin = at + length
        at += length or 1
    return [*words, text[begin:]] if begin < len(text) else words


def _joint(text: str, at: int) -> int:
    """The length of what joins two words at a place, 0 if nothing does."""
    here = text[at]
    if here == "." and text[at + 1 : at + 2] == ".":
        return _dots(text[at:])
    if here == "…" or of.is_picture(here):
        return 1
    if not 0 < at < len(text) - 1:
        return 0
    before, after = text[at - 1], text[at + 1]
    lettered = of.is_letter(before) or of.is_digit(before)
    if here == ".":
        ends = of.may_be_lower(before) or before in of.QUOTES
        return int(ends and (of.may_be_upper(after) or after in of.QUOTES))
    if here in "+-*^" and of.is_digit(before) and (of.is_digit(after) or after == "-"):
        return 1
    if here == ",":
        return int(of.is_letter(before) and of.is_letter(after))
    if here in ":<>=/":
        return int(lettered and of.is_letter(after))
    for hyphen in _HYPHENS if lettered else ():
        end = at + len(hyphen)
        if text.startswith(hyphen, at) and end < len(text) and of.is_letter(text[end]):
            return len(hyphen)
    return 0


def is_address(text: str) -> bool:
    """Whether a chunk is a web or mail address: perhaps a scheme, perhaps a user, a host, perhaps a path."""
    scheme, mark, _ = text.partition("://")
    named = len(scheme) >= 2 and all(c in "+-._" or c.isalnum() for c in scheme)
    begin = len(scheme) + len(mark) if mark and named else 0
    user = text.rfind("@")
    return _is_host(text[begin:]) or (user > 0 and _is_host(text[user + 1 :]))


def _is_host(text: str) -> bool:
    end = 0
    while end < len(text) and (text[end] in "-._" or text[end].isalnum() or text[end] > "\u00a0"):
        end += 1
    *labels, top = text[:end].split(".")
    if not labels or not (2 <= len(top) < _LONGEST_LABEL and all(map(of.may_be_lower, top))):
        return False
    if not all(
        0 < len(label) <= _LONGEST_LABEL and not {label[0], label[-1]} & {"-", "_"} for label in labels
    ):
        return False
    rest = text[end:]
    if rest.startswith(":"):
        port = rest[1:]
        digits = next((at for at, c in enumerate(port) if not of.is_digit(c)), len(port))
        if not 2 <= digits <= 5:
            return False
        rest = port[digits:]
    return rest == "" or rest[0] in "/?#"
