"""`krill train` by flags: the config that they make, where things go, and what is made first."""

from __future__ import annotations

from pathlib import Path

import pytest

from krill.cli.options import ConfigOptions, OutputOptions
from krill.cli.train import TrainFlags, load_for_training
from krill.config import KrillConfig, load_config, to_dict
from krill.errors import ConfigError


@pytest.fixture
def made(monkeypatch, tmp_path):
    """Loads flags as the command does; the steps that it would run first are in `steps`."""
    steps: list[tuple[str, list[str]]] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("krill.cli.train.run_step", lambda step, words, capture: steps.append((step, words)))

    def load(*, overwrite=False, quiet=False, memory=None, changes=(), **flags) -> KrillConfig:
        options = ConfigOptions(memory=memory, set=changes)
        shown = OutputOptions(quiet=quiet)
        return load_for_training(None, TrainFlags(**flags), options, shown, overwrite=overwrite)

    load.steps = steps
    return load


def test_streaming_by_flags_trains_its_tokenizer_first_inside_the_output(made):
    config = made(dataset_id="texts/*.txt", output_dir="out", memory="1GB", overwrite=True, quiet=True)
    assert config.tokenizer.path == "out/tokenizer"
    assert made.steps == [("train-tokenizer", ["out/config.yaml", "--quiet", "--overwrite"])]
    # What the steps read is the same config: no key more, since some mean something only if given.
    written = load_config(Path("out/config.yaml"), environ={})
    assert to_dict(written) == to_dict(config)
    assert written.train.model_fields_set == config.train.model_fields_set
    assert written.train.fixed_microbatch is None


def test_without_streaming_a_dataset_of_all_the_text_is_prepared(made):
    config = made(dataset_id="a.jsonl", output_dir="out", streaming=False, seq_len=64, max_examples=9)
    assert [step for step, _ in made.steps] == ["train-tokenizer", "preprocess"]
    prepared = config.preprocess
    assert (prepared.prepared_path, prepared.sequence_len, prepared.min_length) == ("out/dataset", 64, 0)
    assert (prepared.min_chars, prepared.strip, prepared.dedup.method) == (0, False, "none")
    assert config.datasets[0].split == "train[:9]"


def test_a_tokenizer_that_is_given_is_not_trained_and_has_the_size_it_has(made):
    config = made(dataset_id="a.jsonl", output_dir="out", tokenizer="mine")
    assert made.steps == []
    assert config.tokenizer.path == "mine"
    assert "vocab_size" not in config.tokenizer.model_fields_set


def test_flags_win_over_set_and_over_the_config(made, tmp_path):
    (tmp_path / "config.yaml").write_text("train: {epochs: 2, batch_size: 4}\nseed: 1\n")
    flags = TrainFlags(epochs=5, use_8bit_optimizer=True, gradient_accumulation_steps=3, seed=7)
    options = ConfigOptions(set=("train.epochs=4", "train.width=32"))
    config = load_for_training("config.yaml", flags, options, OutputOptions(), overwrite=False)
    train = config.train
    assert (train.epochs, train.width, train.batch_size, train.optimizer) == (5, 32, 4, "adamw8bit")
    assert (train.fixed_microbatch, train.step_rows, config.seed) == (4, 12, 7)
    assert made.steps == []
    assert not (tmp_path / "artifacts").exists()


def test_a_configuration_of_a_hub_s_dataset_is_part_of_its_name(made):
    config = made(dataset_id="org/name", dataset_config="en", text_column="body", split="validation")
    source = config.datasets[0]
    assert (source.path, source.text_column, source.split) == ("org/name:en", "body", "validation")


def test_two_ways_to_take_a_part_of_the_data_are_refused(made):
    with pytest.raises(ConfigError, match="a part already, and --max-examples is given too"):
        made(dataset_id="a.jsonl", split="train[:10%]", max_examples=5)
