"""Texts encoded by the library word by word, each different word once.

In: lists of texts. Out: the ids and spans that the library gives for the whole texts. Held in
memory: the words of the texts that are encoded together, and what the library makes of the different ones.

Where a tokenizer cuts at spaces before it does anything else, a text's tokens are those of its words, one
after the other, and in a list of texts most words come many times. The different ones are joined by spaces
again, as the library takes longer for many short texts than for a few long ones. A text whose spaces may
mean more than a cut goes to the library as one long word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import orjson

from krill.corpus.buffers import offsets_of
from krill.qa.tables import Lists

# A word with the spaces before it.
_WORD: Final = re.compile(r"[ \t\n\r]*[^ \t\n\r]+")
_SPACED: Final = re.compile(r" [^ \t\n\r]+")
# What Metaspace keeps of spaces is plain only where one stands between two words.
_SINGLE_SPACES: Final = re.compile(r"\S+(?: \S+)*")
# So many characters of words are joined, behind a first word that nobody asked for: the first word of a text
# may be treated in its own way.
_JOINED: Final = 1 << 14
_FIRST: Final = "a"
_NORMALIZERS: Final = frozenset(
    {"BertNormalizer", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Precompiled"}
)


@dataclass(frozen=True, slots=True)
class Words:
    """How a tokenizer's texts are cut; a text with one of `wide` in it is not."""

    single_spaces: bool
    wide: tuple[str, ...]

    def of(self, text: str) -> list[str]:
        """The words of a text; only spaces at its end are left out."""
        if any(token in text for token in self.wide):
            return [text]
        if self.single_spaces and not _SINGLE_SPACES.fullmatch(text):
            return [text]
        return _WORD.findall(text)


def find_words(content: bytes) -> Words | None:
    """How to cut for the tokenizer of a `tokenizer.json`; None if it does not cut at spaces."""
    parsed = orjson.loads(content)
    steps = _steps(parsed.get("pre_tokenizer"), "pretokenizers")
    kinds = [step["type"] for step in steps]
    if kinds not in (["BertPreTokenizer"], ["Metaspace"], ["WhitespaceSplit", "Metaspace"]):
        return None
    if any(step["type"] == "Metaspace" and not step.get("split", True) for step in steps):
        return None
    if not all(_is_wordwise(step) for step in _steps(parsed.get("normalizer"), "normalizers")):
        return None
    wide = []
    for token in parsed.get("added_tokens", []):
        if any(character.isspace() for character in token["content"]):
            return None
        if token["lstrip"] or token["rstrip"] or token["single_word"]:
            if token["normalized"]:
                return None
            wide.append(token["content"])
    return Words("BertPreTokenizer" not in kinds, tuple(wide))


@dataclass(frozen=True, slots=True)
class EncodedSpans(Lists):
    """The ids of some texts, with begin and end of each token in its text, in characters, shape (n, 2)."""

    spans: npt.NDArray[np.int32]


Encode = Callable[[Sequence[str]], EncodedSpans]


def encode_wordwise(texts: Sequence[str], words: Words, encode: Encode) -> EncodedSpans:
    """What `encode` gives for the texts, if it gives the same for their words."""
    cut = [words.of(text) for text in texts]
    every = [word for some in cut for word in some]
    different = list(dict.fromkeys(every))
    table, places = _encoded_words(different, encode)
    place_of = dict(zip(different, places.tolist(), strict=True))
    chosen = np.fromiter(map(place_of.__getitem__, every), np.int64, len(every))
    counts = np.diff(table.starts)[chosen]
    token_starts = offsets_of(counts)
    tokens = np.repeat(table.starts[:-1][chosen] - token_starts[:-1], counts) + np.arange(token_starts[-1])
    word_starts = offsets_of([len(some) for some in cut])
    # Where each word begins in its text: behind all words of all texts, less those of earlier texts.
    behind = offsets_of([len(word) for word in every])
    begins = behind[:-1] - np.repeat(behind[word_starts[:-1]], np.diff(word_starts))
    spans = table.spans[tokens] + np.repeat(begins, counts)[:, None].astype(np.int32)
    return EncodedSpans(table.values[tokens], token_starts[word_starts], spans)


def _encoded_words(words: Sequence[str], encode: Encode) -> tuple[EncodedSpans, npt.NDArray[np.int64]]:
    """The tokens of words, and where each word stands among them: those with one space before them first."""
    is_spaced = np.array([_SPACED.fullmatch(word) is not None for word in words], bool)
    order = np.concatenate([np.flatnonzero(is_spaced), np.flatnonzero(~is_spaced)])
    number = np.empty(len(words), np.int64)
    number[order] = np.arange(len(words))
    spaced = [words[place] for place in order[: is_spaced.sum()].tolist()]
    others = [words[place] for place in order[is_spaced.sum() :].tolist()]
    groups = list(groups_of(spaced, _JOINED))
    found = encode(["".join([_FIRST, *group]) for group in groups] + others)
    ends = found.starts[len(groups)]
    sizes = [len(_FIRST) + sum(map(len, group)) for group in groups]
    # All groups one after the other: where each begins, and each word, and each token.
    bases = offsets_of(sizes)
    words_before = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    begins = offsets_of([len(word) for word in spaced])[:-1] + (words_before + 1) * len(_FIRST)
    token_bases = np.repeat(bases[:-1], np.diff(found.starts[: len(groups) + 1]))
    token_begins = found.spans[:ends, 0] + token_bases
    of_word = np.searchsorted(begins, token_begins, side="right") - 1
    # What stands before a group's first word is a token of `_FIRST`.
    real = token_begins - token_bases >= len(_FIRST)
    of_word = of_word[real]
    spans = found.spans[:ends][real] + (token_bases[real] - begins[of_word])[:, None]
    counts = np.concatenate(
        [np.bincount(of_word, minlength=len(spaced)), np.diff(found.starts)[len(groups) :]]
    )
    ids = np.concatenate([found.values[:ends][real], found.values[ends:]])
    spans = np.concatenate([spans, found.spans[ends:]]).astype(np.int32)
    return EncodedSpans(ids, offsets_of(counts), spans), number


def groups_of(texts: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """Consecutive texts of about `size` characters together."""
    start = held = 0
    for number, text in enumerate(texts):
        if held and held + len(text) > size:
            yield texts[start:number]
            start, held = number, 0
        held += len(text)
    if start < len(texts):
        yield texts[start:]


def _steps(section: Any, key: str) -> list[Mapping[str, Any]]:
    """The steps of a section, in order, however they are nested."""
    if section is None:
        return []
    if section.get("type") != "Sequence":
        return [section]
    return [step for inner in section[key] for step in _steps(inner, key)]


def _is_wordwise(step: Mapping[str, Any]) -> bool:
    """Whether a normaliser does to words what it does to a text of them."""
    if step["type"] != "Replace":
        return step["type"] in _NORMALIZERS
    pattern = step["pattern"].get("String")
    if pattern is None:
        return bool(step["pattern"].get("Regex") == " {2,}")
    return not any(character.isspace() for character in pattern + step["content"])
