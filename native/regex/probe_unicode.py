r"""What Hugging Face's regex engine knows of each code point, found out by asking it about all of them.

In: the engine of the installed `tokenizers`. Out: the names of properties that it knows, and the code points
of regexes for one character; which code points are the same to it where it cuts texts into segments.
Held in memory: a text of all code points, some hundred MB in the library.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby, product
from pathlib import Path

import tokenizers
from tokenizers import Regex, pre_tokenizers

Ranges = tuple[tuple[int, int], ...]

POINTS = 0x110000
STEP = 0x8000
EVERYTHING = [
    "".join(chr(point) for point in range(begin, begin + STEP) if not 0xD800 <= point < 0xE000)
    for begin in range(0, POINTS, STEP)
]
# The library takes seconds to read all code points, whatever it is asked about them.
AT_ONCE = 8


def matches(regex: str, text: str) -> list[tuple[int, int]]:
    """Where the matches of a regex begin and end."""
    split = pre_tokenizers.Split(Regex(regex), behavior="removed", invert=True)
    return [place for _, place in split.pre_tokenize_str(text)]


def is_known(name: str) -> bool:
    try:
        Regex(f"\\p{{{name}}}")
    except Exception:  # the library raises plain Exception
        return False
    return True


def property_names() -> list[str]:
    """All that the engine knows, as it writes them: lower case, without spaces, `-` and `_`. It does not list
    them, so every word in its file is tried."""
    (file,) = Path(tokenizers.__file__).parent.glob("tokenizers.*so")
    words = set(re.findall(rb"(?<=\0)[a-z0-9]+(?=\0)", file.read_bytes()))
    return sorted(filter(is_known, map(bytes.decode, words)))


def ranges_of(regex: str) -> Ranges:
    """The code points that a regex for one character matches."""
    text = "".join(EVERYTHING)
    return tuple((ord(text[begin]), ord(text[end - 1])) for begin, end in matches(f"{regex}+", text))


def all_ranges(regexes: Sequence[str]) -> list[Ranges]:
    """The same of many, which mean the same in brackets: much faster."""
    return [
        ranges
        for begin in range(0, len(regexes), AT_ONCE)
        for ranges in _ranges_at_once(regexes[begin : begin + AT_ONCE])
    ]


def _ranges_at_once(regexes: Sequence[str]) -> list[Ranges]:
    """First where any of them changes, then what the first character of each stretch is."""
    kinds = ("&&".join(kind) for kind in product(*((f"[^{regex}]", f"[{regex}]") for regex in regexes)))
    cut = pre_tokenizers.Split(Regex("|".join(f"[{kind}]+" for kind in kinds)), behavior="isolated")
    text = "".join(EVERYTHING)
    stretches = [place for _, place in cut.pre_tokenize_str(text)]
    first = "".join(text[begin] for begin, _ in stretches)
    found = []
    for regex in regexes:
        runs = [(stretches[begin][0], stretches[end - 1][1]) for begin, end in matches(f"{regex}+", first)]
        found.append(tuple((ord(text[begin]), ord(text[end - 1])) for begin, end in runs))
    return found


# What stands before and after a code point, and what follows it where that makes a difference. No unit has to
# do with the next one, since nothing binds to what is between them.
GRAPHEME_UNITS = [
    "\u1100?\u11a8",
    "\u1161?\u1161",
    "\U0001f1e6?a",
    "\r?\n",
    "\1?\u0300",
    "😀?\u200d😀",
    "😀?😀",
]
OTHER = "other"
GRAPHEMES = {
    OTHER: " 😀",  # the second by itself, since units have pictographs in them
    "cr": "\r",
    "lf": "\n",
    "control": "\1",
    "l": "\u1100",
    "v": "\u1161",
    "t": "\u11a8",
    "lv": "\uac00",
    "lvt": "\uac01",
    "extend": "\u0300",
    "zwj": "\u200d",
    "spacing": "\u0903",
    "prepend": "\u0600",
    "regional": "\U0001f1e6",
}
WORD_UNITS = [
    *["a?b", "1?1", "\u05d0?\u05d0", "\u30a2?\u30a2", " ? ", "\U0001f1e6?\2", "\r?\n", "\2?\u0300", "\2?😀"],
    *["\u05d0?\2", "?'\2", "a?,1"],
]
WORDS = {
    OTHER: "\0",
    "cr": "\r",
    "lf": "\n",
    "newline": "\v",
    "extend": "\u0300",
    "zwj": "\u200d",
    "space": " ",
    "letter": "a",
    "hebrew": "\u05d0",
    "midletter": ":",
    "midnumlet": ".",
    "quote": "'",
    "quotes": '"',
    "midnum": ",",
    "numeric": "1",
    "katakana": "\u30a2",
    "extendnumlet": "_",
    "regional": "\U0001f1e6",
}


# Nine in ten code points, which are of no class: they are asked less.
PLAIN = r"[\p{Co}[\p{Cn}&&\P{Default_Ignorable_Code_Point}][\p{Lo}&&\p{Han}]]"
PLAIN_UNITS = ["a?b", "\2?\u0300"]


def segment_classes(mode: str, units: Sequence[str], examples: dict[str, str]) -> dict[str, Ranges]:
    """Code points by how the engine cuts around them, each class under the name of its example."""
    found: defaultdict[tuple[bytes, ...], list[int]] = defaultdict(list)
    names = {point: name for name, example in examples.items() for point in example}
    plain = _cuts(mode, PLAIN_UNITS, examples[OTHER][0])
    for points in EVERYTHING:
        no_class = "".join(points[begin:end] for begin, end in matches(f"{PLAIN}+", points))
        assert set(_cuts(mode, PLAIN_UNITS, no_class)) <= set(plain)
        others = sorted(set(points) - set(no_class))
        for point, cuts in zip(others, _cuts(mode, units, others), strict=True):
            found[cuts].append(ord(point))
    classes = {}
    for members in found.values():
        # Every class has its example: another one would be unknown here.
        (name,) = {names[chr(point)] for point in members if chr(point) in names}
        classes[name] = _as_ranges(members)
    return {name: classes[name] for name in examples if name != OTHER}


def _cuts(mode: str, units: Sequence[str], points: Sequence[str]) -> list[tuple[bytes, ...]]:
    """For each code point, where the engine cuts each unit with it."""
    split = pre_tokenizers.Split(Regex(rf"(?y{{{mode}}})\y"), behavior="isolated")
    between = "\2\n" if mode == "g" else "\2\2"
    found = []
    for unit in units:
        text = "".join(unit.replace("?", point) + between for point in points)
        cuts = bytearray(len(text) + 1)
        for _, (_, end) in split.pre_tokenize_str(text):
            cuts[end] = 1
        size = len(unit) + len(between)
        found.append([bytes(cuts[at + 1 : at + len(unit)]) for at in range(0, len(text), size)])
    return list(zip(*found, strict=True))


def _as_ranges(members: Sequence[int]) -> Ranges:
    runs = [list(run) for _, run in groupby(enumerate(members), lambda pair: pair[1] - pair[0])]
    return tuple((run[0][1], run[-1][1]) for run in runs)
