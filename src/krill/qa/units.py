"""The units of a cache: stretches of the input, each made and committed on its own.

Comes in: a job and its shares of the plan. Goes out: three tables for each unit, and what was counted. Held
in memory: the units in flight, and a hash of each question's id, to find those that come twice.

Where a unit ends follows from the input alone, so memory and threads don't shape what is written, and a run
that was killed goes on behind the units that it has committed: it reads the input again, and makes only what
is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from krill.budget import memory_flag
from krill.config.engine import EngineConfig
from krill.engines import Resources
from krill.errors import BudgetError, ConfigError, InputError
from krill.qa.encoding import QaTokenizer
from krill.qa.examples import Paragraph, SeenIds, first_questions
from krill.qa.features import MOST_LISTED, Shape, make_unit
from krill.qa.needs import (
    HELD_PER_RECORD_BYTE,
    UNIT_CHARACTERS,
    most_for_ids,
    record_needs,
    text_needs,
)
from krill.qa.sources import Source
from krill.qa.squad_json import RecordTooLong

DUPLICATES: Final = "duplicate_ids"
# Characters of answers after which a unit ends, too: many times what a unit of SQuAD has.
UNIT_ANSWERS: Final = 4_000_000


@dataclass(frozen=True, slots=True)
class FeatureJob:
    """What is prepared: everything that shapes the cache, and what it is made with."""

    source: Source
    split: str
    tokenizer: QaTokenizer
    shape: Shape
    max_examples: int | None
    resources: Resources
    engine: EngineConfig | None

    def check(self) -> None:
        """Refuse what nothing could be made of."""
        self.shape.check(self.tokenizer.layout)
        if self.max_examples is not None and self.max_examples < 1:
            raise ConfigError(
                f"`max_examples` is `{self.max_examples}`",
                hint="give a number from 1 on, or leave it out to take all",
            )


def make_record(
    number: int,
    paragraphs: Sequence[Paragraph],
    counts: Mapping[str, int],
    tokenizer: QaTokenizer,
    shape: Shape,
    folder: Path,
) -> dict[str, Any]:
    """Make a unit, write its tables into `folder`, and say what it is; `counts` are what reading it found."""
    made = make_unit(paragraphs, tokenizer, shape)
    files = made.unit.write(folder, number)
    return {
        "unit": [*made.unit.rows, sum(file["bytes"] for file in files)],
        "files": files,
        "counts": {**made.counts, **counts},
        "inexact": made.inexact,
    }


def totals_of(job: FeatureJob, records: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    units: list[list[int]] = []
    files: list[dict[str, Any]] = []
    inexact: list[str] = []
    for record in records:
        units.append(record["unit"])
        files += record["files"]
        counts.update(record["counts"])
        inexact += record["inexact"][: MOST_LISTED - len(inexact)]
    paragraphs, examples, features, size = (sum(unit[column] for unit in units) for column in range(4))
    if not features:
        raise _nothing_made(job.source.name, counts)
    return {
        "paragraphs": paragraphs,
        "examples": examples,
        "features": features,
        "bytes": size,
        "counts": dict(sorted(counts.items())),
        "inexact": inexact,
        "units": units,
        "files": files,
    }


def _nothing_made(name: str, counts: Counter[str]) -> InputError:
    why = ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in sorted(counts.items()))
    return InputError(
        f"no question of `{name}` has a feature: {why or 'it has none'}",
        hint="give a larger max_seq_length or a smaller doc_stride, and check the answers",
    )


@dataclass(frozen=True, slots=True)
class UnitInput:
    number: int
    paragraphs: list[Paragraph]
    characters: int
    read_bytes: int
    counts: dict[str, int]


def unit_inputs(
    job: FeatureJob, *, ids: int, room: int | None = None, limit: int | None = None
) -> Iterator[UnitInput]:
    """Paragraphs in stretches of `UNIT_CHARACTERS`, without questions whose id came before.

    `ids` is the share of these; what does not fit into `room` is refused, if it is made here, with the budget
    instead of `limit` that would do.
    """

    def would_do(needed: int) -> str:
        assert room is not None and limit is not None
        missing = needed - room
        # Of what a larger budget leaves, the ids of questions have an equal part, as far as they may need it.
        return (
            f"{memory_flag(limit + missing + min(missing, max(0, most_for_ids(job.source) - ids)))} would do"
        )

    seen = SeenIds(ids)
    number = size = answers = read = 0
    some: list[Paragraph] = []
    for paragraph in first_questions(_paragraphs(job, room, would_do), job.max_examples):
        if room is not None:
            check_fits(paragraph, room, job.tokenizer, would_do)
        some.append(paragraph)
        size += paragraph.size
        answers += paragraph.answer_size
        if size >= UNIT_CHARACTERS or answers >= UNIT_ANSWERS:
            kept, counts = _without_duplicates(some, seen)
            yield UnitInput(number, kept, max(size, answers), job.source.position - read, counts)
            number, size, answers, read, some = number + 1, 0, 0, job.source.position, []
    if some:
        kept, counts = _without_duplicates(some, seen)
        yield UnitInput(number, kept, max(size, answers), job.source.position - read, counts)


def _paragraphs(job: FeatureJob, room: int | None, would_do: Callable[[int], str]) -> Iterator[Paragraph]:
    """Of the source, as far as each of its records can be held."""
    longest = None if room is None else room // HELD_PER_RECORD_BYTE
    try:
        yield from job.source.paragraphs(longest)
    except RecordTooLong as error:
        assert room is not None
        needed = error.size * HELD_PER_RECORD_BYTE
        raise BudgetError(
            f"{error.place} has up to {error.size:,} bytes, which take {needed // 10**6:,} MB, and the budget"
            f" leaves {room // 10**6:,} MB for it",
            hint=f"{would_do(record_needs(error.size, job.tokenizer))}, or take out some of its answers",
        ) from None


def check_fits(
    paragraph: Paragraph,
    share: int,
    tokenizer: QaTokenizer,
    would_do: Callable[[int], str] | None = None,
) -> None:
    """A context is never cut before it is tokenised, so a very long one may need more than was planned;
    `would_do` says which budget has such a share."""
    needed = text_needs(paragraph.size, tokenizer)
    if paragraph.size > UNIT_CHARACTERS and needed > share:
        more = f"give at least {-(-2 * (needed - share) // 10**6)} MB more --memory"
        raise BudgetError(
            f"a context of {len(paragraph.context):,} characters takes {needed // 10**6:,} MB, and the budget"
            f" leaves {share // 10**6:,} MB for it",
            hint=f"{would_do(needed) if would_do else more}, or cut the context",
        )


def _without_duplicates(
    paragraphs: Sequence[Paragraph], seen: SeenIds
) -> tuple[list[Paragraph], dict[str, int]]:
    new = seen.add([question.id for paragraph in paragraphs for question in paragraph.questions])
    if new.all():
        return list(paragraphs), {}
    kept: list[Paragraph] = []
    at = 0
    for paragraph in paragraphs:
        flags = new[at : at + len(paragraph.questions)]
        at += len(flags)
        questions = [question for question, is_new in zip(paragraph.questions, flags, strict=True) if is_new]
        kept.append(Paragraph(paragraph.context, questions))
    return kept, {DUPLICATES: int(np.count_nonzero(~new))}
