"""What makes two preprocessing runs the same, and a config as plain data.

The identity covers what shapes the output and nothing else: a run that was killed may go on with another
budget, other threads, another place for its files. Input fingerprints are added by the run itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from krill.config.chat import PREPROCESS_KEYS, TOP_KEYS
from krill.config.dataset import CHAT_KEYS, WEB_KEYS, DatasetConfig
from krill.config.messages import shown
from krill.config.schema import KrillConfig

_SHAPES_OUTPUT = {"seed", "datasets", "tokenizer", "preprocess"}
# `on_error` only decides whether a run with malformed records ends, `samples` what is kept beside the rows;
# these tokenizer keys are for training.
_SHAPES_NOTHING = {
    "preprocess": {"prepared_path", "batch_rows", "on_error", "samples"},
    "tokenizer": {
        "vocab_size",
        "pattern",
        "min_frequency",
        "max_token_length",
        "initial_alphabet",
        "limit_alphabet",
        "tie_break",
        "boundaries",
    },
}
_ABSENT = object()


def to_dict(config: KrillConfig) -> dict[str, Any]:
    """The whole config, defaults included, as JSON-able data: sizes are bytes, sequences are lists."""
    return config.model_dump(mode="json")


def canonical_yaml(config: KrillConfig) -> str:
    """The whole config as YAML in canonical keys; loading it gives the same config."""
    return yaml.safe_dump(to_dict(config), sort_keys=False, allow_unicode=True, width=110)


def identity_dict(config: KrillConfig) -> dict[str, Any]:
    """What shapes the output of preprocessing, as JSON-able data in the schema's order."""
    shapes = {*_SHAPES_OUTPUT, *TOP_KEYS} if config.is_chat else _SHAPES_OUTPUT
    found = config.model_dump(mode="json", include=shapes, exclude=_SHAPES_NOTHING)
    if not config.is_chat:  # as it was before there were conversations
        for section, names in [(found["preprocess"], PREPROCESS_KEYS)] + [
            (dataset, ("type", *CHAT_KEYS)) for dataset in found["datasets"]
        ]:
            for name in names:
                del section[name]
    for section in found["preprocess"]["filters"]:  # as it was before there were other models
        if section["name"] == "language" and section["model"] is None:
            del section["model"]
    defaults = DatasetConfig(path="any").model_dump(mode="json", include=set(WEB_KEYS))
    for dataset in found["datasets"]:  # as it was before there were web pages
        for name in [name for name in WEB_KEYS if dataset[name] == defaults[name]]:
            del dataset[name]
    # The form of the index shapes nothing, but a run that has begun with one can't go on with another.
    if found["preprocess"]["dedup"]["index"] == "files":
        del found["preprocess"]["dedup"]["index"]
    return found


def differing_keys(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Each key whose value differs, with both: ["preprocess.sequence_len: `2048` -> `1024`"]."""
    return [f"{key}: {_show(old)} -> {_show(new)}" for key, old, new in _differences("", before, now)]


def _differences(key: str, old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(old, list | tuple) and isinstance(new, list | tuple):
        old, new = dict(enumerate(old)), dict(enumerate(new))
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in (*old, *(name for name in new if name not in old)):
            below = f"{key}.{name}" if key else str(name)
            yield from _differences(below, old.get(name, _ABSENT), new.get(name, _ABSENT))
    elif old != new:
        yield key, old, new


def _show(value: Any) -> str:
    return "absent" if value is _ABSENT else f"`{shown(value)}`"
