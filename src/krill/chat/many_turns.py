"""Where turns stand in a conversation of more messages than each could be rendered for.

In: a conversation whose texts are sentinels, and a way to render it. Out: its rendering with all turns. Held
in memory: that, and the texts around the turns that were checked.

The turns among the first messages, and the last, are placed as `spans` does. Each other has to stand between
the same texts, from the sentinel before it to the one after it, as one of these; if it does not, or if one
that was checked is rewritten, the conversation is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from krill.chat.skeleton import SENTINEL, Owner
from krill.chat.spans import Renderings, Turn, TurnSample, too_many

# Of a conversation, so many messages at its beginning are looked at one by one.
_CHECKED: Final = 64
MOST_PLACED: Final = 4096
"""Places of more messages would be held above what the plan has for a row."""
_SPACED: Final = re.compile('(\\s*)\U0001fffe"(\\d+)\U0001ffff(\\s*)')


class _Around(NamedTuple):
    """The texts around and between a message's sentinels, and how these are escaped."""

    before: str
    between: tuple[str, ...]
    after: str
    escapes: tuple[str, ...]


class _Place(NamedTuple):
    begin: int
    end: int
    around: _Around


def place_many_turns(given: Renderings, wanted: Sequence[int], owners: Sequence[Owner]) -> TurnSample:
    """All wanted turns; `ChatDrop` if one can't be placed."""
    messages = given.messages
    if len(messages) > MOST_PLACED:
        raise too_many(messages)
    text = given.up_to(len(messages))
    places = _places(text, owners, dict(_spaces(messages)))
    if not places.keys() >= set(wanted):
        raise too_many(messages)
    margins: dict[_Around, tuple[int, int]] = {}
    for number in {*(each for each in wanted if each < _CHECKED), *wanted[-1:]}:
        whole = given.up_to(number + 1)
        prompt = given.asked(number, whole)
        if prompt is None or not text.startswith(whole):
            raise too_many(messages)
        begin, end, around = places[number]
        before, after = margin = begin - len(prompt), len(whole) - end
        inside = 0 <= before <= len(around.before) and 0 <= after <= len(around.after)
        if not inside or margins.setdefault(around, margin) != margin:
            raise too_many(messages)
    turns = []
    for number in wanted:
        begin, end, around = places[number]
        if around not in margins:
            raise too_many(messages)
        before, after = margins[around]
        turns.append(Turn(number, begin - before, end + after))
    return TurnSample(len(messages), text, turns)


def _places(text: str, owners: Sequence[Owner], spaces: Mapping[int, tuple[str, str]]) -> dict[int, _Place]:
    """The messages by number whose sentinels stand together, each once. Whitespace beside a sentinel that is
    the message's own counts as a part of it."""
    known: dict[Any, Any] = {}  # what is the same in many messages is held once

    def once(value: Any) -> Any:
        return known.setdefault(value, value)

    whose, escapes, begins, ends = [], [], [], [0]
    for match in SENTINEL.finditer(text):
        before, after = spaces.get(int(match[2]), ("", ""))
        begin, end = match.start() - len(before), match.end()
        begins.append(begin if begin >= ends[-1] and text.startswith(before, begin) else match.start())
        ends.append(end + len(after) if text.startswith(after, end) else end)
        whose.append(owners[int(match[2])].message)
        escapes.append(once(match[1]))
    begins.append(len(text))
    literals = [once(text[end:begin]) for end, begin in zip(ends, begins, strict=True)]
    places: dict[int, _Place] = {}
    apart: set[int] = set()
    for message, group in groupby(range(len(whose)), key=whose.__getitem__):
        first, *more = group
        last = more[-1] if more else first
        if message in places:
            apart.add(message)
        between = tuple(literals[first + 1 : last + 1])
        around = _Around(literals[first], between, literals[last + 1], tuple(escapes[first : last + 1]))
        places[message] = _Place(begins[first], ends[last + 1], once(around))
    return {message: place for message, place in places.items() if message not in apart}


def _spaces(value: Any) -> Iterator[tuple[int, tuple[str, str]]]:
    """The whitespace of messages beside the sentinels in them, where there is any."""
    if isinstance(value, str):
        for match in _SPACED.finditer(value):
            if match[1] or match[3]:
                yield int(match[2]), (match[1], match[3])
    elif isinstance(value, Mapping | Sequence):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _spaces(item)
