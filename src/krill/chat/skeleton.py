"""Conversations of one shape share an analysis: their turns are placed once, with sentinels as contents.

In: conversations and their renderings. Out: samples as of `spans`, and where each content stands in them.
Held in memory: the analyses of recent shapes, `MOST_BYTES` of text at most.

Each text of a message is replaced by a sentinel, whitespace at its ends and what the template looks for in it
kept. The rendering of that is the skeleton. If the skeleton with the contents put back is the true rendering,
then all that is known of the skeleton holds for the conversation.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple

import orjson

from krill.chat.control import NAMES, any_of
from krill.chat.forms import Conversation, Message
from krill.chat.options import ChatDrop
from krill.chat.spans import Renderings, RewrittenTurn, Turn, TurnSample

MOST_BYTES: Final = 8_000_000
# The quotation mark shows whether a text was written as JSON, and how often.
_MARK: Final = "\U0001fffe"
SENTINEL: Final = re.compile('\U0001fffe(\\\\*)"(\\d+)\U0001ffff')
_TOOLS: Final = -1


class Owner(NamedTuple):
    """Whose text a sentinel stands for: `begin` is its place in the value."""

    message: int
    key: str
    begin: int


class Margin(NamedTuple):
    """Whitespace of a content at one side of its text that the template keeps: how many characters, and as
    how many it writes them."""

    kept: int = 0
    written: int = 0


Side = Literal["before", "after"]
BEFORE: Final = "before"
AFTER: Final = "after"
_BY_WHITESPACE: Final = "how the template renders a message depends on whitespace around it"

# Places the turns of a shape, whose sentinels have these owners.
Analyse = Callable[[Conversation, Sequence["Owner"]], list[TurnSample]]


class Place(NamedTuple):
    """Where the text of an owner stands in a sample, as it is or escaped so many times; `length` is that of
    the text itself."""

    owner: Owner
    begin: int
    end: int
    escapes: int
    length: int


@dataclass(frozen=True, slots=True)
class PlacedSample:
    """A sample of the first messages with its turns and the places of all contents; `places` is None if those
    are not known."""

    messages: int
    text: str
    turns: list[Turn]
    places: list[Place] | None
    answer_at: int | None = None
    """Where in the rendering of the messages that part begins which stands behind a prompt in the text; None
    if the text is the rendering."""


class _Blank:
    """A conversation with sentinels instead of its texts."""

    def __init__(self, conversation: Conversation, kept: re.Pattern[str] | None) -> None:
        self._kept = kept
        self.values: list[str] = []
        self.owners: list[Owner] = []
        self.messages = [self._message(*each) for each in enumerate(conversation.messages)]
        self.tools = self._tools(conversation.tools)

    def _message(self, number: int, message: Message) -> Message:
        known: dict[str, str] = {}
        return {key: self._value(key, value, number, message, known) for key, value in message.items()}

    # Not a function inside of the other: a cycle would hold the texts until garbage is collected.
    def _value(self, key: str, value: Any, number: int, message: Message, known: dict[str, str]) -> Any:
        if isinstance(value, str):
            if key in NAMES:
                return value
            # Reasoning stands under several keys.
            if value not in known:
                known[value] = self._text(value, number, key, message["role"] == "assistant")
            return known[value]
        if isinstance(value, Mapping):
            return {name: self._value(name, item, number, message, known) for name, item in value.items()}
        if not isinstance(value, Sequence):
            return value
        return [self._value(key, item, number, message, known) for item in value]

    def _tools(self, value: Any, key: str = "") -> Any:
        """Only descriptions: templates compare what else there is."""
        if isinstance(value, str):
            return self._text(value, _TOOLS, key, False) if key == "description" else value
        if isinstance(value, Mapping):
            return {name: self._tools(item, name) for name, item in value.items()}
        return [self._tools(item) for item in value] if isinstance(value, Sequence) else value

    def _text(self, text: str, message: int, key: str, own: bool) -> str:
        if not own or self._kept is None:
            return self._piece(text, message, key, 0)
        pieces, at = [], 0
        for match in self._kept.finditer(text):
            pieces += [self._piece(text[at : match.start()], message, key, at), match.group()]
            at = match.end()
        return "".join([*pieces, self._piece(text[at:], message, key, at)])

    def _piece(self, text: str, message: int, key: str, at: int) -> str:
        core = text.strip()
        if not core:
            return text
        begin = text.index(core)
        self.values.append(core)
        self.owners.append(Owner(message, key, at + begin))
        number = len(self.values) - 1
        return f'{text[:begin]}\U0001fffe"{number}\U0001ffff{text[begin + len(core) :]}'


class _Skeleton:
    """One rendering with sentinels: literals, and between them the numbers and escapes of values."""

    def __init__(self, sample: TurnSample) -> None:
        self.messages = sample.messages
        self.turns = sample.turns
        self.literals: list[str] = []
        self.numbers: list[int] = []
        self.escapes: list[int] = []
        self.ends: list[int] = []
        self.spaces: dict[int, tuple[Margin, Margin]] = {}
        """The whitespace before and after values, where that was looked at."""
        self.size = len(sample.text)
        self.whole = None if sample.whole is None else _Skeleton(TurnSample(sample.messages, sample.whole))
        at = 0
        for match in SENTINEL.finditer(sample.text):
            self.literals.append(sample.text[at : match.start()])
            self.numbers.append(int(match[2]))
            # Each escape doubles the backslashes and adds one.
            self.escapes.append((len(match[1]) + 1).bit_length() - 1)
            at = match.end()
            self.ends.append(at)
        self.literals.append(sample.text[at:])

    def values(self, given: Sequence[str]) -> list[str]:
        return [
            escaped(given[number], escapes)
            for number, escapes in zip(self.numbers, self.escapes, strict=True)
        ]

    def fill(self, given: Sequence[str]) -> str:
        values = self.values(given)
        pieces = [text for pair in zip(self.literals, values, strict=False) for text in pair]
        return "".join([*pieces, self.literals[-1]])

    def place(
        self, text: str, given: Sequence[str], owners: Sequence[Owner], answer_at: int | None
    ) -> PlacedSample:
        """The sample whose true text is `text`."""
        places, at = [], 0
        values = self.values(given)
        shifts = [0]
        for literal, value, number, escapes, end in zip(
            self.literals, values, self.numbers, self.escapes, self.ends, strict=False
        ):
            at += len(literal)
            place = Place(owners[number], at, at + len(value), escapes, len(given[number]))
            places.append(_widened(place, *self.spaces[number]) if number in self.spaces else place)
            at += len(value)
            shifts.append(at - end)

        def moved(position: int) -> int:
            return position + shifts[bisect_right(self.ends, position)]

        turns = [Turn(turn.message, moved(turn.begin), moved(turn.end)) for turn in self.turns]
        return PlacedSample(self.messages, text, turns, places, answer_at)


class Skeletons:
    """Places turns by the skeletons of recent shapes; `looked_for` is what the template looks for in
    an assistant's text."""

    def __init__(self, looked_for: Sequence[str]) -> None:
        self._kept = any_of(looked_for)
        self._known: OrderedDict[bytes, list[_Skeleton]] = OrderedDict()
        self._bytes = 0

    def place(
        self,
        conversation: Conversation,
        text: str,
        analyse: Analyse,
        renderings: Renderings,
    ) -> list[PlacedSample] | None:
        """The samples of a conversation that is rendered as `text`, and its first messages as `renderings`
        say; None if it depends on the contents how they are rendered."""
        if _MARK in text:
            return None
        blank = _Blank(conversation, self._kept)
        shape = Conversation(
            blank.messages, conversation.trained, conversation.details, blank.tools, conversation.kwargs
        )
        skeletons = self._skeletons(shape, blank.owners, analyse)
        if not skeletons:
            return None
        placed = []
        for skeleton in skeletons:
            all_of_them = skeleton.messages == len(conversation.messages)
            true = text if all_of_them else renderings.up_to(skeleton.messages)
            if (skeleton.whole or skeleton).fill(blank.values) != true:
                return None
            answer_at = None
            if skeleton.whole is not None:
                prompt, whole = renderings.prompt(skeleton.messages - 1), true
                true = skeleton.fill(blank.values)
                answer_at = len(whole) - (len(true) - len(prompt))
                if true != prompt + whole[answer_at:]:
                    return None
            placed.append(skeleton.place(true, blank.values, blank.owners, answer_at))
        _check_all_rendered(conversation.messages[: skeletons[-1].messages], placed[-1], blank.owners)
        return placed

    def _skeletons(self, shape: Conversation, owners: Sequence[Owner], analyse: Analyse) -> list[_Skeleton]:
        key = orjson.dumps([shape.messages, shape.tools, shape.kwargs, shape.trained], default=str)
        found = self._known.get(key)
        if found is not None:
            self._known.move_to_end(key)
            return found
        try:
            found = [_Skeleton(sample) for sample in analyse(shape, owners)]
            for side in (BEFORE, AFTER):
                bare, spaces = _without_spaces(shape, side)
                if spaces:
                    others = [_Skeleton(sample) for sample in analyse(bare, owners)]
                    _note_spaces(found, others, spaces, side)
        except (ChatDrop, RewrittenTurn):
            found = []  # what stands for the contents has no say in it: they themselves are to be looked at
        self._known[key] = found
        self._bytes += _cost(key, found)
        while self._bytes > MOST_BYTES and len(self._known) > 1:
            self._bytes -= _cost(*self._known.popitem(last=False))
        return found


def _without_spaces(shape: Conversation, side: Side) -> tuple[Conversation, dict[int, str]]:
    """The shape without whitespace at one side of contents that are trained and no assistant's; and that, by
    the numbers of the sentinels. Of an assistant's it is known: what it writes begins with the prompt's
    end."""
    spaces: dict[int, str] = {}
    messages = []
    for message, trained in zip(shape.messages, shape.trained, strict=True):
        if trained and message["role"] != "assistant" and isinstance(message.get("content"), str):
            content = message["content"]
            bare = content.lstrip() if side == BEFORE else content.rstrip()
            match = SENTINEL.fullmatch(content.strip())
            if match is not None and bare != content:
                more = len(content) - len(bare)
                spaces[int(match[2])] = content[:more] if side == BEFORE else content[len(bare) :]
                message = {**message, "content": bare}
        messages.append(message)
    return replace(shape, messages=messages), spaces


def _widened(place: Place, before: Margin, after: Margin) -> Place:
    return place._replace(
        owner=place.owner._replace(begin=place.owner.begin - before.kept),
        begin=place.begin - before.written,
        end=place.end + after.written,
        length=before.kept + place.length + after.kept,
    )


def _note_spaces(
    found: Sequence[_Skeleton], others: Sequence[_Skeleton], spaces: Mapping[int, str], side: Side
) -> None:
    """Compare skeletons with those without whitespace at one side of some texts; `ChatDrop` where these
    differ in more than that."""
    if [each.numbers for each in found] != [each.numbers for each in others]:
        raise ChatDrop("turn_not_placed", _BY_WHITESPACE)
    for skeleton, other in zip(found, others, strict=True):
        # The texts that the literals go before, or stand behind.
        beside = [*zip(skeleton.numbers, skeleton.escapes, strict=True)]
        beside = [*beside, (-1, 0)] if side == BEFORE else [(-1, 0), *beside]
        for (number, times), literal, bare in zip(beside, skeleton.literals, other.literals, strict=True):
            margin = _margin(literal, bare, spaces.get(number, ""), times, side)
            if number in spaces:
                before, after = skeleton.spaces.get(number, (Margin(), Margin()))
                skeleton.spaces[number] = (margin, after) if side == BEFORE else (before, margin)


def _margin(literal: str, bare: str, space: str, escapes: int, side: Side) -> Margin:
    """How much of the whitespace beside a text stands in the literal, which is else the bare one."""
    more = len(literal) - len(bare)
    written = literal[len(bare) :] if side == BEFORE else literal[: max(0, more)]
    try:
        kept = written
        for _ in range(escapes):
            kept = json.loads(f'"{kept}"')
    except ValueError:
        raise ChatDrop("turn_not_placed", _BY_WHITESPACE) from None
    whole = bare + escaped(kept, escapes) if side == BEFORE else escaped(kept, escapes) + bare
    if (
        more < 0
        or whole != literal
        or not (space.endswith(kept) if side == BEFORE else space.startswith(kept))
    ):
        raise ChatDrop("turn_not_placed", _BY_WHITESPACE)
    return Margin(len(kept), len(written))


def marked_turns(
    text: str, spans: Sequence[tuple[int, int]], owners: Sequence[Owner], messages: Sequence[Message]
) -> list[Turn]:
    """The turns of a skeleton that a template marks: each is the assistant's whose text it holds. One without
    text is that of a message without text, if it can be told of which; else `ChatDrop`. Where no such message
    is, it belongs to the answer before it, or to the next."""
    found = [(match.start(), owners[int(match[2])].message) for match in SENTINEL.finditer(text)]
    found = [(at, message) for at, message in found if message != _TOOLS]
    begins = [at for at, _ in found]
    rendered = {message for _, message in found}
    assistants = [number for number, message in enumerate(messages) if message["role"] == "assistant"]
    turns: list[Turn] = []
    empty: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for begin, end in spans:
        first, past = bisect_left(begins, begin), bisect_left(begins, end)
        own = {message for _, message in found[first:past]} & set(assistants)
        if len(own) > 1:
            raise ChatDrop("turn_not_placed", "the template marks several turns as one")
        if own:
            turns.append(Turn(own.pop(), begin, end))
        elif begin < end:
            neighbours = (found[first - 1][1] if first else -1, _message_at(found, past, len(messages)))
            empty.setdefault(neighbours, []).append((begin, end))
    for (before, after), some in empty.items():
        silent = [each for each in assistants if before < each < after and each not in rendered]
        if not silent:
            silent = [before if before in assistants else next((n for n in assistants if n > before), before)]
        elif len(silent) != len(some) and (len(silent) > 1 or {before, after} & set(assistants)):
            raise ChatDrop("turn_not_placed", "the template marks turns without text")
        if len(silent) == 1:
            silent *= len(some)
        turns += [Turn(message, begin, end) for message, (begin, end) in zip(silent, some, strict=True)]
    return sorted(turns, key=lambda turn: turn.begin)


def _message_at(found: Sequence[tuple[int, int]], number: int, past: int) -> int:
    return found[number][1] if number < len(found) else past


def answer_at(owners: Sequence[Owner], prompt: str, whole: str, message: int) -> int | None:
    """Where in the second text, whose contents are sentinels as those of the first, the message begins that
    the first asks for: behind the last text of another message, both go on in the same way to the prompt's
    end, and the message's own texts come after that."""
    asked = [*SENTINEL.finditer(prompt)]
    written = [*SENTINEL.finditer(whole)]
    others = [match for match in written if owners[int(match[2])].message != message]
    own = [match for match in written if owners[int(match[2])].message == message]
    if not asked or not others or not own or asked[-1].group() != others[-1].group():
        return None
    header = prompt[asked[-1].end() :]
    begin = others[-1].end() + len(header)
    follows = bool(header) and whole.startswith(header, others[-1].end()) and begin <= own[0].start()
    return begin if follows else None


def _cost(key: bytes, skeletons: Sequence[_Skeleton]) -> int:
    return len(key) + sum(
        4 * part.size + 200 * len(part.numbers)
        for each in skeletons
        for part in (each, each.whole)
        if part is not None
    )


def escaped(text: str, times: int) -> str:
    """The text as JSON, so many times, without quotation marks around it."""
    for _ in range(times):
        text = json.dumps(text, ensure_ascii=False)[1:-1]
    return text


def _check_all_rendered(messages: Sequence[Message], placed: PlacedSample, owners: Sequence[Owner]) -> None:
    """A template may pass over a message whose role it does not know."""
    there = {place.owner.message for place in placed.places or () if place.owner.key == "content"}
    missing = {owner.message for owner in owners if owner.key == "content"} - there
    missing &= set(range(len(messages)))
    if missing:
        number = min(missing)
        role = messages[number]["role"]
        raise ChatDrop("message_not_rendered", f"message {number + 1}, of the role `{role}`")
