"""What a template wants and writes, found out before anything is read.

In: a renderer. Out: how its templates take contents and arguments; warnings; an error if the template writes
control tokens that the tokenizer does not have, or renders nothing. Nothing is held.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from krill.chat.forms import Conversation
from krill.chat.options import ChatDrop
from krill.errors import ConfigError, shown

if TYPE_CHECKING:
    from krill.chat.render import ChatRenderer, TemplateUse

_QUESTION: Final = {"role": "user", "content": "a question"}
_ANSWER: Final = {"role": "assistant", "content": "an answer"}
_THOUGHT: Final = {**_ANSWER, "reasoning_content": "a thought", "thinking": "a thought"}
_FUNCTION: Final = {"name": "look_up", "arguments": {"city": "Paris"}}
_CALL: Final = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"id": "call00000", "type": "function", "function": _FUNCTION}],
}
_RESULT: Final = {"role": "tool", "name": "look_up", "tool_call_id": "call00000", "content": "a result"}
_PARAMETERS: Final = {"type": "object", "properties": {"city": {"type": "string", "description": "a city"}}}
_TOOL: Final = {
    "type": "function",
    "function": {"name": "look_up", "description": "looks up", "parameters": _PARAMETERS},
}
_SYSTEM: Final = {"role": "system", "content": "an instruction"}
_CONVERSATIONS: Final[tuple[list[dict[str, Any]], ...]] = (
    [_QUESTION, _ANSWER],
    [_QUESTION, _THOUGHT],
    [_SYSTEM, _QUESTION, _ANSWER, _QUESTION, _ANSWER],
    [_QUESTION, _CALL, _RESULT, _ANSWER],
)


def probe(renderer: ChatRenderer) -> None:
    """Adapts the renderer's templates, and warns; `ConfigError` where template and tokenizer don't fit."""
    renderings = []
    for template in renderer.templates:
        _adapt(renderer, template)
        renderings += list(_renderings(renderer, template))
    unknown = sorted({text for rendering in renderings for text in renderer.control.unknown_in(rendering)})
    if unknown:
        names = ", ".join(f"`{shown(text)}`" for text in unknown)
        raise ConfigError(
            f"{renderer.origin} writes {names}, and no token of the tokenizer is that",
            hint="take the tokenizer that the template belongs to, or add to its `added_tokens`, or choose"
            " another `chat_template`",
        )
    renderer.stop = _stop_of(renderer)
    renderer.warnings = tuple(_stop_warnings(renderer))


def _adapt(renderer: ChatRenderer, template: TemplateUse) -> None:
    """Contents are given as text, or as parts to templates that pass over text or refuse it."""
    failures = []
    for template.wants_parts in (False, True):
        try:
            given = _conversation([_QUESTION, _ANSWER], template.is_for_tools)
            text = renderer.text_of(given, template=template)
        except ChatDrop as drop:
            failures.append(drop.detail)
            continue
        if _QUESTION["content"] in text and _ANSWER["content"] in text:
            break
        failures.append("it leaves out the contents of messages")
    else:
        template.wants_parts = False
        if template.is_for_tools:
            return  # tools may have another form there; its rows will show
        raise ConfigError(
            f"{renderer.origin} can't render a question and its answer: {shown(failures[0])}",
            hint="choose another `chat_template`, or set what it asks for in `chat_template_kwargs`",
        )
    _adapt_calls(renderer, template)


def _adapt_calls(renderer: ChatRenderer, template: TemplateUse) -> None:
    """Arguments of tool calls are given as objects, or as text to templates that want it; some templates know
    of no tools, and would leave them out without a word."""
    for template.wants_argument_text in (False, True):
        try:
            text = renderer.text_of(_conversation(_CONVERSATIONS[-1]), template=template)
        except ChatDrop:
            continue
        if "{'" not in text:  # a dictionary as Python writes it
            # Kimi K2's writes the id of a call, in which its name is, and not the name.
            template.writes_calls = "Paris" in text and ("look_up" in text or "call00000" in text)
            template.writes_results = "a result" in text
            return
    template.wants_argument_text = False


def _conversation(messages: list[dict[str, Any]], with_tools: bool = False) -> Conversation:
    trained = [message["role"] == "assistant" for message in messages]
    with_tools = with_tools or any("tool_calls" in message for message in messages)
    return Conversation(messages, trained, [None] * len(messages), [_TOOL] if with_tools else None)


def _renderings(renderer: ChatRenderer, template: TemplateUse) -> Iterator[str]:
    for messages in _CONVERSATIONS:
        for prompt in (False, True):
            try:
                given = _conversation(messages, template.is_for_tools)
                yield renderer.text_of(given, prompt=prompt, template=template)
            except ChatDrop:
                continue  # not every template takes all of them


def _stop_of(renderer: ChatRenderer) -> str | None:
    text = renderer.text_of(_conversation([_QUESTION, _ANSWER]))
    stop = renderer.control.last_in(text, text.rindex(_ANSWER["content"]), len(text))
    return None if stop is None else text[slice(*stop)]


def _stop_warnings(renderer: ChatRenderer) -> Iterator[str]:
    eos = renderer.fixed.get("eos_token")
    if renderer.stop is None:
        yield f"{renderer.origin} writes no stop token after an answer: a model won't learn where to stop"
    elif renderer.stop != eos:
        yield (
            f"{renderer.origin} ends answers with `{renderer.stop}`, and the tokenizer's eos_token is"
            f" `{eos}`: generation has to stop at the former"
        )
