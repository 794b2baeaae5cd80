"""Which template a run uses: the tokenizer's own, a file, or one that is built in.

In: the tokenizer's files and what the config says. Out: the settings of a renderer, with the sources of
templates by name and the tokens that they may write. Held in memory: those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from krill.chat.options import (
    DEFAULT,
    TOKENIZER_DEFAULT,
    ChatOptions,
    KnownToken,
    RendererSettings,
)
from krill.errors import ConfigError, shown
from krill.storage.input_file import read_input, read_json
from krill.tokenizer.tokenizer_file import tokenizer_file
from krill.tokenizer.tokenizer_json import NotNative, native_spec

MOST_TEMPLATE: Final = 1_000_000
"""Bytes of the templates of a tokenizer, together."""
_CHOOSE: Final = (
    "set `chat_template` to `chatml`, or to the path of a .jinja file, or put the model's"
    " `chat_template.jinja` beside its tokenizer"
)
_CHATML: Final = """\
{%- for message in messages %}
    {%- if message.tool_calls %}
        {{- raise_exception('chatml has no form for tool calls') }}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.role == 'assistant' %}
        {%- generation %}{{- message.content + '<|im_end|>' }}{% endgeneration %}
    {%- else %}
        {{- message.content + '<|im_end|>' }}
    {%- endif %}
    {{- '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
BUILT_IN: Final[Mapping[str, str]] = {"chatml": _CHATML}


def read_settings(tokenizer: str | Path, options: ChatOptions) -> RendererSettings:
    """What the files at a tokenizer's path, and a template's, say; `ConfigError` if they can't be used."""
    file = tokenizer_file(tokenizer)
    sources = find_templates(file.parent, options.chat_template)
    spec = native_spec(file)
    if isinstance(spec, NotNative):
        raise ConfigError(
            f"chat data needs a tokenizer that the native core runs, and `{file}` is not, because"
            f" {spec.reason}",
            hint="take a tokenizer of one of the families in docs/tokenizer.md",
        )
    added = [KnownToken(token.content, token.id, token.special) for token in spec.added]
    return RendererSettings(sources.origin, sources.by_name, special_tokens(file.parent), added, options)


@dataclass(frozen=True, slots=True)
class TemplateSources:
    """Templates by name; with tools, `tool_use` goes before `default`."""

    origin: str
    by_name: Mapping[str, str]


def find_templates(folder: Path, chosen: str) -> TemplateSources:
    """The templates that `chat_template` chooses."""
    if chosen in BUILT_IN:
        return TemplateSources(f"the built-in template `{chosen}`", {DEFAULT: BUILT_IN[chosen]})
    path = Path(chosen)
    if path.suffix in (".jinja", ".jinja2", ".j2") or path.is_file():
        return TemplateSources(f"the template `{chosen}`", {DEFAULT: _read(path)})
    found = _beside(folder)
    if not found:
        raise ConfigError(f"the tokenizer in `{folder}` has no chat template", hint=_CHOOSE)
    if chosen != TOKENIZER_DEFAULT:
        if chosen not in found:
            names = ", ".join(f"`{name}`" for name in sorted({*found, *BUILT_IN}))
            raise ConfigError(
                f"chat_template is `{shown(chosen)}`, and no template has that name",
                hint=f"take one of {names}, `{TOKENIZER_DEFAULT}`, or the path of a .jinja file",
            )
        return TemplateSources(f"the template `{chosen}` in `{folder}`", {DEFAULT: found[chosen]})
    if DEFAULT not in found:
        names = ", ".join(f"`{shown(name)}`" for name in sorted(found))
        raise ConfigError(
            f"the tokenizer in `{folder}` has several chat templates and no default",
            hint=f"set `chat_template` to one of {names}",
        )
    return TemplateSources(f"the chat template in `{folder}`", found)


def _beside(folder: Path) -> dict[str, str]:
    """The templates of a tokenizer: files of their own go before its config."""
    file = folder / "chat_template.jinja"
    more = sorted((folder / "additional_chat_templates").glob("*.jinja"))
    if file.is_file() or more:
        own = [(DEFAULT, file)] if file.is_file() else []
        read: dict[str, str] = {}
        for name, path in [*own, *((path.stem, path) for path in more)]:
            read[name] = _read(path)
            _check_size(read, folder)
        return read
    value = tokenizer_settings(folder, "tokenizer_config.json").get("chat_template")
    if isinstance(value, str):
        value = {DEFAULT: value}
    elif isinstance(value, list):
        value = {
            each["name"]: each.get("template")
            for each in value
            if isinstance(each, dict) and isinstance(each.get("name"), str)
        }
    if not isinstance(value, dict):
        return {}
    found = {name: text for name, text in value.items() if isinstance(text, str)}
    _check_size(found, folder)
    return found


def _check_size(templates: Mapping[str, str], folder: Path) -> None:
    if sum(map(len, templates.values())) > MOST_TEMPLATE:
        raise ConfigError(
            f"the chat templates in `{folder}` have more than {MOST_TEMPLATE:,} characters together",
            hint="set `chat_template` to the path of a .jinja file",
        )


def special_tokens(folder: Path) -> dict[str, str]:
    """Tokens by the names that templates know, as `bos_token`."""
    tokens: dict[str, str] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        settings = tokenizer_settings(folder, name)
        extra = settings.get("extra_special_tokens")
        for key, value in {**settings, **(extra if isinstance(extra, dict) else {})}.items():
            content = value.get("content") if isinstance(value, dict) else value
            if key.endswith("_token") and isinstance(content, str):
                tokens[key] = content
    return tokens


def tokenizer_settings(folder: Path, name: str) -> dict[str, Any]:
    try:
        settings = read_json(folder / name)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        fault = error.strerror if isinstance(error, OSError) else f"not JSON ({error})"
        raise ConfigError(f"can't read `{folder / name}`: {fault}", hint="restore the file") from None
    return settings if isinstance(settings, dict) else {}


def _read(path: Path) -> str:
    try:
        return read_input(path, MOST_TEMPLATE).decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"the chat template `{path}` is not UTF-8", hint=_CHOOSE) from None
    except OSError as error:
        raise ConfigError(f"can't read the chat template `{path}`: {error.strerror}", hint=_CHOOSE) from None
