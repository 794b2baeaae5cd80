"""Rows of any known form to messages, as templates want them, and what of them is trained.

In: a row. Out: a `Conversation`, or `ChatDrop` with the reason. Held in memory: one row.

Known are `messages` (OpenAI's), `conversations` (ShareGPT's), Alpaca's columns, `prompt` with `completion`
(texts or messages) and plain `text`. Keys without a value are dropped: Arrow gives each message the keys of
all others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from krill.chat.options import OTHER_ROLES, ChatDrop, ChatFormat, Form
from krill.errors import shown

Message = dict[str, Any]
Span = tuple[int, int]

_SHAREGPT: Final = {"role": "from", "content": "value"}
_REASONING: Final = ("reasoning_content", "thinking", "reasoning")
_MEDIA: Final = {"image": "image_content", "audio": "audio_content", "video": "video_content"}


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages, and of each whether it is trained, and which characters of its content alone."""

    messages: list[Message]
    trained: list[bool]
    details: list[tuple[Span, ...] | None]
    tools: list[Any] | None = None
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlainText:
    """A text without a template, of which what comes after `prompt` is trained."""

    prompt: str
    completion: str


def read_row(row: Mapping[str, Any], format: ChatFormat) -> Conversation | PlainText:
    """What a row says; `ChatDrop` if that is nothing to train on."""
    form = format.form or _form_of(row, format)
    if form == "text":
        return PlainText("", _text(row.get("text"), "text"))
    if form == "prompt_completion":
        prompt, completion = row.get("prompt"), row.get("completion")
        if isinstance(prompt, str) and isinstance(completion, str):
            return PlainText(prompt, completion)
        given, wanted = _messages(prompt, format), _messages(completion, format)
        if not wanted:
            raise ChatDrop("empty_conversation")
        return _conversation(row, [*given, *wanted], format, untrained=len(given))
    if form == "alpaca":
        return _conversation(row, _alpaca(row), format)
    return _conversation(row, _messages(row.get(_field_of(form, row, format)), format), format)


def _form_of(row: Mapping[str, Any], format: ChatFormat) -> Form:
    if format.field_messages is not None or row.get("messages") is not None:
        return "messages"
    if row.get("conversations") is not None or row.get("conversation") is not None:
        return "conversations"
    if row.get("prompt") is not None and row.get("completion") is not None:
        return "prompt_completion"
    if row.get("instruction") is not None and row.get("output") is not None:
        return "alpaca"
    if row.get("text") is not None:
        return "text"
    raise ChatDrop("unknown_form", f"its columns are {', '.join(f'`{shown(name)}`' for name in row)}")


def _field_of(form: Form, row: Mapping[str, Any], format: ChatFormat) -> str:
    if format.field_messages is not None:
        return format.field_messages
    if form == "messages":
        return "messages"
    return "conversations" if row.get("conversations") is not None else "conversation"


def _alpaca(row: Mapping[str, Any]) -> list[Message]:
    asked = _text(row.get("instruction"), "instruction")
    if row.get("input"):
        asked = f"{asked}\n{_text(row['input'], 'input')}"
    system = [{"role": "system", "content": _text(row["system"], "system")}] if row.get("system") else []
    answer = _text(row.get("output"), "output")
    return [*system, {"role": "user", "content": asked}, {"role": "assistant", "content": answer}]


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise ChatDrop("bad_content", f"`{name}` is `{shown(value)}`")
    return value


def _messages(value: Any, format: ChatFormat) -> list[Message]:
    """Messages with their keys and roles renamed, and without keys that have no value."""
    value = _decoded(value, "bad_message")
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise ChatDrop("bad_message", f"messages are `{shown(value)}`")
    roles = {name: role for role, names in format.roles.items() for name in names}
    mappings = format.message_property_mappings
    messages = []
    for given in value:
        if not isinstance(given, Mapping):
            raise ChatDrop("bad_message", f"a message is `{shown(given)}`")
        message = {key: item for key, item in given.items() if item is not None}
        if mappings or "role" not in message:
            for name, source in (mappings or _SHAREGPT).items():
                if source in message and source != name:
                    message[name] = message.pop(source)
        role = message.get("role")
        if not isinstance(role, str) or not role:
            raise ChatDrop("bad_message", f"its role is `{shown(role)}`")
        message["role"] = roles.get(role) or OTHER_ROLES.get(role, role)
        messages.append(message)
    return messages


def _conversation(
    row: Mapping[str, Any], messages: list[Message], format: ChatFormat, *, untrained: int = 0
) -> Conversation:
    if format.drop_system_message and messages and messages[0]["role"] == "system":
        messages, untrained = messages[1:], max(0, untrained - 1)
    if not messages:
        raise ChatDrop("empty_conversation")
    found = [_normalised(message, format) for message in messages]
    return Conversation(
        [message for message, _, _ in found],
        [trains and number >= untrained for number, (_, trains, _) in enumerate(found)],
        [detail for _, _, detail in found],
        _tools(row.get("tools")),
        _kwargs(row.get("chat_template_kwargs")),
    )


def _normalised(message: Message, format: ChatFormat) -> tuple[Message, bool, tuple[Span, ...] | None]:
    """The message for the template, whether it is trained, and the characters that are."""
    named, detailed = format.message_field_training, format.message_field_training_detail
    flag = message.pop(named, None) if named else None
    detail = message.pop(detailed, None) if detailed else None
    weight = message.pop("weight", None)
    content = message.get("content")
    parts: tuple[Span, ...] | None = None
    if content is not None and not isinstance(content, str):
        message["content"], parts = _joined(content)
    if "tool_calls" in message:
        message["tool_calls"] = _tool_calls(message["tool_calls"])
    _name_reasoning(message)
    if "content" not in message and not message.get("tool_calls") and "reasoning_content" not in message:
        raise ChatDrop("no_content", f"role `{shown(message['role'])}`")
    spans = parts if detail is None else _spans(detail)
    said = [_flag(value) for value in (flag, weight) if value is not None]
    if said:
        return message, said[0], spans
    return message, bool(spans) if spans is not None else message["role"] in format.roles_to_train, spans


def _flag(value: Any) -> bool:
    if isinstance(value, bool) or (isinstance(value, int | float) and value in (0, 1)):
        return bool(value)
    raise ChatDrop("bad_training_flag", f"`{shown(value)}` is neither true nor false")


def _spans(detail: Any) -> tuple[Span, ...]:
    """Characters to train on, of axolotl's spans, which name their last character."""
    detail = _decoded(detail, "bad_training_flag")
    spans = []
    for span in detail if isinstance(detail, list | tuple) else [detail]:
        begin, end, train = (
            (span.get(key) for key in ("begin_offset", "end_offset", "train"))
            if isinstance(span, Mapping)
            else (None, None, None)
        )
        if type(begin) is not int or type(end) is not int or not 0 <= begin <= end:
            raise ChatDrop("bad_training_flag", f"`{shown(span)}` is not a span")
        if _flag(train):
            spans.append((begin, end + 1))
    return tuple(sorted(spans))


def _joined(content: Any) -> tuple[str, tuple[Span, ...] | None]:
    """The text of all parts, and which of it is trained, if a part says."""
    if not isinstance(content, Sequence):
        raise ChatDrop("bad_content", f"`{shown(content)}`")
    texts, spans, says = [], [], False
    at = 0
    for part in content:
        text = part if isinstance(part, str) else _part_text(part)
        said = {} if isinstance(part, str) else part
        flags = [said[key] for key in ("train", "weight") if said.get(key) is not None]
        says = says or bool(flags)
        if text and (not flags or _flag(flags[0])):
            spans.append((at, at + len(text)))
        texts.append(text)
        at += len(text)
    return "".join(texts), tuple(spans) if says else None


def _part_text(part: Any) -> str:
    if not isinstance(part, Mapping):
        raise ChatDrop("bad_content", f"a part is `{shown(part)}`")
    text, kind = part.get("text"), part.get("type", "text")
    if kind == "text" and isinstance(text, str):
        return text
    reason = next((reason for name, reason in _MEDIA.items() if name in str(kind)), "unknown_content")
    raise ChatDrop(reason, f"a part of type `{shown(kind)}`")


def _name_reasoning(message: Message) -> None:
    """Reasoning under the names that templates read."""
    for name in _REASONING:
        if name in message:
            found = message[name]
            message.setdefault("thinking", found)
            message["reasoning_content"] = found
            return


def _tool_calls(calls: Any) -> list[Any]:
    calls = _decoded(calls, "bad_tool_calls")
    if not isinstance(calls, Sequence) or isinstance(calls, str):
        raise ChatDrop("bad_tool_calls", f"`{shown(calls)}`")
    return [_tool_call(call) for call in calls]


def _tool_call(call: Any) -> dict[str, Any]:
    if not isinstance(call, Mapping):
        raise ChatDrop("bad_tool_calls", f"`{shown(call)}`")
    found = {key: value for key, value in call.items() if value is not None}
    if "function" in found:
        if not isinstance(found["function"], Mapping):
            raise ChatDrop("bad_tool_calls", f"`{shown(call)}`")
        found["function"] = _with_arguments(found["function"])
    return _with_arguments(found)


def _with_arguments(function: Mapping[str, Any]) -> dict[str, Any]:
    found = {key: value for key, value in function.items() if value is not None}
    if "arguments" in found:
        given = found["arguments"]
        arguments = _decoded(given, "bad_tool_arguments") if isinstance(given, str) else without_nulls(given)
        if not isinstance(arguments, Mapping):
            raise ChatDrop("bad_tool_arguments", f"`{shown(given)}`")
        found["arguments"] = arguments
    return found


def _tools(tools: Any) -> list[Any] | None:
    tools = without_nulls(_decoded(tools, "bad_tools"))
    if not tools:
        return None
    if not isinstance(tools, Sequence) or not all(isinstance(tool, Mapping) for tool in tools):
        raise ChatDrop("bad_tools", f"`{shown(tools)}`")
    return list(tools)


def _kwargs(kwargs: Any) -> Mapping[str, Any]:
    kwargs = without_nulls(_decoded(kwargs, "bad_template_kwargs"))
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise ChatDrop("bad_template_kwargs", f"`{shown(kwargs)}`")
    return kwargs or {}


def _decoded(value: Any, reason: str) -> Any:
    """A value that may be written as JSON."""
    if not isinstance(value, str):
        return value
    try:
        return orjson.loads(value)
    except ValueError:
        raise ChatDrop(reason, f"`{shown(value)}` is not JSON") from None


def without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [without_nulls(item) for item in value]
    return value
