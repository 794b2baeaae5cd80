"""Configs of axolotl: what is the same here is taken as it is, what is not is refused with what to write."""

from __future__ import annotations

from typing import Any

import pytest

from krill.chat import options
from krill.config import KrillConfig, chat, load_config
from krill.errors import ConfigError


def load(source: dict[str, Any], *overrides: str, **top: Any) -> KrillConfig:
    dataset = {"path": "chats.jsonl", "type": "chat_template", **source}
    return load_config({"datasets": [dataset], **top}, environ={}, overrides=overrides)


def fault_of(source: dict[str, Any], *overrides: str, **top: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load(source, *overrides, **top)
    return caught.value


def test_a_config_of_axolotls_for_conversations_is_taken_as_it_is() -> None:
    config = load(
        {
            "field_messages": "conversations",
            "message_property_mappings": {"role": "from", "content": "value"},
            "roles": {"user": ["human", "user"], "assistant": ["gpt", "assistant"]},
            "roles_to_train": ["assistant"],
            "train_on_eos": "last",
            "message_field_training": "train",
            "message_field_training_detail": "train_detail",
            "drop_system_message": True,
            "split": "train[:50%]",
        },
        dataset_prepared_path="out",
        val_set_size=0.05,
        dataset_processes=2,
        sequence_len=4096,
        sample_packing=True,
        excess_length_strategy="truncate",
        output_dir="model",
    )
    settings = config.preprocess
    assert (settings.prepared_path, settings.sequence_len, settings.packing) == ("out", 4096, "bfd")
    assert (settings.split.validation, settings.overflow, config.threads) == (0.05, "truncate", 2)
    assert config.datasets[0].roles == {"user": ("human", "user"), "assistant": ("gpt", "assistant")}
    assert config.datasets[0].message_property_mappings == {"role": "from", "content": "value"}
    assert not config.notices


@pytest.mark.parametrize(
    ("key", "value", "remedy"),
    [
        ("field", "body", "write `text_column`"),
        ("ds_type", "json", "or write `format: jsonl`"),
        ("data_files", "a.jsonl", "name the files as `path`"),
        ("conversation", "chatml", "write `chat_template: chatml` at the top level"),
        ("chat_template", "chatml", "it belongs at the top level"),
        ("message_field_role", "from", "write `message_property_mappings:"),
        ("field_human", "question", "write `message_property_mappings:"),
        ("field_instruction", "question", "rename the columns to `instruction`"),
        ("field_tools", "functions", "rename the column to `tools`"),
        ("train_on_eot", "turn", "write `train_on_eos`"),
        ("shards", 10, "take a part with `split: train[:10%]`"),
        ("name", "en", "write `path: org/name:config`"),
    ],
)
def test_a_key_of_a_dataset_that_is_another_here_is_refused_with_what_to_write(
    key: str, value: object, remedy: str
) -> None:
    for fault in (fault_of({key: value}), fault_of({}, f"datasets.0.{key}={value}")):
        assert f"unknown key `datasets.0.{key}`" in fault.message
        assert remedy in str(fault.hint)


@pytest.mark.parametrize(
    ("key", "value", "remedy"),
    [
        ("base_model", "models/qwen3", "write `tokenizer: {path: ...}`"),
        ("chat_template_jinja", "{{ messages }}", "write `chat_template: template.jinja`"),
        ("train_on_inputs", True, "write `roles_to_train`"),
        ("eot_tokens", ["<|im_end|>"], "leave it out"),
        ("pad_to_sequence_len", True, "rows are stored without padding"),
        ("dataset_exact_deduplication", False, "write `preprocess: {dedup: exact}`"),
    ],
)
def test_a_key_of_the_top_level_that_is_another_here_is_refused_with_what_to_write(
    key: str, value: object, remedy: str
) -> None:
    fault = fault_of({}, **{key: value})
    assert f"unknown key `{key}`" in fault.message
    assert remedy in str(fault.hint)


def test_all_such_keys_are_told_at_once() -> None:
    fault = fault_of({"split_thinking": True}, train_on_inputs=True)
    assert "2 keys of the config are unknown" in fault.message
    assert "`datasets.0.split_thinking` in the config: leave it out" in fault.message


def test_a_key_that_asks_for_nothing_is_passed_over() -> None:
    asking_nothing: dict[str, Any] = {"train_on_inputs": False, "chat_template_jinja": None}
    assert load({"split_thinking": False}, **asking_nothing) == load({})
    assert "unknown key `no_such_key`" in fault_of({}, no_such_key=False).message


def test_a_validation_split_is_a_share_and_no_count() -> None:
    assert "(`val_set_size` in the config)" in fault_of({}, val_set_size=2000).message


@pytest.mark.parametrize(
    ("kind", "remedy"),
    [
        ("sharegpt", "set it to `chat_template`"),
        ("alpaca", "set it to `chat_template`"),
        ("input_output", "as `prompt` and `completion`"),
        ("chatml.intel", "set it to `chat_template`"),
        ({"field_instruction": "q", "format": "[INST] {instruction}"}, "rename the columns"),
        (None, "tokens already"),
    ],
)
def test_another_type_is_refused_with_what_to_write(kind: object, remedy: str) -> None:
    fault = fault_of({"type": kind})
    assert "`datasets.0.type` is" in fault.message
    assert "must be `completion` or `chat_template` (the config)" in fault.message
    assert remedy in str(fault.hint)


@pytest.mark.parametrize(
    ("source", "fact", "remedy"),
    [
        ({"text_column": "body"}, "it is for plain text", "is under `text`"),
        ({"separator": "---"}, "it is for plain text", "is under `text`"),
        ({"form": "alpaca", "field_messages": "chats"}, "it says nothing of `form: alpaca`", "leave it out"),
        ({"form": "text", "roles": {"user": "human"}}, "it says nothing of `form: text`", "leave it out"),
        ({"roles_to_train": ["gpt"]}, "`gpt` is read as `assistant`", "write `assistant`"),
        (
            {"roles": {"assistant": ["bot"]}, "roles_to_train": "bot"},
            "`bot` is read as `assistant`",
            "write `assistant`",
        ),
        ({"roles_to_train": "all"}, "it is a list of roles", "name them"),
    ],
)
def test_what_would_change_nothing_is_refused(source: dict[str, Any], fact: str, remedy: str) -> None:
    fault = fault_of(source)
    assert fact in fault.message
    assert remedy in str(fault.hint)


def test_a_role_that_others_are_read_as_can_be_trained() -> None:
    config = load({"roles": {"gpt": ["assistant"]}, "roles_to_train": ["gpt"]})
    assert config.datasets[0].roles_to_train == ("gpt",)


def test_the_config_knows_the_roles_that_rows_are_read_with() -> None:
    assert chat.OTHER_ROLES == options.OTHER_ROLES
