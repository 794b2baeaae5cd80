"""How conversations are read and rendered, and why one is left out.

In: what the config says. Out: frozen settings; a `ChatDrop` with a reason that is counted. Nothing is held.

It imports no more than a process that only renders needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, NamedTuple

Form = Literal["messages", "conversations", "alpaca", "prompt_completion", "text"]
TrainOnEos = Literal["all", "turn", "last", "none"]
RewrittenTurns = Literal["error", "last", "unroll"]
SpecialInContent = Literal["text", "drop", "allow"]

OTHER_ROLES: Final[Mapping[str, str]] = {"human": "user", "gpt": "assistant"}
"""Names of roles that are known anyway, and how they are read."""
TOKENIZER_DEFAULT: Final = "tokenizer_default"
# Names of templates; with tools, the second goes before the first.
DEFAULT: Final = "default"
TOOL_USE: Final = "tool_use"
# A document of the corpus has 4 MB at most, and a template adds to it.
MAX_RENDERED_BYTES: Final = 16_000_000

REASONS: Final[Mapping[str, str]] = {
    "unknown_form": "not a form of conversation that is known",
    "empty_conversation": "no messages",
    "bad_message": "a message that is not an object with a role",
    "bad_content": "a message whose content is not text",
    "no_content": "a message without content, tool calls or reasoning",
    "image_content": "a message with an image",
    "audio_content": "a message with audio",
    "video_content": "a message with video",
    "unknown_content": "a message with a part of another kind than text",
    "bad_tool_calls": "tool calls that are not a list of objects",
    "bad_tool_arguments": "arguments of a tool call that are not a JSON object",
    "bad_tools": "tools that are not a list of objects",
    "bad_template_kwargs": "chat_template_kwargs that are not an object",
    "bad_training_flag": "a flag or span that says what to train on and can't be read",
    "invalid_unicode": "text that is not Unicode",
    "bad_value": "a value that can't be read, as a number of thousands of digits",
    "too_deep": "values inside of values, too many times",
    "template_error": "the template refused the conversation",
    "template_too_long": "the template wrote more than max_document_bytes",
    "template_too_many_steps": "the template took too many steps",
    "message_not_rendered": "the template leaves out a message",
    "too_many_turns": "more turns than can be told apart",
    "turn_not_placed": "a turn that is not in the rendering as the model would write it",
    "markers_not_placed": "markers of the template that its own filters moved",
    "detail_not_placed": "spans to train on whose text the template changed",
    "control_not_placed": "control tokens in a message whose place the template hides",
    "control_in_name": "control tokens in a role or a name",
    "control_in_content": "control tokens in a message",
    "control_in_text": "text that the tokenizer encodes as a control token",
    "untrained": "nothing to train on",
}


# Conversations without anything to train on, of which a run takes only `max_untrained`.
UNTRAINED_REASONS: Final = ("untrained", "turn_not_placed")


@dataclass(frozen=True, slots=True)
class ChatFormat:
    """How rows of one source are read; the names are axolotl's."""

    field_messages: str | None = None
    message_property_mappings: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, Sequence[str]] = field(default_factory=dict)
    roles_to_train: Sequence[str] = ("assistant",)
    train_on_eos: TrainOnEos = "turn"
    drop_system_message: bool = False
    message_field_training: str | None = None
    message_field_training_detail: str | None = None
    form: Form | None = None
    """None: found by itself, row by row."""


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """How a run renders conversations."""

    chat_template: str = TOKENIZER_DEFAULT
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    date: str | None = None
    """What templates take for today, as `2026-01-31` or with a time."""
    rewritten_turns: RewrittenTurns = "error"
    special_in_content: SpecialInContent = "text"
    max_rendered_bytes: int = MAX_RENDERED_BYTES


class KnownToken(NamedTuple):
    """An added token of the tokenizer."""

    content: str
    id: int
    special: bool


@dataclass(frozen=True, slots=True)
class RendererSettings:
    """All that renderings follow from, read from the files of a tokenizer: values that JSON can say, so that
    another process, or another machine without these files, makes the same of them."""

    origin: str
    """What the template is called in messages."""
    templates: Mapping[str, str]
    special: Mapping[str, str]
    """Special tokens by the names that templates know."""
    added: Sequence[KnownToken]
    options: ChatOptions

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "added": [list(token) for token in self.added]}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> RendererSettings:
        added = [KnownToken(*token) for token in found["added"]]
        return cls(**{**found, "added": added, "options": ChatOptions(**found["options"])})


class ChatDrop(Exception):
    """A row that is left out: `reason` is a key of `REASONS`, `detail` what was found."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{REASONS[reason]}: {detail}" if detail else REASONS[reason])
        self.reason = reason
        self.detail = detail
