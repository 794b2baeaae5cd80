"""COMPAT, preprocessing: the seeds' flat keys, `datatrove:` block, and every config printed in them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from krill.config import KrillConfig, load_config
from krill.config.aliases import DATATROVE_KEYS, FLAT_KEYS, Moved
from krill.config.filters import Language
from krill.config.keys import level_of, resolve
from krill.errors import ConfigError

SEEDS = Path(__file__).parents[4] / "shared" / "seeds"


def load(tree: dict[str, Any], *overrides: str) -> KrillConfig:
    return load_config(tree, environ={}, overrides=overrides)


def fault_of(tree: dict[str, Any], *overrides: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load(tree, *overrides)
    return caught.value


def datatrove(**pipeline: Any) -> dict[str, Any]:
    return {"datatrove": {"enabled": True, "pipeline_config": pipeline}}


@pytest.mark.parametrize(
    ("key", "value", "target"),
    [
        ("sequence_len", 512, "preprocess.sequence_len"),
        ("hub_tokenizer_id", "org/name", "tokenizer.hub_id"),
        ("vocab_size", 8000, "tokenizer.vocab_size"),
        ("dataset_prepared_path", "./out", "preprocess.prepared_path"),
        ("dataset_prepared_min_length", 20, "preprocess.min_length"),
        ("hub_model_id", "org/model", "train.hub_model_id"),
        ("output_dir", "./model", "train.output_dir"),
        ("preprocess_chunk_size", 1000, "preprocess.batch_rows"),
        ("streaming_chunk_size", 1000, "preprocess.batch_rows"),
        ("num_workers", 3, "threads"),
        ("max_length", 9000, "preprocess.max_chars"),
        ("minhash_threshold", 0.8, "preprocess.dedup.threshold"),
        ("preprocess_dedup_cache_dir", "./seen", "preprocess.dedup_cache_dir"),
    ],
)
def test_a_flat_key_sets_its_canonical_key(key: str, value: object, target: str) -> None:
    found: Any = load({key: value})
    for step in target.split("."):
        found = getattr(found, step)
    assert found == value
    assert load({}, f"{key}={value}") == load({key: value})


def test_a_flat_size_is_parsed_like_a_nested_one() -> None:
    assert load({"preprocess_save_shard_size": "50MB"}).preprocess.shard_size == 50_000_000


def test_every_target_of_an_alias_is_a_key_that_takes_a_value() -> None:
    targets = [
        rule.target for rule in (*FLAT_KEYS.values(), *DATATROVE_KEYS.values()) if isinstance(rule, Moved)
    ]
    found = [resolve(map(str, target), level_of(KrillConfig)) for target in targets]
    assert all(known and below is None for _, below, known in found)


@pytest.mark.parametrize("key", ["preprocess_memory_efficient", "collect_stats", "cleanup_temp"])
def test_a_key_that_changes_nothing_is_accepted_with_a_notice(key: str) -> None:
    config = load({key: True})
    assert len(config.notices) == 1
    assert config.notices[0].startswith(f"`{key}` changes nothing: ")
    assert config.model_dump() == KrillConfig().model_dump()


def test_flat_and_nested_values_must_agree() -> None:
    assert load({"sequence_len": 5, "preprocess": {"sequence_len": 5}}).preprocess.sequence_len == 5
    fault = fault_of({"preprocess": {"sequence_len": 6}, "sequence_len": 5})
    assert (
        fault.message
        == "`preprocess.sequence_len` is `6` (the config) but `sequence_len` is `5` (the config)"
    )
    assert fault.hint == "they are two names of one setting: keep one of them"
    assert (
        "`streaming_chunk_size` is `2`"
        in fault_of({"preprocess_chunk_size": 1, "streaming_chunk_size": 2}).message
    )


def test_two_names_in_the_environment_must_agree() -> None:
    with pytest.raises(
        ConfigError, match=r"`KRILL_PREPROCESS__SEQUENCE_LEN` is `3`.*`KRILL_SEQUENCE_LEN` is `4`"
    ):
        load_config({}, environ={"KRILL_PREPROCESS__SEQUENCE_LEN": "3", "KRILL_SEQUENCE_LEN": "4"})


def test_a_later_layer_wins_under_either_name() -> None:
    assert load({"sequence_len": 5}, "preprocess.sequence_len=6").preprocess.sequence_len == 6
    assert load({"preprocess": {"sequence_len": 5}}, "sequence_len=6").preprocess.sequence_len == 6


def test_an_ambiguous_length_is_refused_with_the_remedy() -> None:
    assert fault_of({"min_length": 5}).hint == (
        "write `preprocess.min_length` for tokens, or `preprocess.min_chars` for characters"
    )
    assert load({"max_length": None}) == KrillConfig()


def test_an_enabled_datatrove_block_sets_the_same_steps() -> None:
    filters = [{"min_length": 7}, {"max_length": 99}, {"language_filter": "en"}]
    config = load(
        datatrove(
            deduplication="minhash",
            quality_filters=filters,
            distributed=False,
            num_workers=2,
            minhash_threshold=0.7,
        )
    )
    settings = config.preprocess
    assert (settings.dedup.method, settings.dedup.threshold) == ("minhash", 0.7)
    assert (settings.min_chars, settings.max_chars, config.threads) == (7, 99, 2)
    assert settings.filters == (Language(allow=("en",)),)
    assert config.notices == ["`datatrove`: Krill runs these steps itself, without datatrove"]


def test_a_distributed_datatrove_block_means_its_engine() -> None:
    assert load(datatrove(distributed=True)).engine.name == "datatrove"
    assert load(datatrove(distributed=False)).engine.name == "local"
    assert load(datatrove(distributed=True), "engine=ray").engine.name == "ray"


@pytest.mark.parametrize(
    ("overrides", "where"),
    [((), "on datatrove's executors (`engine: datatrove`)"), (("engine=local",), "without datatrove")],
)
def test_the_notice_says_where_the_steps_of_a_distributed_block_run(
    overrides: tuple[str, ...], where: str
) -> None:
    notices = load(datatrove(distributed=True), *overrides).notices
    assert notices == [f"`datatrove`: Krill runs these steps itself, {where}"]


def test_the_config_object_says_whether_the_block_is_enabled() -> None:
    block = {"deduplication": "minhash", "quality_filters": [{"min_length": 100}], "distributed": False}
    config = load(datatrove(**block))
    assert config.datatrove.enabled is True
    assert config.datatrove.pipeline_config == block
    assert KrillConfig(**datatrove(**block)).datatrove == config.datatrove
    assert load_config(config).datatrove == config.datatrove
    for tree in ({}, {"datatrove": None}, {"datatrove": {"enabled": False, "pipeline_config": block}}):
        assert load(tree).datatrove.enabled is False


@pytest.mark.parametrize(
    "block",
    [{"enabled": False, "whatever": 1}, {"pipeline_config": {"distributed": True}}, {"other": 1}, None],
)
def test_a_datatrove_block_that_is_not_enabled_is_ignored(block: object) -> None:
    assert load({"datatrove": block}) == KrillConfig()


@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        (
            {"deduplication": "fuzzy"},
            "`preprocess.dedup.method` is `fuzzy`: must be `none`, `exact`, `bloom` or `minhash`",
        ),
        (
            {"distributed": "often"},
            "`datatrove.pipeline_config.distributed` is `often`: must be `true` or `false`",
        ),
        ({"quality_filter": []}, "unknown key `datatrove.pipeline_config.quality_filter`"),
        (
            {"quality_filters": [{"min_length": 1}, {"min_length": 2}]},
            "but `datatrove.pipeline_config.quality_filters",
        ),
        ({"quality_filters": 5}, "`datatrove.pipeline_config.quality_filters` is `5`: must be a list"),
    ],
)
def test_what_a_datatrove_block_asks_in_vain_is_told(pipeline: dict[str, Any], message: str) -> None:
    assert message in fault_of(datatrove(**pipeline)).message


def test_a_datatrove_block_must_agree_with_the_file_and_yields_to_overrides() -> None:
    tree = {**datatrove(deduplication="exact"), "preprocess": {"dedup": "none"}}
    assert "`datatrove.pipeline_config.deduplication` is `exact`" in fault_of(tree).message
    assert load(tree, "preprocess.dedup=none").preprocess.dedup.method == "none"
    assert load(tree, "datatrove.enabled=false").preprocess.dedup.method == "none"
    assert "`datatrove.enabled` is `sure`" in fault_of({"datatrove": {"enabled": "sure"}}).message


def blocks(name: str) -> list[dict[str, Any]]:
    """Every config printed in a seed: YAML blocks and the here-documents of its shell blocks."""
    found = sorted(SEEDS.glob(f"{name}*.md"))
    if not found:
        pytest.skip("the seeds are not beside the project")
    text = found[0].read_text(encoding="utf-8", errors="replace")
    return [
        yaml.safe_load(one or other)
        for one, other in re.findall(r"```yaml\n(.*?)```|<< EOF\n(.*?)EOF", text, re.DOTALL)
    ]


def test_every_config_of_seed_000_loads() -> None:
    constrained, usual, basic, cached = blocks("000")
    config = load(constrained)
    assert (config.preprocess.batch_rows, config.preprocess.shard_size) == (1000, 50_000_000)
    assert config.notices == [
        "`preprocess_memory_efficient` changes nothing: there is one mode, and it is bounded by `memory`"
    ]
    config = load(basic)
    assert (config.preprocess.sequence_len, config.preprocess.batch_rows) == (2048, 1000)
    assert (config.datasets[0].path, config.datasets[0].split) == ("large/dataset", "train")
    for block in (usual, cached):
        config = load(block)
        assert config.preprocess.dedup_cache_dir == block["preprocess_dedup_cache_dir"]
        assert config.preprocess.batch_rows == 5000


def test_the_config_of_seed_003_loads_with_its_minhash_and_language_filter() -> None:
    (block,) = blocks("003")
    config = load(block)
    assert config.engine.name == "local"
    assert config.preprocess.sequence_len == 8192
    assert config.preprocess.prepared_path == "./artifacts/webtext-8k"
    assert config.preprocess.dedup.method == "minhash"
    assert config.preprocess.filters == (Language(allow=("en",)),)
    assert config.preprocess.min_chars == 100
    with pytest.raises(ConfigError, match="`datasets` is missing"):
        load(block).require_for_preprocess()
