"""Contractions and abbreviations of English: chunks whose words are known by heart.

In: nothing. Out: for each such chunk the words that it consists of. The native table is generated from this
module by `native/quality/generate_traits.py`. Held in memory: about 1,000 short strings.

People also write contractions without the apostrophe (`dont`), and with a typographic one (`don’t`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product

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
