"""Named sets of special tokens, for models that shall talk and call tools.

In: a preset's name. Out: special tokens to train with, and the chat template that uses them. Nothing is held.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from krill.errors import ConfigError

END_OF_TEXT: Final = "<|endoftext|>"
TURN_START: Final = "<|im_start|>"
TURN_END: Final = "<|im_end|>"

CHAT: Final = (
    END_OF_TEXT,
    TURN_START,
    TURN_END,
    "<tools>",
    "</tools>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
)

PRESETS: Final[Mapping[str, Sequence[str]]] = {"chat": CHAT}

# Turns as `<|im_start|>role`, a line break, the content, `<|im_end|>`. Tools that may be called stand at the
# end of the system's turn, calls at the end of the assistant's, answers in turns of the role `tool`.
CHAT_TEMPLATE: Final = r"""
{%- set has_system = messages and messages[0].role == 'system' -%}
{%- if has_system or tools -%}
    {{- '<|im_start|>system\n' + (messages[0].content if has_system else '') -}}
    {%- if tools -%}
        {{- ('\n' if has_system else '') + '<tools>\n' -}}
        {%- for tool in tools -%}
            {{- tool | tojson }}{{ '\n' -}}
        {%- endfor -%}
        {{- '</tools>' -}}
    {%- endif -%}
    {{- '<|im_end|>\n' -}}
{%- endif -%}
{%- for message in (messages[1:] if has_system else messages) -%}
    {{- '<|im_start|>' + message.role + '\n' -}}
    {%- if message.role == 'tool' -%}
        {{- '<tool_response>\n' + message.content + '\n</tool_response>' -}}
    {%- else -%}
        {{- message.content or '' -}}
        {%- for call in message.tool_calls or [] -%}
            {{- '\n' if message.content or not loop.first else '' -}}
            {{- '<tool_call>\n' }}{{ (call.function or call) | tojson }}{{ '\n</tool_call>' -}}
        {%- endfor -%}
    {%- endif -%}
    {{- '<|im_end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|im_start|>assistant\n' -}}
{%- endif -%}
"""


def preset_tokens(preset: str) -> tuple[str, ...]:
    """The special tokens of a preset."""
    if preset not in PRESETS:
        known = ", ".join(f"`{name}`" for name in PRESETS)
        raise ConfigError(f"no preset is named `{preset}`", hint=f"choose one of {known}")
    return tuple(PRESETS[preset])


def with_preset(preset: str, special_tokens: Sequence[str] = ()) -> tuple[str, ...]:
    """A preset's tokens and then one's own, each once."""
    return tuple(dict.fromkeys((*preset_tokens(preset), *special_tokens)))


def check_chat(special_tokens: Sequence[str]) -> None:
    """Whether the chat template can be used with these special tokens."""
    missing = [token for token in (TURN_START, TURN_END) if token not in special_tokens]
    if missing:
        raise ConfigError(
            f"a chat template needs the special token `{missing[0]}`",
            hint="train with the preset `chat`, or name it among the special tokens",
        )
