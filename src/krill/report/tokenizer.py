"""The page of `krill tokenizer train`, or of any `tokenizer.json`: texts by token, and the vocabulary.

In: a run or a folder with a tokenizer. Out: sections. Held in memory: the tokenizer, and the counts.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from krill.errors import KrillError
from krill.report.common import length_table, named_figures, overview_section, resource_sections
from krill.report.parts import (
    Cell,
    Facts,
    HeadedText,
    MarkedText,
    Note,
    PageSection,
    Part,
    Table,
    Texts,
    Value,
    bar,
    count,
    share,
)
from krill.report.runs import TOKENIZER, ReportedRun
from krill.tokenizer.sample_texts import SAMPLE_TEXTS
from krill.tokenizer.tokenizer import Tokenizer, open_within

COLOURS: Final = 5
"""Of tokens that follow each other, as the stylesheet has them."""
# Tokens that are decoded for the tables of the vocabulary.
_MOST_TOKENS: Final = 30_000
# From this length on, tokens are counted in buckets.
_LONG_TOKENS: Final = 16
_IDS: Final = (
    "A number in \u27e8\u27e9 is the id of a token that stands for no character of its own: it ends one"
    " which the token before began, or the tokenizer adds it, as at the beginning of a text."
)
_FACTS: Final = ("vocab_size", "merges", "words", "unique_words", "input_bytes", "bytes_per_token")


def tokenizer_sections(run: ReportedRun, memory: str | int, samples: bool) -> list[PageSection]:
    overview = overview_section(run, named_figures(run, _FACTS))
    texts, vocabulary = PageSection("texts", "Texts by token"), PageSection("vocabulary", "Vocabulary")
    try:
        with _opened(run, memory) as tokenizer:
            if tokenizer is None:
                texts.parts.append(Note("The tokenizer is in an object store, and is not read for a report."))
            else:
                texts.parts += _text_parts(tokenizer)
                vocabulary.parts += _vocabulary_parts(tokenizer, samples)
    except KrillError as error:
        texts.parts.append(Note(f"The tokenizer cannot be opened: {error.message}.", warns=True))
    sections = [overview, texts, vocabulary]
    if run.command != "tokenizer":
        sections += resource_sections(run)
    return [section for section in sections if section.parts]


def tokenizers_section(runs: Sequence[tuple[str, ReportedRun]], memory: str | int) -> PageSection:
    """The same texts under several tokenizers."""
    section = PageSection("tokenizers", "The same texts by several tokenizers")
    names, pieces, sizes = [], [], []
    for name, run in runs:
        try:
            with _opened(run, memory) as tokenizer:
                if tokenizer is not None:
                    pieces.append({text: token_pieces(tokenizer, text) for text in SAMPLE_TEXTS.values()})
                    names.append(name)
                    sizes.append((f"vocabulary of {name}", f"{tokenizer.vocab_size:,} tokens"))
        except KrillError as error:
            section.parts.append(Note(f"{name}: {error.message}.", warns=True))
    if not names:
        return section
    rows: list[list[Value]] = [
        [what, *(_density(text, len(found[text])) for found in pieces)] for what, text in SAMPLE_TEXTS.items()
    ]
    section.parts.append(Facts(sizes))
    section.parts.append(Table("Bytes per token", ("text", *names), rows, note=_IDS))
    for what, text in SAMPLE_TEXTS.items():
        found = [
            HeadedText(f"{name}: {len(one[text])} tokens", one[text])
            for name, one in zip(names, pieces, strict=True)
        ]
        section.parts.append(Texts(what, found, shown=what in ("English", "Japanese")))
    return section


@contextmanager
def _opened(run: ReportedRun, memory: str | int) -> Iterator[Tokenizer | None]:
    if run.folder is None:
        yield None
        return
    folder = run.folder.parent if run.folder.is_file() else run.folder
    with open_within(folder / TOKENIZER, memory, 1) as tokenizer:
        yield tokenizer


def token_pieces(tokenizer: Tokenizer, text: str) -> list[MarkedText]:
    """A text by its tokens, each in another colour than the one before."""
    return [
        MarkedText(shown, f"token{place % COLOURS}", f"id {number}")
        for place, (number, shown) in enumerate(tokenizer.pieces(text))
    ]


def _text_parts(tokenizer: Tokenizer) -> list[Part]:
    found = {what: token_pieces(tokenizer, text) for what, text in SAMPLE_TEXTS.items()}
    rows = [
        (what, count(len(text)), count(len(found[what])), _density(text, len(found[what])))
        for what, text in SAMPLE_TEXTS.items()
    ]
    columns = ("text", "characters", "tokens", "bytes per token")
    texts = [HeadedText(f"{what}: {len(pieces)} tokens", pieces) for what, pieces in found.items()]
    return [
        Texts("Colours change with every token", texts, shown=True),
        Table("Texts", columns, rows, note=_IDS),
    ]


def _density(text: str, tokens: int) -> Cell:
    value = len(text.encode()) / max(1, tokens)
    return Cell(f"{value:.2f}", value)


def _vocabulary_parts(tokenizer: Tokenizer, samples: bool) -> list[Part]:
    step = -(-tokenizer.vocab_size // _MOST_TOKENS)
    lengths: Counter[int] = Counter()
    scripts: Counter[str] = Counter()
    longest: list[str] = []
    for number in range(0, tokenizer.vocab_size, step):
        try:
            token = tokenizer.decode([number])
        except KrillError:
            continue  # an id that no token has
        lengths[len(token)] += 1
        scripts[script_of(token)] += 1
        longest = sorted([*longest, token], key=len, reverse=True)[:20] if len(token) > 8 else longest
    of = "" if step == 1 else f" (every {step}th of {tokenizer.vocab_size:,})"
    buckets = length_buckets(lengths)
    total, most = sum(scripts.values()), max(scripts.values(), default=0)
    rows = [(name, count(n), share(n, total), bar(n, most)) for name, n in scripts.most_common()]
    parts: list[Part] = [
        Table(f"Tokens by script{of}", ("script", "tokens", "share", "as a bar"), rows),
        length_table(f"Tokens by length{of}", buckets, "characters"),
    ]
    if samples:
        texts = [HeadedText(f"{len(token)} characters", [MarkedText(token)]) for token in longest]
        parts.append(Texts("The longest tokens", texts))
    return parts


def length_buckets(lengths: Mapping[int, int]) -> list[tuple[int, int, int]]:
    """Least, most and how many: each of the short lengths, then twice as many with each bucket."""
    found: dict[tuple[int, int], int] = {}
    for length, number in sorted(lengths.items()):
        power = 2 ** (length.bit_length() - 1)
        between = (length, length) if length < _LONG_TOKENS else (power, 2 * power - 1)
        found[between] = found.get(between, 0) + number
    return [(*between, number) for between, number in found.items()]


def script_of(token: str) -> str:
    """The script of a token's first letter, as Unicode names it."""
    if "\ufffd" in token:
        return "part of a character"
    for character in token:
        if character.isalpha():
            return unicodedata.name(character, "unknown").split()[0].lower()
    if any(character.isdigit() for character in token):
        return "digits"
    return "spaces" if not token.strip() else "signs"
