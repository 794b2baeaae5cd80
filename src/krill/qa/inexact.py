"""Features whose tokens are not the answer: where a token has more than it, or only a part of a character.

Comes in: a unit. Goes out: these features, with what their tokens read as. Held in memory: a few numbers for
each feature of the unit that has an answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from krill.qa.answers import NOWHERE
from krill.qa.tables import Unit, value

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class InexactSpan:
    """A feature, the answer that it should have, and the text from its first token to its last.

    The two texts are the same where a token beside these has a part of their first or last character.
    """

    example_id: str
    segment_index: int
    answer: str
    text: str


def inexact_spans(unit: Unit, space_ids: Sequence[int] = ()) -> Iterator[InexactSpan]:
    """All of a unit; spaces around an answer don't count.

    `space_ids` are tokens of nothing but the mark of a space. Where a tokenizer puts one before a text, it
    has the span of the first character, but no part of it.
    """
    features, examples, contexts = unit.features, unit.examples, unit.paragraphs
    rows = np.flatnonzero(features.first != NOWHERE)
    example = features.example[rows]
    paragraph = examples.paragraph[example]
    window = contexts.tokens.starts[paragraph] + features.begin[rows]
    first, last = window + features.first[rows], window + features.last[rows]
    spans = contexts.spans.values.reshape(-1, 2)
    begin, end = spans[first, 0], spans[last, 1]
    is_space = np.isin(contexts.tokens.values, np.array(space_ids, np.uint32))
    cut = _share_a_character(spans, is_space, first, contexts.tokens.starts[paragraph], -1)
    cut |= _share_a_character(spans, is_space, last, contexts.tokens.starts[paragraph + 1] - 1, 1)
    differs = cut | (begin != examples.answer_begin[example]) | (end != examples.answer_end[example])
    context, context_of = "", -1
    for place in np.flatnonzero(differs).tolist():
        if context_of != paragraph[place]:
            context, context_of = value(contexts.contexts, int(paragraph[place])), int(paragraph[place])
        answer = value(examples.answer_text, int(example[place]))
        text = context[begin[place] : end[place]]
        if cut[place] or text.strip() != answer.strip():
            name = value(examples.ids, int(example[place]))
            yield InexactSpan(name, int(features.segment[rows[place]]), answer, text)


def _share_a_character(
    spans: npt.NDArray[np.int32], is_space: npt.NDArray[np.bool_], tokens: Numbers, ends: Numbers, step: int
) -> npt.NDArray[np.bool_]:
    """Whether the token before (-1) or after (1) each of some tokens, in its context, has the same span: both
    have some bytes of one character. `ends` are the contexts' last tokens on that side."""
    beside = np.where(tokens == ends, tokens, tokens + step)
    alike = (spans[beside] == spans[tokens]).all(axis=1)
    return np.asarray((beside != tokens) & alike & ~is_space[beside])
