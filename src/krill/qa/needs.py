"""What making features holds, for the plan.

In: where the questions come from, and the tokenizer. Out: needs. Nothing is held here.
"""

from __future__ import annotations

from typing import Final

from krill.budget import Need
from krill.budget.plan import Kind
from krill.qa.encoding import QaTokenizer
from krill.qa.examples import SeenIds
from krill.qa.sources import Source

UNITS: Final = "units"
IDS: Final = "question ids"
# Characters of contexts and questions. A unit's tables then take two or three megabytes.
UNIT_CHARACTERS: Final = 500_000
# What a unit holds while it is made, for each of its characters, measured on SQuAD 2 with tokenizers of 8,000
# and of 800 tokens: 24 and 37 bytes by the native core, 46 and 73 through the library. A unit that waits for
# a thread holds the text and its objects. Most of the making holds the interpreter's lock: other threads add
# half.
HELD_BY_NATIVE: Final = 48
HELD_BY_LIBRARY: Final = 80
# Of a long context the same, where each character is a token: 63 were measured with bytes as tokens.
MOST_BY_NATIVE: Final = 68
MOST_BY_LIBRARY: Final = 130
WAITING_PER_CHARACTER: Final = 6
# What a record takes for each of its bytes until its unit is written, where it is mostly answers: 35 were
# measured on a line of answers of one letter, 11 on a paragraph of SQuAD's JSON with a million answers.
HELD_PER_RECORD_BYTE: Final = 36
# What the first unit takes however small it is: 0.9 MB were measured on three questions.
FIRST_UNIT: Final = 2_000_000
# Of a SQuAD file's bytes: the rest is JSON, ids and answers.
TEXT_SHARE: Final = 0.43
# A question with its share of the context, in a file: SQuAD 2's have 360 on average.
BYTES_PER_QUESTION: Final = 360
# In a file, no question has fewer: `{"question":"a"}`.
LEAST_BYTES_PER_QUESTION: Final = 16


def held_per_character(tokenizer: QaTokenizer) -> int:
    return HELD_BY_NATIVE if tokenizer.native else HELD_BY_LIBRARY


def unit_needs(source: Source, native: bool, threads: int) -> list[Need]:
    size, held = source.bytes, HELD_BY_NATIVE if native else HELD_BY_LIBRARY
    text = 2**40 if size is None else int(size * TEXT_SHARE)
    unit = min(text, UNIT_CHARACTERS)
    at_once = min(threads, -(-text // UNIT_CHARACTERS))
    waiting = 2 * WAITING_PER_CHARACTER * UNIT_CHARACTERS
    expected = FIRST_UNIT + unit * held * (at_once + 1) // 2
    return [
        Need(
            UNITS,
            threads * UNIT_CHARACTERS * held + waiting,
            Kind.WATCHED,
            useful=2**40,
            expected=expected + (waiting if text > UNIT_CHARACTERS * threads else 0),
            remedy="take fewer --threads",
        ),
        _ids_need(source),
    ]


def making_need(tokenizer: QaTokenizer) -> Need:
    """The same for one unit that somebody else has read, while the next one waits."""
    held = held_per_character(tokenizer) + WAITING_PER_CHARACTER
    return Need(UNITS, UNIT_CHARACTERS * held + FIRST_UNIT, Kind.WATCHED, useful=2**40)


def reading_needs(source: Source) -> list[Need]:
    """What it takes to read units that others make."""
    waiting = 2 * WAITING_PER_CHARACTER * UNIT_CHARACTERS
    return [Need(UNITS, waiting, Kind.WATCHED), _ids_need(source)]


def _ids_need(source: Source) -> Need:
    questions = (source.bytes or 0) // BYTES_PER_QUESTION
    return Need(IDS, SeenIds.bytes_for(0), useful=most_for_ids(source), expected=SeenIds.bytes_for(questions))


def most_for_ids(source: Source) -> int:
    """What the ids of all questions take at most."""
    if source.bytes is None:
        return 2**40
    return SeenIds.bytes_for(source.bytes // LEAST_BYTES_PER_QUESTION)


def text_needs(characters: int, tokenizer: QaTokenizer) -> int:
    """What a unit takes at most that ends with a long text, whatever its tokens are."""
    return (characters + UNIT_CHARACTERS) * (MOST_BY_NATIVE if tokenizer.native else MOST_BY_LIBRARY)


def record_needs(size: int, tokenizer: QaTokenizer) -> int:
    """What a record of so many bytes takes at most: mostly answers, or one context."""
    return max(size * HELD_PER_RECORD_BYTE, text_needs(size, tokenizer))
