"""Defaults, kinds of values, what later versions add, and what preprocessing can't do without."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from krill.budget.size import parse_size
from krill.config import DatasetConfig, KrillConfig, load_config
from krill.config.fields import size_text
from krill.errors import ConfigError
from krill.tokenizer.options import TrainOptions


def load(tree: dict[str, Any]) -> KrillConfig:
    return load_config(tree, environ={})


def fault_of(tree: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        load(tree)
    return caught.value.message


def nest(key: str, value: object) -> dict[str, Any]:
    for step in reversed(key.split(".")):
        value = {step: value}
    assert isinstance(value, dict)
    return value


def test_defaults() -> None:
    config = KrillConfig()
    assert (config.spill_dir, config.disk, config.datasets) == (None, None, ())
    assert (config.preprocess.unit_bytes, config.preprocess.batch_rows) == (32_000_000, None)
    assert config.preprocess.token_dtype == "auto"
    assert DatasetConfig(path="x").columns == ()
    assert not config.tokenizer.is_given


def test_every_field_explains_itself() -> None:
    def fields(model: type[BaseModel]) -> list[tuple[str, str | None]]:
        return [(name, field.description) for name, field in model.model_fields.items()]

    models = [
        KrillConfig,
        DatasetConfig,
        *(type(getattr(KrillConfig(), name)) for name in ("tokenizer", "train")),
    ]
    described = [entry for model in [*models, type(KrillConfig().preprocess)] for entry in fields(model)]
    assert [name for name, text in described if not text or not text.endswith(".")] == []


def test_an_engine_may_stand_for_its_section() -> None:
    assert load({"engine": "ray"}) == load({"engine": {"name": "ray"}})
    assert load({}).engine.name == "local"


def test_slurm_needs_a_partition() -> None:
    slurm = {"name": "datatrove", "executor": "slurm"}
    assert "`partition` is missing" in fault_of({"engine": slurm})
    assert load({"engine": {**slurm, "partition": "cpu"}}).engine.time == "24:00:00"


def test_a_method_of_dedup_may_stand_for_its_section() -> None:
    assert load({"preprocess": {"dedup": "minhash"}}) == load(
        {"preprocess": {"dedup": {"method": "minhash"}}}
    )
    both = load_config(
        {"preprocess": {"dedup": "minhash"}}, environ={}, overrides=["preprocess.dedup.rows=4"]
    )
    assert (both.preprocess.dedup.method, both.preprocess.dedup.rows) == ("minhash", 4)


@pytest.mark.parametrize(
    ("dedup", "fact"),
    [
        ("fuzzy", "`preprocess.dedup.method` is `fuzzy`: must be `none`, `exact`, `bloom` or `minhash`"),
        ("bloom", "`method: bloom` needs `expected_documents`"),
        ({"method": "minhash", "threshold": 0.8, "bands": 5}, "`threshold` chooses `bands` and `rows`"),
        ({"method": "minhash", "threshold": 0}, "must be a number above 0 up to 1, or `null`"),
        ({"method": "minhash", "level": "line"}, "`method: minhash` compares documents"),
        ({"method": "minhash", "bands": 100, "rows": 100}, "`bands` x `rows` is 10,000: at most 4,096"),
        ({"method": "exact", "keep": 1}, "unknown key `preprocess.dedup.keep`"),
    ],
)
def test_what_dedup_can_not_do_is_told(dedup: object, fact: str) -> None:
    assert fact in fault_of({"preprocess": {"dedup": dedup}})


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("memory", "1.5 GB", 1_500_000_000),
        ("memory", "auto", "auto"),
        ("memory", 2**30, 2**30),
        ("threads", "4", 4),
        ("disk", None, None),
        ("disk", "10GB", 10**10),
        ("preprocess.sequence_len", "2e3", 2000),
        ("preprocess.sequence_len", 64.0, 64),
        ("preprocess.strip", 0, False),
        ("preprocess.max_document_bytes", "1KB", 1000),
        ("preprocess.unit_bytes", "64MB", 64_000_000),
        ("tokenizer.special_tokens", [], ()),
        ("tokenizer.max_token_length", "16", 16),
        ("tokenizer.limit_alphabet", None, None),
        ("tokenizer.initial_alphabet", "abc", "abc"),
        ("tokenizer.tie_break", "greatest", "greatest"),
        ("tokenizer.boundaries", "lines", "lines"),
        ("train.learning_rate", "1e-4", 0.0001),
        ("train.mixed_precision", "bf16", "bf16"),
        ("train.resume", True, True),
    ],
)
def test_values_are_taken_as_people_write_them(key: str, value: object, expected: object) -> None:
    found: Any = load(nest(key, value))
    for step in key.split("."):
        found = getattr(found, step)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("memory", None, "must be a size such as `512MB`, `2GiB` or a number of bytes, or `auto`"),
        ("memory", True, "must be a size such as `512MB`, `2GiB` or a number of bytes, or `auto`"),
        ("preprocess.shard_size", "999", "must be at least `1KB`"),
        ("preprocess.unit_bytes", "63999", "must be at least `64KB`"),
        ("preprocess.max_document_bytes", "2GiB", "must be below `2GiB`"),
        ("preprocess.sequence_len", 0, "must be a whole number from 1 to 2147483647"),
        ("preprocess.sequence_len", 1.5, "must be a whole number from 1 to 2147483647"),
        ("preprocess.min_chars", "many", "must be a whole number of at least 0"),
        ("preprocess.strip", "maybe", "must be `true` or `false`"),
        ("preprocess.strip", [1], "must be `true` or `false`"),
        ("preprocess.token_dtype", "uint8", "must be `auto`, `uint16`, `uint32` or `int32`"),
        ("preprocess.oversize", "keep", "must be `split` or `drop`"),
        ("preprocess.on_error", "ignore", "must be `fail` or `skip`"),
        ("preprocess.batch_rows", 0, "must be a whole number of at least 1, or `null`"),
        ("tokenizer.builtin", "gpt2", "must be `bytes`"),
        ("tokenizer.special_tokens", "<eos>", "must be a list"),
        ("tokenizer.special_tokens", ["a", "a"], "must not repeat `a`"),
        ("tokenizer.max_token_length", 0, "must be a whole number of at least 1, or `null`"),
        ("tokenizer.limit_alphabet", "all", "must be a whole number of at least 1, or `null`"),
        ("tokenizer.tie_break", "smallest", "must be `huggingface` or `greatest`"),
        ("tokenizer.boundaries", "words", "must be `documents` or `lines`"),
        ("tokenizer.path", "a\0b", "must be a path, and a path can't contain a NUL character"),
        ("train.learning_rate", 0, "must be a number above 0"),
        ("train.learning_rate", 10**400, "must be a number above 0"),
        ("memory", 10**30, "must be a size such as `512MB`, `2GiB` or a number of bytes, or `auto`"),
        ("train.learning_rate", float("nan"), "must be a number above 0"),
        ("train.mixed_precision", True, "must be `false`, `bf16` or `fp16`"),
        ("train.optimizer", "muon", "must be `adamw` or `adamw8bit`"),
    ],
)
def test_a_value_that_cannot_be_used_is_told_with_the_rule(key: str, value: object, rule: str) -> None:
    fault = fault_of(nest(key, value))
    assert fault.startswith(f"`{key}` is `")
    assert fault.endswith(f": {rule} (the config)")
    assert "pydantic" not in fault


def test_empty_text_is_refused() -> None:
    assert fault_of({"datasets": [{"path": ""}]}) == "`datasets.0.path` must not be empty (the config)"


def test_a_document_must_fit_into_a_unit() -> None:
    assert fault_of({"preprocess": {"max_document_bytes": "40MB"}}) == (
        "`preprocess`: `max_document_bytes` is `40MB` but `unit_bytes` only `32MB`: "
        "a document must fit into a unit"
    )
    assert (
        load({"preprocess": {"max_document_bytes": "64KB", "unit_bytes": "64KB"}}).preprocess.unit_bytes
        == 64000
    )


def test_training_has_the_same_defaults_in_the_config_and_in_python() -> None:
    config = KrillConfig().tokenizer
    assert {name: getattr(config, name) for name in TrainOptions.__slots__} == asdict(TrainOptions())


@pytest.mark.parametrize("key", ["path", "hub_id"])
def test_a_tokenizer_that_is_built_in_is_nowhere_else(key: str) -> None:
    assert fault_of({"tokenizer": {key: "a", "builtin": "bytes"}}) == (
        f"`tokenizer`: `builtin` is `bytes`, and that needs no `{key}`: drop one of them"
    )


def test_a_tokenizer_may_have_a_place_here_and_a_name_on_the_hub() -> None:
    found = load({"tokenizer": {"path": "a"}, "hub_tokenizer_id": "org/b"}).tokenizer
    assert (found.path, found.hub_id, found.local_path) == ("a", "org/b", "a")


@pytest.mark.parametrize("name", ["./tok", "../tok", "/tmp/tok", "a/b/c", "tok/", ".hidden"])
def test_a_name_that_the_hub_can_t_have_is_a_path(name: str) -> None:
    assert load({"hub_tokenizer_id": name}).tokenizer.local_path == name


def test_what_is_here_under_the_hub_s_name_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load({"hub_tokenizer_id": "org/name"}).tokenizer
    assert settings.local_path is None
    (tmp_path / "org" / "name").mkdir(parents=True)
    assert settings.local_path == "org/name"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load({"hub_tokenizer_id": "~/org"}).tokenizer.local_path == str(tmp_path / "org")


@pytest.mark.parametrize("columns", [["body"], ["text"], ["url", "position"]])
def test_carried_columns_do_not_clash_with_krills_own(columns: list[str]) -> None:
    fault = fault_of({"datasets": [{"path": "a", "text_column": "body", "columns": columns}]})
    assert fault.startswith(f"`datasets.0`: `columns` must not name `{columns[-1]}`")


def test_preprocessing_without_datasets_says_what_to_write() -> None:
    with pytest.raises(ConfigError, match="`datasets` is missing") as caught:
        KrillConfig().require_for_preprocess()
    assert caught.value.hint == "add, for example,\ndatasets:\n  - path: data/*.jsonl"


@pytest.mark.parametrize("output", ["tokens", "both"])
def test_preprocessing_to_tokens_without_a_tokenizer_says_what_to_write(output: str) -> None:
    config = load({"datasets": [{"path": "a"}], "preprocess": {"output": output}})
    with pytest.raises(
        ConfigError, match=f"`tokenizer` is missing .* `preprocess.output` is `{output}`"
    ) as caught:
        config.require_for_preprocess()
    assert "`tokenizer.builtin` to `bytes`" in str(caught.value.hint)


def test_preprocessing_to_text_needs_no_tokenizer() -> None:
    load({"datasets": [{"path": "a"}], "preprocess": {"output": "text"}}).require_for_preprocess()
    load({"datasets": [{"path": "a"}], "tokenizer": {"builtin": "bytes"}}).require_for_preprocess()


def test_a_config_built_in_python_takes_models_and_flat_keys_and_raises_config_errors() -> None:
    flat: dict[str, Any] = {"sequence_len": 16, "preprocess_memory_efficient": True}
    config = KrillConfig(datasets=(DatasetConfig(path="a"),), **flat)
    assert (config.preprocess.sequence_len, config.datasets[0].path) == (16, "a")
    assert len(config.notices) == 1
    with pytest.raises(ConfigError, match="unknown key `sequence_lem` in the config"):
        KrillConfig(**{"sequence_lem": 16})
    with pytest.raises(ConfigError, match="must be a section of keys"):
        KrillConfig.model_validate([1])


def test_a_checked_config_is_frozen() -> None:
    config = KrillConfig()
    with pytest.raises(ValueError, match="frozen"):
        config.memory = 5  # type: ignore[misc]
    assert KrillConfig.model_validate(config) is config


@given(st.integers(min_value=0, max_value=10**15))
def test_a_size_text_means_exactly_that_size(size: int) -> None:
    assert parse_size(size_text(size)) == size


def test_sizes_are_written_short() -> None:
    sizes = [0, 999, 1000, 32_000_000, 2 * 2**30, 2**20, 1_500_000_000]
    assert [size_text(size) for size in sizes] == ["0", "999", "1KB", "32MB", "2GiB", "1MiB", "1500MB"]
