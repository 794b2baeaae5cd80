"""axolotl's keys for data that have another name or place here, and what to write instead.

In: the place of a key that the config does not have, and its value. Out: the remedy. Nothing is held.

Keys that are the same there and here are in `dataset`, those that can be taken as they are in `aliases`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from krill.config.messages import Path

_MAPPINGS: Final = "write `message_property_mappings: {role: from, content: value}` with your names"
_COLUMNS: Final = (
    "rename the columns to `instruction`, `input`, `system` and `output`, or to `prompt` and `completion`"
)
_SLICE: Final = "take a part with `split: train[:10%]`"
_MESSAGES_ALONE: Final = "leave it out: a model's reasoning is read from a message's `reasoning_content`"

_TOP: Final[Mapping[str, str]] = {
    "base_model": "write `tokenizer: {path: ...}` with the model's folder, whose chat template is taken;"
    " `train.base_model` is a Krill checkpoint that training goes on from",
    "tokenizer_config": "write `tokenizer: {path: ...}`",
    "chat_template_jinja": "put the template into a file, and write `chat_template: template.jinja`",
    "train_on_inputs": "write `roles_to_train` for the dataset, as `[system, user, assistant]`",
    "eot_tokens": "leave it out: the token that ends a turn is found in the chat template",
    "pad_to_sequence_len": "leave it out: rows are stored without padding, and loaders pad",
    "dataset_exact_deduplication": "write `preprocess: {dedup: exact}`, which is the default, or `none`",
    "shuffle_merged_datasets": "leave it out: rows are stored in the order of the sources, and loaders"
    " shuffle; `weight` of a dataset mixes them",
    "test_datasets": "write `preprocess: {split: {validation: 0.05}}`",
    "pretraining_dataset": "write `datasets`: data of any size is prepared inside `memory`",
}
_DATASET: Final[Mapping[str, str]] = {
    "ds_type": "leave it out, or write `format: jsonl` where the name of a file does not say it",
    "data_files": "name the files as `path`, which may be a glob",
    "data_dir": "name the folder as `path`",
    "name": "write `path: org/name:config`",
    "shards": _SLICE,
    "shards_idx": _SLICE,
    "preprocess_shards": "leave it out: data of any size is prepared inside `memory`",
    "trust_remote_code": "leave it out: no code of a dataset is run",
    "conversation": "write `chat_template: chatml` at the top level, or leave it out for the tokenizer's own",
    "chat_template_jinja": "put the template into a file, and write `chat_template: template.jinja` at the"
    " top level",
    "field": "write `text_column`",
    "field_instruction": _COLUMNS,
    "field_input": _COLUMNS,
    "field_output": _COLUMNS,
    "field_system": _COLUMNS,
    "field_human": _MAPPINGS,
    "field_model": _MAPPINGS,
    "message_field_role": _MAPPINGS,
    "message_field_content": _MAPPINGS,
    "field_tools": "rename the column to `tools`",
    "field_thinking": _MESSAGES_ALONE,
    "template_thinking_key": _MESSAGES_ALONE,
    "split_thinking": "leave it out: the chat template says what becomes of `<think>` in a message, and"
    " `reasoning_content` is read",
    "train_on_eot": "write `train_on_eos`, which is about the token that ends a turn, whatever it is",
    "input_format": _COLUMNS,
}
_ASKS_EITHER_WAY: Final = frozenset({"dataset_exact_deduplication", "shuffle_merged_datasets"})

_ROW_FORMS: Final = "set it to `chat_template`, which finds the form of rows by itself; `form` says it"
_TYPES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("sharegpt", "alpaca", "messages", "conversations", "prompt_completion"), _ROW_FORMS),
    "input_output": "write a row's texts as `prompt` and `completion`, which are taken without the template,"
    " and set it to `chat_template`",
}


def remedy(path: Path) -> str | None:
    """What to write instead of a key of axolotl's; None for what is no such key."""
    if len(path) == 1:
        return _TOP.get(str(path[0]))
    is_of_dataset = len(path) == 3 and path[0] == "datasets"
    return _DATASET.get(str(path[2])) if is_of_dataset else None


def asks_nothing(path: Path, value: Any) -> bool:
    """Whether the value of such a key says that it is not asked for."""
    off = value is None or (value is False and path[-1] not in _ASKS_EITHER_WAY)
    return off and remedy(path) is not None


def type_remedy(kind: Any) -> str:
    """What to write instead of a `type` of axolotl's."""
    if kind is None:
        return "leave such a dataset out: its rows are tokens already, and need no preparation"
    if isinstance(kind, Mapping):
        return f"{_COLUMNS}, and set it to `chat_template`, whose template is the format"
    return _TYPES.get(
        str(kind),
        "set it to `chat_template` for conversations, questions and answers in any form; the chat template is"
        " the format of what a model is asked with",
    )
