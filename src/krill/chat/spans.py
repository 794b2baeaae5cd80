"""Where each turn stands in a rendering, without markers: exact, or refused.

In: a conversation and a way to render it. Out: samples, each a rendering with the turns in it. Held in
memory: the renderings of one conversation.

For an assistant's message i, P is the rendering of what comes before it with the generation prompt, and Q the
rendering up to it. The model is asked with P, so what it has to write is Q after P, if Q begins with P; and
this stands in a longer rendering, if that begins with Q. Templates that rewrite earlier turns break this:
then turns need samples of their own.

Where Q does not begin with P, the template may have another P for it: some end the prompt with a block of
thoughts, open or closed, as a variable says. The turn is an answer to that prompt, if Q is the same text with
the variable. Or the message changes what stands before P's end, as gpt-oss drops the reasoning of a tool call
once it is answered: then P and what Q has behind P's end make a sample.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from krill.chat.options import ChatDrop, RewrittenTurns
from krill.errors import shown

# Each turn takes two renderings of all that comes before it; `many_turns` places more.
MOST_TURNS: Final = 256
# Of texts that differ, so many characters on both sides are told.
_TOLD: Final = 40
Switch = Mapping[str, bool]


@dataclass(frozen=True, slots=True)
class Renderings:
    """How a conversation is rendered."""

    messages: Sequence[dict[str, Any]]
    render: Callable[[Sequence[dict[str, Any]], bool, Switch], str]
    """Of some messages; whether the generation prompt follows, and variables besides those of the run."""
    switches: Sequence[Switch] = ()
    """Variables that decide how the generation prompt ends."""
    answer_at: Callable[[str, str, int], int | None] = lambda prompt, whole, message: None
    """Where in the second text what follows the first begins, which asks for that message, if the messages
    before it are rendered otherwise there; None if that is not known."""

    def up_to(self, count: int) -> str:
        """The first messages."""
        return self.render(self.messages[:count], False, {})

    def prompt(self, message: int) -> str:
        """What a model is asked with for a message."""
        return self.render(self.messages[:message], True, {})

    def asked(self, message: int, whole: str) -> str | None:
        """What a model is asked with for a message that ends `whole`, if it begins with that."""
        prompt = self.prompt(message)
        if whole.startswith(prompt):
            return prompt
        for switch in self.switches:
            prompt = self.render(self.messages[:message], True, switch)
            same = whole.startswith(prompt)
            if same and self.render(self.messages[: message + 1], False, switch) == whole:
                return prompt
        return None


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
    whole: str | None = None
    """The rendering of the messages, where the text is a prompt and what that rendering ends with."""


class RewrittenTurn(Exception):
    """A turn that stands in the conversation otherwise than the model would have written it; or, if not
    `asked`, that does not go on from the generation prompt."""

    def __init__(self, *, asked: bool, difference: str) -> None:
        super().__init__()
        self.asked = asked
        self.difference = difference


def too_many(messages: Sequence[dict[str, Any]]) -> ChatDrop:
    return ChatDrop("too_many_turns", f"{len(messages):,} messages")


def place_turns(
    given: Renderings, wanted: Sequence[int], rewritten: RewrittenTurns, last_other: int = -1
) -> list[TurnSample]:
    """The samples of a conversation in order, with the turns of the messages in `wanted`; they hold also
    `last_other`, the last message to train on that is no assistant's.

    Where the template rewrites a turn: `error` raises `RewrittenTurn`, `last` leaves the turn out, and
    `unroll` makes a sample that ends with it. A turn that does not go on from a generation prompt can't be
    trained at all.
    """
    count = len(given.messages)
    if count > MOST_TURNS:
        raise too_many(given.messages)
    samples = [TurnSample(count, given.up_to(count))]
    differences = []
    for message in reversed(wanted):
        sample = samples[-1]
        last = sample.messages == message + 1 and sample.whole is None
        whole = sample.text if last else given.up_to(message + 1)
        prompt, unchanged = given.asked(message, whole), sample.text.startswith(whole)
        if prompt is None:
            differences.append(_difference(message, given.prompt(message), whole))
        if rewritten == "error" and not (prompt is not None and unchanged):
            raise RewrittenTurn(asked=prompt is not None, difference="".join(differences))
        if prompt is None and rewritten == "unroll":
            own = _after_prompt(given, message, whole)
            samples += [own] if own else []
        elif prompt is not None and (unchanged or rewritten == "unroll"):
            if not unchanged:
                sample = TurnSample(message + 1, whole)
                samples.append(sample)
            sample.turns.insert(0, Turn(message, len(prompt), len(whole)))
    if wanted and not any(sample.turns for sample in samples):
        raise ChatDrop("turn_not_placed", differences[-1] if differences else "")
    found = [sample for sample in reversed(samples) if sample.turns or len(samples) == 1]
    return found if found[-1].messages > last_other else [*found, samples[0]]


def _after_prompt(given: Renderings, message: int, whole: str) -> TurnSample | None:
    """The prompt for a message and its answer, whose rendering has another text before it."""
    prompt = given.prompt(message)
    at = given.answer_at(prompt, whole, message)
    if at is None:
        return None
    text = prompt + whole[at:]
    return TurnSample(message + 1, text, [Turn(message, len(prompt), len(text))], whole)


def _difference(message: int, prompt: str, whole: str) -> str:
    """What a model is asked with, and what it would have to write, from where both differ."""
    same = next(
        (at for at, (one, other) in enumerate(zip(prompt, whole, strict=False)) if one != other),
        min(len(prompt), len(whole)),
    )
    begin = max(0, same - _TOLD)
    asked, written = (shown(text[begin : same + _TOLD]) for text in (prompt, whole))
    return f"for message {message + 1} the model is asked with `{asked}`, and the template writes `{written}`"
