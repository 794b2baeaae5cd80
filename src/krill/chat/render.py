"""Rows to renderings with the spans that are trained.

In: rows. Out: for each the text of one conversation or more, in what spans it is trained, and where its own
text holds a control token; or the reason why it is left out. Held in memory: the compiled templates, the
skeletons of recent shapes, and the renderings of one row.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import orjson
from jinja2.exceptions import SecurityError, TemplateError

from krill.chat.control import ControlTokens, Guard, GuardFinder
from krill.chat.forms import Conversation, Message, PlainText, Span, read_row
from krill.chat.many_turns import MOST_PLACED, place_many_turns
from krill.chat.options import DEFAULT, TOOL_USE, ChatDrop, ChatFormat, ChatOptions, RendererSettings
from krill.chat.sandbox import CompiledTemplate
from krill.chat.skeleton import Owner, PlacedSample, Skeletons, answer_at, marked_turns
from krill.chat.spans import (
    MOST_TURNS,
    Renderings,
    RewrittenTurn,
    Switch,
    Turn,
    TurnSample,
    place_turns,
    too_many,
)
from krill.chat.stops import trained_spans
from krill.errors import ConfigError, shown

_NOTHING: Final[Switch] = MappingProxyType({})
_KNOWN_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})


@dataclass(frozen=True, slots=True)
class RenderedChat:
    """A text to encode. Spans are in bytes of UTF-8, in order, and do not overlap."""

    text: bytes
    trained: tuple[Span, ...]
    content: tuple[Guard, ...]
    """Where control tokens begin that came from the row, and which tokens stay text there."""
    left_out: int = 0
    """Turns of the row that are not trained, as they do not stand in a rendering as a model would write them;
    a row's first conversation says it for all."""


class ChatRenderer:
    """Renders rows; one thread at a time uses it."""

    def __init__(
        self,
        settings: RendererSettings,
        templates: Mapping[str, CompiledTemplate],
        control: ControlTokens,
    ) -> None:
        self.settings = settings
        self.origin = settings.origin
        self.options = options = settings.options
        self.control = control
        self.warnings: tuple[str, ...] = ()
        self.stop: str | None = None
        """The token that the template ends answers with."""
        self.fixed = {**settings.special, "documents": None, **options.chat_template_kwargs}
        eos = settings.special.get("eos_token", "")
        self._eos = eos if eos in control.levels else ""
        self._guards = GuardFinder(control)
        self._templates = {name: TemplateUse(each, name == TOOL_USE) for name, each in templates.items()}

    @property
    def fingerprint(self) -> str:
        """What shapes renderings besides the options: the templates, and the tokens that they write."""
        found = [dict(self.settings.templates), dict(self.settings.special)]
        return hashlib.sha256(orjson.dumps(found, option=orjson.OPT_SORT_KEYS)).hexdigest()

    @property
    def templates(self) -> list[TemplateUse]:
        return list(self._templates.values())

    @classmethod
    def open(cls, tokenizer: str | Path, options: ChatOptions) -> ChatRenderer:
        """The renderer for the tokenizer at a path; `ConfigError` if the two don't fit."""
        from krill.chat.template import read_settings

        return cls.of(read_settings(tokenizer, options))

    @classmethod
    def of(cls, settings: RendererSettings) -> ChatRenderer:
        """The renderer that settings say; `ConfigError` if template and tokenizer don't fit."""
        from krill.chat.probe import probe

        templates = {
            name: _compiled(settings, source)
            for name, source in settings.templates.items()
            if name in (DEFAULT, TOOL_USE)
        }
        control = ControlTokens.of(
            settings.added,
            [text for template in templates.values() for text in template.literals],
            {text for template in templates.values() for text in template.looked_for},
            {text for template in templates.values() for text in template.cuts},
        )
        made = cls(settings, templates, control)
        try:
            probe(made)
        except SecurityError as error:
            raise _outside_sandbox(made.origin, error) from None
        return made

    def render(self, row: Mapping[str, Any], format: ChatFormat) -> list[RenderedChat] | ChatDrop:
        """The conversations of a row, one but with `rewritten_turns: unroll`; or why it is left out."""
        try:
            given = read_row(row, format)
            if isinstance(given, PlainText):
                return [self._plain(given, format)]
            return self._conversation(given, format)
        except ChatDrop as drop:
            return drop
        except (UnicodeEncodeError, orjson.JSONEncodeError) as error:
            return ChatDrop("invalid_unicode", str(error))
        except RecursionError:
            return ChatDrop("too_deep")
        except SecurityError as error:
            raise _outside_sandbox(self.origin, error) from None

    def prompt(self, messages: Sequence[Message], tools: Sequence[Any] | None = None) -> RenderedChat:
        """What a model is asked with to go on after these messages; `ChatDrop` if they can't be rendered."""
        given = read_row({"messages": messages, "tools": tools}, ChatFormat())
        assert isinstance(given, Conversation)

        def ask(conversation: Conversation) -> str:
            return self.text_of(conversation, prompt=True)

        text = ask(given)
        return self._rendered(text, [], self._allowed(self._guards.find(given, text, ask)))

    def text_of(
        self,
        conversation: Conversation,
        messages: Sequence[Message] | None = None,
        prompt: bool = False,
        template: TemplateUse | None = None,
        switch: Switch = _NOTHING,
    ) -> str:
        """The rendering of a conversation, or of other messages with its tools."""
        template = template or self._template(conversation)
        variables = self._variables(template, conversation, messages, prompt)
        return template.compiled.render({**variables, **switch})

    def _plain(self, plain: PlainText, format: ChatFormat) -> RenderedChat:
        text = plain.prompt + plain.completion
        guards = self._allowed(self._guards.find_plain(text))
        begin, end = len(plain.prompt), len(text) + (0 if format.train_on_eos == "none" else len(self._eos))
        if begin == end:
            raise ChatDrop("untrained")
        return self._rendered(text + self._eos, [(begin, end)], guards)

    def _conversation(self, given: Conversation, format: ChatFormat) -> list[RenderedChat]:
        made, since = [], 0
        samples = self._samples(given)
        for sample in samples:
            count = sample.messages
            part = given if count == len(given.messages) else replace(given, messages=given.messages[:count])
            allows = self.options.special_in_content == "allow"
            render = partial(self._text_behind_prompt, sample.answer_at)
            guards = [] if allows else self._guards.find(part, sample.text, render)
            spans = trained_spans(sample, since, given, format, self.control, guards, self._marks(given))
            since = count
            if spans:
                made.append(self._rendered(sample.text, spans, self._allowed(guards)))
        if not made:
            raise ChatDrop("untrained")
        if not self._marks(given):
            turns = sum(len(sample.turns) for sample in samples)
            made[0] = replace(made[0], left_out=len(_wanted(given)) - turns)
        return made

    def _text_behind_prompt(self, answer_at: int | None, conversation: Conversation) -> str:
        """The rendering of a conversation; or what its last message is asked with, and its end from
        there on."""
        text = self.text_of(conversation)
        if answer_at is None:
            return text
        return self.text_of(conversation, conversation.messages[:-1], prompt=True) + text[answer_at:]

    def _rendered(self, text: str, spans: list[Span], guards: list[Guard]) -> RenderedChat:
        made = _in_bytes(text, spans, guards)
        if len(made.text) > self.options.max_rendered_bytes:
            raise ChatDrop("template_too_long", f"{len(made.text):,} bytes")
        return made

    def _marks(self, given: Conversation) -> bool:
        return self._template(given).compiled.has_markers

    def _allowed(self, guards: list[Guard]) -> list[Guard]:
        if guards and self.options.special_in_content == "drop":
            raise ChatDrop("control_in_content", f"{len(guards):,} of them")
        return [] if self.options.special_in_content == "allow" else guards

    def _samples(self, given: Conversation) -> list[PlacedSample]:
        template = self._template(given)
        template.check(given.messages)
        count = len(given.messages)
        if template.compiled.has_markers:
            text, spans = template.compiled.render_marked(self._variables(template, given))
            if _as_marked(given):
                return [PlacedSample(count, text, [Turn(-1, *span) for span in spans], None)]
            if count > MOST_PLACED:
                raise too_many(given.messages)
        else:
            text = self.text_of(given)
        renderings = self._renderings(given)
        try:
            placed = template.skeletons.place(given, text, self._analyse, renderings)
            if placed is not None:
                return placed
            if template.compiled.has_markers:
                raise ChatDrop("turn_not_placed", "how the template renders a turn depends on its text")
            found = self._placed(renderings, given)
        except RewrittenTurn as turn:
            raise self._rewritten(turn) from None
        return [PlacedSample(each.messages, each.text, each.turns, None) for each in found]

    def _analyse(self, shape: Conversation, owners: Sequence[Owner]) -> list[TurnSample]:
        """The samples of a shape, whose texts are sentinels."""
        template = self._template(shape)
        if template.compiled.has_markers:
            text, spans = template.compiled.render_marked(self._variables(template, shape))
            return [TurnSample(len(shape.messages), text, marked_turns(text, spans, owners, shape.messages))]
        renderings = replace(self._renderings(shape), answer_at=partial(answer_at, owners))
        if len(shape.messages) > MOST_TURNS:
            return [place_many_turns(renderings, _wanted(shape), owners)]
        return self._placed(renderings, shape)

    def _placed(self, renderings: Renderings, given: Conversation) -> list[TurnSample]:
        wanted = _wanted(given)
        others = (each for each, trains in enumerate(given.trained) if trains and each not in wanted)
        return place_turns(renderings, wanted, self.options.rewritten_turns, max(others, default=-1))

    def _renderings(self, given: Conversation) -> Renderings:
        template = self._template(given)

        def render(messages: Sequence[Message], prompt: bool, switch: Switch) -> str:
            try:
                return self.text_of(given, messages, prompt, template, switch)
            except ChatDrop as drop:
                if messages:
                    raise
                detail = f"it begins with an answer, and the template can't ask for one ({drop.detail})"
                raise ChatDrop(drop.reason, detail) from None

        said = {*self.fixed, *given.kwargs}
        names = [name for name in template.compiled.switches if name not in said]
        return Renderings(
            given.messages, render, [{name: value} for name in names for value in (False, True)]
        )

    def _rewritten(self, turn: RewrittenTurn) -> ConfigError:
        if not turn.asked:
            return ConfigError(
                f"{self.origin} asks a model with another text than it writes before an answer, so that"
                f" answers can't be trained as they will be asked for: {turn.difference}",
                hint="give the reasoning that it asks for in `reasoning_content`, set what it knows in"
                " `chat_template_kwargs`, take a template that marks answers with `{% generation %}`, or set"
                " `preprocess.rewritten_turns` to `unroll` or `last`, which leave out such turns, and"
                " conversations of such turns alone",
            )
        return ConfigError(
            f"{self.origin} writes earlier turns otherwise than the model wrote them, so that not all can be"
            " trained in one text",
            hint="set `preprocess.rewritten_turns` to `unroll` (a text for each such turn) or to `last` (only"
            " turns that are not rewritten)",
        )

    def _template(self, conversation: Conversation) -> TemplateUse:
        if conversation.tools and TOOL_USE in self._templates:
            return self._templates[TOOL_USE]
        return self._templates[DEFAULT]

    def _variables(
        self,
        template: TemplateUse,
        conversation: Conversation,
        messages: Sequence[Message] | None = None,
        prompt: bool = False,
    ) -> dict[str, Any]:
        given = conversation.messages if messages is None else messages
        return {
            **self.fixed,
            **conversation.kwargs,
            "messages": [template.adapted(message) for message in given],
            "tools": conversation.tools,
            "add_generation_prompt": prompt,
        }


class TemplateUse:
    """A template, what it wants of messages, and the skeletons of its renderings."""

    def __init__(self, compiled: CompiledTemplate, is_for_tools: bool) -> None:
        self.compiled = compiled
        self.is_for_tools = is_for_tools
        self.skeletons = Skeletons(compiled.looked_for)
        self.wants_parts = False
        self.wants_argument_text = False
        self.writes_calls = False
        self.writes_results = False

    def check(self, messages: Sequence[Message]) -> None:
        """`ChatDrop` for messages that the template would leave out."""
        for number, message in enumerate(messages):
            if message.get("tool_calls") and not self.writes_calls:
                raise ChatDrop("message_not_rendered", f"the tool calls of message {number + 1}")
            if message["role"] == "tool" and message.get("content") and not self.writes_results:
                raise ChatDrop("message_not_rendered", f"the tool result in message {number + 1}")

    def adapted(self, message: Message) -> Message:
        if self.wants_parts and isinstance(message.get("content"), str):
            message = {**message, "content": [{"type": "text", "text": message["content"]}]}
        if self.wants_argument_text and "tool_calls" in message:
            message = {**message, "tool_calls": [_with_text(call) for call in message["tool_calls"]]}
        return message


def _with_text(call: Mapping[str, Any]) -> dict[str, Any]:
    if "function" in call:
        return {**call, "function": _with_text(call["function"])}
    arguments = call.get("arguments")
    if isinstance(arguments, Mapping):
        return {**call, "arguments": json.dumps(arguments, ensure_ascii=False)}
    return dict(call)


def _outside_sandbox(origin: str, error: SecurityError) -> ConfigError:
    return ConfigError(f"{origin} does what templates may not: {error}", hint="take another template")


def _wanted(conversation: Conversation) -> list[int]:
    """The messages that are to be placed as a model's answers."""
    found = zip(conversation.messages, conversation.trained, strict=True)
    return [
        number for number, (message, trains) in enumerate(found) if trains and message["role"] == "assistant"
    ]


def _as_marked(conversation: Conversation) -> bool:
    """Whether just what the template marks is trained, and nothing has to be known of single messages."""
    return all(
        trains == (message["role"] == "assistant") and detail is None and message["role"] in _KNOWN_ROLES
        for message, trains, detail in zip(
            conversation.messages, conversation.trained, conversation.details, strict=True
        )
    )


def _in_bytes(text: str, spans: list[Span], guards: list[Guard]) -> RenderedChat:
    data = text.encode()
    if len(data) == len(text):
        return RenderedChat(data, tuple(spans), tuple(guards))
    positions = sorted({position for begin, end, *_ in [*spans, *guards] for position in (begin, end)})
    places, before, at = {}, 0, 0
    for position in positions:
        at += len(text[before:position].encode())
        places[position] = at
        before = position
    return RenderedChat(
        data,
        tuple((places[begin], places[end]) for begin, end in spans),
        tuple((places[begin], places[end], level) for begin, end, level in guards),
    )


def _compiled(settings: RendererSettings, source: str) -> CompiledTemplate:
    options = settings.options
    try:
        date = None if options.date is None else datetime.fromisoformat(options.date)
    except ValueError:
        raise ConfigError(
            f"the date `{shown(options.date)}` can't be read", hint="write it as `2026-01-31`"
        ) from None
    try:
        return CompiledTemplate(source, date, options.max_rendered_bytes)
    except TemplateError as error:
        raise ConfigError(
            f"{settings.origin} is not a Jinja template: {error}", hint="mend it, or take another"
        ) from None
