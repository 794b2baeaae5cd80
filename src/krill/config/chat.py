"""What a config of conversations means: its defaults, and what can't be asked of conversations.

In: the tree of keys as they were written, then the checked config. Out: the tree with the defaults that fit
conversations, or a `ConfigError` that names the key that does not. Nothing is held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from krill.config.axolotl import type_remedy
from krill.config.dataset import CHAT, CHAT_KEYS, DatasetConfig
from krill.config.filters import C4, RepeatedLines, RepeatedParagraphs
from krill.config.messages import Path, dotted, one_of, shown
from krill.errors import ConfigError

if TYPE_CHECKING:
    from krill.config.schema import KrillConfig

TOP_KEYS: Final = ("chat_template", "chat_template_kwargs", "chat_template_date")
PREPROCESS_KEYS: Final = ("overflow", "rewritten_turns", "special_in_content", "max_untrained")
# Conversations are short, have their own ends, and are learned whole.
_DEFAULTS: Final = {
    "min_chars": 0,
    "min_length": 0,
    "strip": False,
    "packing": "bfd",
    "oversize": "drop",
    "max_document_bytes": 1_000_000,
}
_TYPES: Final = ("completion", CHAT)
OTHER_ROLES: Final[Mapping[str, str]] = {"human": "user", "gpt": "assistant"}
"""As in `krill.chat.options`, which is below."""
# Of the forms that a source may state, which keys say nothing of them.
_NOT_OF_MESSAGES: Final = ("field_messages", "message_property_mappings", "roles")
_WITHOUT_EFFECT: Final[Mapping[str, tuple[str, ...]]] = {
    "alpaca": (*_NOT_OF_MESSAGES, "message_field_training", "message_field_training_detail"),
    "text": (*_NOT_OF_MESSAGES, "message_field_training", "message_field_training_detail"),
    "prompt_completion": ("field_messages",),
}
_WHOLE: Final = "a conversation stays as the template renders it"
_REFUSED: Final[Mapping[str, tuple[object, str, str]]] = {
    "bos": (True, "the template writes the beginning-of-text token where there is one", "leave it out"),
    "strip": (True, _WHOLE, "leave it out"),
    "packing": ("wrapped", "it cuts conversations at the ends of rows", "set it to `bfd` or `none`"),
    "oversize": ("split", _WHOLE, "set it to `drop`, and `max_document_bytes` higher if need be"),
}


def add_chat_defaults(tree: dict[str, Any], where: Callable[[Path], str]) -> None:
    """Defaults that fit conversations, in the place of keys that were not written."""
    datasets = tree.get("datasets")
    entries = datasets if isinstance(datasets, list) else []
    for number, entry in enumerate(entries):
        kind = entry.get("type", CHAT) if isinstance(entry, Mapping) else CHAT
        if kind not in _TYPES:
            path: Path = ("datasets", number, "type")
            place = where(path)
            raise ConfigError(
                f"`{dotted(path)}` is `{shown(kind)}`: must be {one_of(_TYPES)}"
                f"{f' ({place})' if place else ''}",
                hint=type_remedy(kind),
            )
    if any(isinstance(entry, Mapping) and entry.get("type") == CHAT for entry in entries):
        written = tree.get("preprocess", {})
        if isinstance(written, Mapping):
            tree["preprocess"] = {**_DEFAULTS, **written}


def check_chat(config: KrillConfig, where: Callable[[Path], str]) -> None:
    """Refuse what does not fit together; `where` says in which file or option a key was written."""
    for path, fact, hint in _faults(config):
        value: Any = config
        for step in path:
            value = value[step] if isinstance(step, int) else getattr(value, step)
        place = where(path)
        raise ConfigError(
            f"`{dotted(path)}` is `{shown(_plain(value))}`: {fact}{f' ({place})' if place else ''}", hint=hint
        )


def _faults(config: KrillConfig) -> Iterator[tuple[Path, str, str]]:
    if not config.is_chat:
        yield from _without_effect(config)
        return
    for number, dataset in enumerate(config.datasets):
        if dataset.type != CHAT:
            hint = "set it to `chat_template`: rows with a `text` are learned as they are"
            yield ("datasets", number, "type"), "another source has conversations", hint
        yield from _dataset_faults(number, dataset)
    settings = config.preprocess
    for name, (refused, fact, hint) in _REFUSED.items():
        if getattr(settings, name) == refused:
            yield ("preprocess", name), fact, hint
    for number, section in enumerate(settings.filters):
        if isinstance(section, C4 | RepeatedLines | RepeatedParagraphs):
            yield ("preprocess", "filters", number, "name"), f"it changes text, and {_WHOLE}", "leave it out"
    if settings.dedup.level != "document":
        yield (
            ("preprocess", "dedup", "level"),
            f"it removes parts of documents, and {_WHOLE}",
            "set it to `document`",
        )
    if config.tokenizer.builtin is not None:
        yield (
            ("tokenizer", "builtin"),
            "it has no tokens that a chat template could write",
            "set `tokenizer.path` to a tokenizer with a chat template",
        )


def _dataset_faults(number: int, dataset: DatasetConfig) -> Iterator[tuple[Path, str, str]]:
    """What is said of a source of conversations, and would change nothing."""
    for name in ("text_column", "separator"):
        if _is_set(dataset, name):
            yield (
                ("datasets", number, name),
                "it is for plain text; conversations are read from the columns of their form",
                "leave it out: `field_messages` names a list of messages, and a plain text is under `text`",
            )
    for name in _WITHOUT_EFFECT.get(dataset.form or "", ()):
        if _is_set(dataset, name):
            yield ("datasets", number, name), f"it says nothing of `form: {dataset.form}`", "leave it out"
    read_as = dict(OTHER_ROLES) | {other: role for role, others in dataset.roles.items() for other in others}
    for role in dataset.roles_to_train:
        if role in read_as and role not in read_as.values():
            yield (
                ("datasets", number, "roles_to_train"),
                f"`{shown(role)}` is read as `{shown(read_as[role])}`",
                f"write `{shown(read_as[role])}`",
            )
        if role == "all":
            yield (
                ("datasets", number, "roles_to_train"),
                "it is a list of roles",
                "name them, as `[system, user, assistant, tool]`",
            )


def _is_set(section: Any, name: str) -> bool:
    return bool(getattr(section, name) != type(section).model_fields[name].default)


def _without_effect(config: KrillConfig) -> Iterator[tuple[Path, str, str]]:
    """Keys of conversations in a config that has none."""
    hint = f"leave it out, or set `type: {CHAT}` for the datasets"
    sections: list[tuple[Path, Any, tuple[str, ...]]] = [
        ((), config, TOP_KEYS),
        (("preprocess",), config.preprocess, PREPROCESS_KEYS),
        *((("datasets", at), dataset, CHAT_KEYS) for at, dataset in enumerate(config.datasets)),
    ]
    for place, section, names in sections:
        for name in names:
            if _is_set(section, name):
                yield (*place, name), "it is for conversations, and no dataset has any", hint


def _plain(value: Any) -> Any:
    return value if isinstance(value, dict) else list(value) if isinstance(value, tuple) else value
