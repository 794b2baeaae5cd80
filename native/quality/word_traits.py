"""What a character is to the quality filters and to the word splitter, and the contractions of English.

Out: sets of characters and predicates of one character; for each contraction and abbreviation the words that
it consists of. This is the one definition: `generate_traits.py` makes the native tables from it, and the
oracle of the word splitter uses it directly.

Letters, marks and symbols are classified by Python's own Unicode tables (14.0, those of Python 3.11, in the
native ones). People also write contractions without the apostrophe (`dont`), and with a typographic one
(U+2019).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product


def _characters(ranges: str) -> frozenset[str]:
    """Characters from hexadecimal code points and ranges of them."""
    found: set[str] = set()
    for part in ranges.split():
        first, _, last = part.partition("-")
        found.update(map(chr, range(int(first, 16), int(last or first, 16) + 1)))
    return frozenset(found)


TERMINAL = _characters(
    "21 2e 3f 589 61d-61f 6d4 700-702 7f9 837 839 83d-83e 964-965 104a-104b 1362 1367-1368 166e 1735-1736 "
    "17d4-17d6 17d9-17da 1803 1809 1944-1945 1aa8-1aab 1b5a-1b5b 1b5e-1b5f 1b7d-1b7e 1c3b-1c3c 1c7e-1c7f "
    "203c-203d 2047-2049 2e2e 2e3c 2e53-2e54 3002 a4ff a60e-a60f a6f3 a6f7 a876-a877 a8ce-a8cf a92f "
    "a9c8-a9c9 aa5d-aa5f aaf0-aaf1 abeb fe52 fe56-fe57 ff01 ff0e ff1f ff61 10a56-10a57 10f55-10f59 "
    "10f86-10f89 11047-11048 110be-110c1 11141-11143 111c5-111c6 111cd 111de-111df 11238-11239 "
    "1123b-1123c 112a9 1144b-1144c 115c2-115c3 115c9-115d7 11641-11642 1173c-1173e 11944 11946 "
    "11a42-11a43 11a9b-11a9c 11c41-11c42 11ef7-11ef8 11f43-11f44 16a6e-16a6f 16af5 16b37-16b38 16b44 "
    "16e98 1bc9f 1da88"
)
"""Ends a sentence, in any script; equal to datatrove's TERMINAL_PUNCTUATION."""

SYMBOLS = TERMINAL | _characters(
    "0-8 b-1f 22-2d 2f 3a-3e 40 5b-60 7b-9f ab b4 bb 2013-2014 2019 201c-201e 2026 2236 2501 25ba 3001 "
    "3008-300d 3010-3011 ff05 ff08-ff09 ff0c ff11 ff1a-ff1b ff5e"
)
"""A word of nothing else is a mere symbol; equal to datatrove's PUNCTUATION_SET."""

WIDE_MARKS = frozenset("。？！，、；：～「」『』（）〔〕【】《》〈〉")
"""Marks of scripts that put no spaces around them: always words of their own."""

QUOTES = frozenset("'\"`´‘’‚“”„«»〈〉⟦⟧,") | WIDE_MARKS - frozenset("。？！，、；：～")
MARKS = QUOTES | WIDE_MARKS | frozenset("…:;!?¿؟¡()[]{}<>_#*&·।،۔؛٪")
"""Taken off both ends of a chunk, and before a full stop that is taken off."""

DASHES = frozenset("–—")
CURRENCIES = frozenset("$£¥฿﷼") | _characters("20a0-20bf")
FRONT_MARKS = MARKS | DASHES | CURRENCIES | frozenset("§%=")
"""Taken off the front of a chunk, besides pictures; `+` too unless a digit follows."""
BACK_MARKS = MARKS | DASHES
"""Taken off the end of a chunk, besides pictures."""


def is_letter(character: str) -> bool:
    """Letters and the marks that stand on them."""
    return unicodedata.category(character)[0] in "LM"


def may_be_lower(character: str) -> bool:
    """A letter in lower case, or of a script without case."""
    return is_letter(character) and not character.isupper()


def may_be_upper(character: str) -> bool:
    """A letter in upper case, or of a script without case."""
    return is_letter(character) and not character.islower()


def is_digit(character: str) -> bool:
    return "0" <= character <= "9"


def is_picture(character: str) -> bool:
    """Arrows, emoji, dingbats and the like."""
    return unicodedata.category(character) == "So"


def is_punctuation(character: str) -> bool:
    return unicodedata.category(character)[0] == "P"


def is_han(character: str) -> bool:
    """An ideograph."""
    return (
        "\u2e80" <= character <= "\u2fdf"
        or "\u3005" <= character <= "\u3007"
        or "\u3400" <= character <= "\u4dbf"
        or "\u4e00" <= character <= "\u9fff"
        or "\uf900" <= character <= "\ufaff"
        or "\U00020000" <= character <= "\U0003ffff"
    )


def is_hiragana(character: str) -> bool:
    return "\u3041" <= character <= "\u309f"


_PRONOUNS = "i you he she it we they"
_QUESTIONS = "who what when where why how"
_POINTERS = "there that this these those"
_MODALS = "could might must should would"
_AUXILIARIES = "ca do does did had may need ought sha wo"
_VERBS = "ai are is was were have has dare"

# Stems, and what may follow each of them: parts of one ending are words of their own.
_ENDINGS = (
    (f"{_PRONOUNS} {_QUESTIONS} {_POINTERS}", ("'ll", "'ll 've", "'d", "'d 've")),
    ("i", ("'m", "'m a")),
    (f"i you we they {_QUESTIONS} there these those {_MODALS} not", ("'ve",)),
    (f"you we they {_QUESTIONS} there these those", ("'re",)),
    (f"he she it {_QUESTIONS} there that this let", ("'s",)),
    (f"{_MODALS} {_AUXILIARIES}", ("n't", "n't 've")),
    (_VERBS, ("n't",)),
)
_NEVER = frozenset(["ill", "its", "hell", "shell", "shed", "were", "well", "whore", "lets"])
"""Words of their own, although they look like contractions without an apostrophe."""

_PARTS = ("can not", "gon na", "got ta", "y' all")
_HOURS = tuple(str(hour) for hour in range(1, 13))
_WHOLE = (
    "a.m. p.m. e.g. E.g. i.e. I.e. vs. Mr. Mrs. Ms. Dr. Prof. St. Mt. Jr. Inc. Ltd. Co. Corp. Bros. Gen. "
    "Gov. Rep. Sen. Rev. Ph.D. D.C. N.Y. Jan. Feb. Mar. Apr. Jun. Jul. Aug. Sep. Sept. Oct. Nov. Dec. C++ "
    "and/or w/o o'clock ma'am 'd 's 'S 're 'll 'em 'cause '' \\n \\t"
)

LONGEST_CONTRACTION = 12
"""Characters of the longest entry."""


@cache
def contractions() -> Mapping[str, tuple[str, ...]]:
    """Chunk -> its words."""
    found = {chunk: words for words in _spelled() if (chunk := "".join(words)).lower() not in _NEVER}
    curly = {key.replace("'", "’"): tuple(word.replace("'", "’") for word in found[key]) for key in found}
    return {**found, **curly}


def _spelled() -> Iterator[tuple[str, ...]]:
    for stems, endings in _ENDINGS:
        for stem, ending in product(stems.split(), endings):
            for first in (stem, stem.capitalize()):
                yield (first, *ending.split())
                yield (first, *ending.replace("'", "").split())
    for parts in _PARTS:
        first, second = parts.split()
        yield from ((first, second), (first.capitalize(), second))
    yield from product(_HOURS, ("am", "pm", "a.m.", "p.m."))
    yield from ((letter + ".",) for letter in "abcdefghijklmnopqrstuvwxyz")
    yield from ((word,) for word in _WHOLE.split())
