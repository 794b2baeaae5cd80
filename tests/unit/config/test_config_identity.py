"""What makes two runs the same, and a config as plain data."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from krill.config import KrillConfig, canonical_yaml, differing_keys, identity_dict, load_config, to_dict
from krill.config.dataset import WEB_KEYS

BASE: dict[str, Any] = {
    "datasets": [{"path": "a.jsonl", "columns": ["url"]}],
    "tokenizer": {"path": "./artifacts/tokenizer"},
    "preprocess": {"shard_size": "50MB"},
}


def load(*overrides: str) -> KrillConfig:
    return load_config(BASE, environ={}, overrides=overrides)


@pytest.mark.parametrize(
    "override",
    [
        "memory=1GB",
        "threads=2",
        "spill_dir=spill",
        "disk=1GB",
        "verify=false",
        "preprocess.prepared_path=elsewhere",
        "preprocess.batch_rows=10",
        "tokenizer.vocab_size=8000",
        "tokenizer.pattern=cl100k",
        "tokenizer.min_frequency=2",
        "tokenizer.max_token_length=16",
        "tokenizer.initial_alphabet=seen",
        "tokenizer.limit_alphabet=200",
        "tokenizer.tie_break=greatest",
        "tokenizer.boundaries=lines",
        "train.epochs=9",
        "train.output_dir=elsewhere",
    ],
)
def test_what_does_not_shape_the_output_is_no_part_of_the_identity(override: str) -> None:
    assert identity_dict(load(override)) == identity_dict(load())


@pytest.mark.parametrize(
    ("override", "difference"),
    [
        ("seed=1", "seed: `42` -> `1`"),
        ("preprocess.unit_bytes=64MB", "preprocess.unit_bytes: `32000000` -> `64000000`"),
        ("preprocess.dedup=none", "preprocess.dedup.method: `exact` -> `none`"),
        (
            "tokenizer.path=artifacts/tokenizer",
            "tokenizer.path: `./artifacts/tokenizer` -> `artifacts/tokenizer`",
        ),
        ("datasets.0.split=test", "datasets.0.split: `train` -> `test`"),
        ("datasets.0.columns=[]", "datasets.0.columns.0: `url` -> absent"),
        ("datasets.0.separator=x", "datasets.0.separator: `null` -> `x`"),
    ],
)
def test_what_shapes_the_output_is_named_with_both_values(override: str, difference: str) -> None:
    before = json.loads(json.dumps(identity_dict(load())))
    assert differing_keys(before, identity_dict(load(override))) == [difference]


def test_a_dataset_more_and_keys_of_another_version_are_named() -> None:
    differences = differing_keys(identity_dict(load()), identity_dict(load("datasets.1.path=b")))
    assert len(differences) == 1
    assert differences[0].startswith('datasets.1: absent -> `{"path": "b", "split": "train"')
    assert differing_keys({"a": {"old": 1}}, {"a": {"new": 2}}) == [
        "a.old: `1` -> absent",
        "a.new: absent -> `2`",
    ]
    assert differing_keys(identity_dict(load()), identity_dict(load())) == []


def chat(*overrides: str) -> KrillConfig:
    return load("datasets.0.type=chat_template", *overrides)


def test_the_identity_holds_every_key_that_is_not_left_out_on_purpose() -> None:
    identity, whole = identity_dict(chat()), to_dict(chat())
    assert set(whole) - set(identity) == {
        "memory",
        "threads",
        "spill_dir",
        "disk",
        "train",
        "engine",
        "verify",
    }
    assert set(whole["preprocess"]) - set(identity["preprocess"]) == {
        "prepared_path",
        "batch_rows",
        "on_error",
        "samples",
    }
    others = [
        {name: value for name, value in dataset.items() if name not in WEB_KEYS}
        for dataset in whole["datasets"]
    ]
    assert identity["datasets"] == others
    # What is left are the tokenizer's place and the special tokens, the first of which separates documents.
    assert set(identity["tokenizer"]) == {"path", "hub_id", "builtin", "special_tokens"}


def test_without_conversations_their_keys_are_no_part_of_the_identity() -> None:
    with_chat, without = identity_dict(chat()), identity_dict(load())
    assert set(with_chat) - set(without) == {"chat_template", "chat_template_kwargs", "chat_template_date"}
    assert set(with_chat["preprocess"]) - set(without["preprocess"]) == {
        "overflow",
        "rewritten_turns",
        "special_in_content",
        "max_untrained",
    }
    assert set(without["datasets"][0]) == {
        *("path", "split", "text_column", "separator", "columns", "weight", "max_tokens")
    }


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("datasets.0.format=warc", "format"),
        ("datasets.0.paths_file=a.gz", "paths_file"),
        ("datasets.0.skip_urls=[a]", "skip_urls"),
        ("datasets.0.extract.main_content=false", "extract"),
    ],
)
def test_keys_of_web_pages_are_a_part_of_the_identity_where_they_are_set(override: str, key: str) -> None:
    assert WEB_KEYS == ("paths_file", "format", "extract", "skip_urls")
    assert set(identity_dict(load(override))["datasets"][0]) - set(identity_dict(load())["datasets"][0]) == {
        key
    }


def test_how_conversations_are_rendered_is_a_part_of_the_identity() -> None:
    for override in (
        "chat_template=chatml",
        "chat_template_date=2025-01-31",
        "chat_template_kwargs={enable_thinking: false}",
        "preprocess.overflow=turn",
        "datasets.0.roles_to_train=[user]",
    ):
        key = override.partition("=")[0]
        [difference] = differing_keys(identity_dict(chat()), identity_dict(chat(override)))
        assert difference.startswith(key)


def test_plain_data_is_json_with_sizes_in_bytes_and_loads_again() -> None:
    config = load("memory=1GiB")
    data = json.loads(json.dumps(to_dict(config)))
    assert (data["memory"], data["preprocess"]["shard_size"]) == (2**30, 50_000_000)
    assert data["datasets"][0]["columns"] == ["url"]
    assert load_config(data, environ={}) == config
    assert load_config(yaml.safe_load(canonical_yaml(config)), environ={}) == config
    assert list(yaml.safe_load(canonical_yaml(config))) == list(KrillConfig.model_fields)
