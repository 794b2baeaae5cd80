"""From turns to the spans that are trained: which messages, which of their characters, which stop tokens.

In: a sample with its turns, and what the row and the config say. Out: spans in characters, in order, that do
not overlap. Nothing is held.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from krill.chat.control import ControlTokens, Guard
from krill.chat.forms import Conversation, Span
from krill.chat.options import ChatDrop, ChatFormat
from krill.chat.skeleton import Place, PlacedSample, escaped
from krill.chat.spans import Turn


def trained_spans(
    sample: PlacedSample,
    since: int,
    given: Conversation,
    format: ChatFormat,
    control: ControlTokens,
    guards: Sequence[Guard],
    marked: bool,
) -> list[Span]:
    """What of a sample is trained, without messages before `since`, which stand in an earlier one. Where the
    template marks it, that is taken as it is; else a turn ends with its stop token: the model writes nothing
    after it."""
    if marked and format.train_on_eos == "turn" and sample.places is None:
        return _merged((turn.begin, turn.end) for turn in sample.turns)
    turns = [turn for turn in sample.turns if turn.message < 0 or given.trained[turn.message]]
    turns = sorted([*turns, *_other_turns(sample, since, given, control)], key=lambda turn: turn.begin)
    guarded = {begin for begin, _, _ in guards}
    stops = [_stop_of(turn, sample.text, control, guarded) for turn in turns]
    last = max((number for number, stop in enumerate(stops) if stop), default=-1)
    spans: list[Span] = []
    for number, (turn, stop) in enumerate(zip(turns, stops, strict=True)):
        keeps_stop = format.train_on_eos in ("turn", "all") or (
            format.train_on_eos == "last" and number == last
        )
        detail = None if turn.message < 0 else given.details[turn.message]
        if detail is not None:
            spans += _detail_spans(sample, turn, given.messages[turn.message].get("content", ""), detail)
        elif marked and (keeps_stop or stop is None):
            spans.append((turn.begin, turn.end))
        else:
            spans.append((turn.begin, turn.end if stop is None else stop[0]))
        if stop is not None and keeps_stop:
            spans.append(stop)
    if format.train_on_eos == "all":
        written = {sample.text[begin:end] for stop in stops if stop for begin, end in [stop]}
        spans += [
            span for text in written for span in _occurrences(sample.text, text) if span[0] not in guarded
        ]
    return _merged(spans)


def _stop_of(turn: Turn, text: str, control: ControlTokens, guarded: set[int]) -> Span | None:
    stop = control.last_in(text, turn.begin, turn.end)
    return None if stop is None or stop[0] in guarded else stop


def _other_turns(
    sample: PlacedSample, since: int, given: Conversation, control: ControlTokens
) -> Iterable[Turn]:
    """The turns of other roles than the assistant's: their content, and a stop token right behind it."""
    messages = enumerate(given.messages[: sample.messages])
    others = {number for number, message in messages if message["role"] != "assistant" and number >= since}
    others = {number for number in others if given.trained[number]}
    found: dict[int, Place] = {}
    for place in _places(sample) if others else ():
        number = place.owner.message
        if number in others and place.owner.key == "content":
            if number in found:
                raise ChatDrop("turn_not_placed", f"the template writes message {number + 1} twice")
            found[number] = place
    for number, place in found.items():
        yield Turn(number, place.begin, control.end_at(sample.text, place.end))


def _places(sample: PlacedSample) -> list[Place]:
    if sample.places is None:
        raise ChatDrop("turn_not_placed", "how the template renders a message depends on its text")
    return sample.places


def _detail_spans(sample: PlacedSample, turn: Turn, content: str, detail: Sequence[Span]) -> list[Span]:
    """Characters of a content, where they stand in the sample."""
    if sample.places is None:
        raise ChatDrop("detail_not_placed")
    spans: list[Span] = []
    for place in sample.places:
        if place.owner.message != turn.message or place.owner.key != "content":
            continue
        if not turn.begin <= place.begin < turn.end:
            continue  # the template writes it elsewhere, too
        spans += _detail_at(place, sample.text, turn, content, detail)
    return spans


def _detail_at(place: Place, text: str, turn: Turn, content: str, detail: Sequence[Span]) -> Iterable[Span]:
    """Where a content's text stands, and the whitespace around it if the template kept it: that is no part of
    the place."""
    first, past = place.owner.begin, place.owner.begin + place.length
    begin, end = place.begin, place.end
    while first > 0:
        before = escaped(content[first - 1], place.escapes)
        if begin - len(before) < turn.begin or not text.startswith(before, begin - len(before)):
            break
        first, begin = first - 1, begin - len(before)
    while past < len(content):
        after = escaped(content[past], place.escapes)
        if end + len(after) > turn.end or not text.startswith(after, end):
            break
        past, end = past + 1, end + len(after)
    for start, stop in _merged((max(start, first), min(stop, past)) for start, stop in detail):
        begin += _width(content, first, start, place.escapes)
        end = begin + _width(content, start, stop, place.escapes)
        yield begin, end
        first, begin = stop, end


def _width(content: str, start: int, stop: int, escapes: int) -> int:
    """How long a part of a content is as it is written."""
    return len(escaped(content[start:stop], escapes)) if escapes else stop - start


def _occurrences(text: str, part: str) -> Iterable[Span]:
    at = text.find(part)
    while at >= 0:
        yield at, at + len(part)
        at = text.find(part, at + len(part))


def _merged(spans: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for begin, end in sorted(spans):
        if begin >= end:
            continue
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged
