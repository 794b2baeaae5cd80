"""Where each turn stands in a rendering, without markers: exact, or refused.

In: a conversation and a way to render it. Out: samples, each a rendering with the turns in it. Held in
memory: the renderings of one conversation.

For an assistant's message i, P is the rendering of what comes before it with the generation prompt, and Q the
rendering up to it. The model is asked with P, so what it has to write is Q after P, if Q begins with P; and
this stands in a longer rendering, if that begins with Q. Templates that rewrite earlier turns break this:
then turns need samples of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from krill.chat.options import ChatDrop, RewrittenTurns

# Each turn takes two renderings of all that comes before it; `many_turns` places more.
MOST_TURNS: Final = 256
# The messages, and whether the generation prompt follows.
Render = Callable[[Sequence[dict[str, Any]], bool], str]


class Turn(NamedTuple):
    """What the model has to write for a message, in characters of its sample."""

    message: int
    begin: int
    end: int


@dataclass(slots=True)
class TurnSample:
    """A rendering of the first messages, and the turns to train on."""

    messages: int
    text: str
    turns: list[Turn] = field(default_factory=list)


class RewrittenTurn(Exception):
    """A turn that stands in the conversation otherwise than the model would have written it; or, if not
    `asked`, that does not go on from the generation prompt."""

    def __init__(self, *, asked: bool) -> None:
        super().__init__()
        self.asked = asked


def too_many(messages: Sequence[dict[str, Any]]) -> ChatDrop:
    return ChatDrop("too_many_turns", f"{len(messages):,} messages")


def place_turns(
    render: Render, messages: Sequence[dict[str, Any]], wanted: Sequence[int], rewritten: RewrittenTurns
) -> list[TurnSample]:
    """The samples of a conversation in order, with the turns of the messages in `wanted`.

    Where the template rewrites a turn: `error` raises `RewrittenTurn`, `last` leaves the turn out, and
    `unroll` makes a sample that ends with it. A turn that does not go on from the generation prompt can't be
    trained at all.
    """
    if len(messages) > MOST_TURNS:
        raise too_many(messages)
    samples = [TurnSample(len(messages), render(messages, False))]
    for message in reversed(wanted):
        sample = samples[-1]
        prompt = render(messages[:message], True)
        whole = sample.text if sample.messages == message + 1 else render(messages[: message + 1], False)
        asked, unchanged = whole.startswith(prompt), sample.text.startswith(whole)
        if rewritten == "error" and not (asked and unchanged):
            raise RewrittenTurn(asked=asked)
        if not asked or (rewritten == "last" and not unchanged):
            continue
        if not unchanged:
            sample = TurnSample(message + 1, whole)
            samples.append(sample)
        sample.turns.insert(0, Turn(message, len(prompt), len(whole)))
    if wanted and not any(sample.turns for sample in samples):
        raise ChatDrop("turn_not_placed")
    return [sample for sample in reversed(samples) if sample.turns or len(samples) == 1]
