"""`krill train` as a command: what it refuses, with which exit code, before anything is begun."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from measured import Outcome
from tiny_trainings import assert_hints_do, prepare


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("train")
    prepare(folder)
    return folder


@pytest.fixture
def refused(home: Path, krill: Callable[..., Outcome], tmp_path: Path) -> Callable[..., str]:
    """What `krill train` says of a config with some keys of its sections changed; it must end with `code`."""

    def run(*flags: str, code: int, by: Callable[..., Outcome] = krill, **sections: dict[str, Any]) -> str:
        from tiny_trainings import tiny_config

        config = tiny_config(home, output_dir=str(tmp_path / "model"))
        for name, keys in sections.items():
            config[name] = {**config[name], **keys}
        path = tmp_path / "config.yaml"
        path.write_text(yaml.safe_dump(config))
        outcome = by("train", path, *flags, cwd=tmp_path)
        assert outcome.code == code, outcome.err
        assert "Traceback" not in outcome.err
        assert not (tmp_path / "model").exists()
        return outcome.err

    return run


def test_nothing_to_train_on_is_a_mistake_that_names_both_ways(krill, tmp_path: Path) -> None:
    outcome = krill("train", cwd=tmp_path)
    assert outcome.code == 2
    assert "error: there is nothing to train on\n" in outcome.err
    assert "krill train config.yaml" in outcome.err
    assert "--dataset-id" in outcome.err


def test_a_dataset_that_is_not_prepared_is_an_input_error(refused) -> None:
    said = refused(code=3, preprocess={"prepared_path": "nowhere"})
    assert "there is no dataset at `nowhere`" in said
    assert "krill preprocess CONFIG" in said


def test_rows_that_are_too_short_are_refused(refused) -> None:
    said = refused("--seq-len", "64", code=2)
    assert "`train.seq_len` is `64`, longer than the rows" in said


def test_a_batch_larger_than_the_dataset_is_refused(refused) -> None:
    assert "too few for one batch of 4096" in refused("--batch-size", "4096", code=3)


def test_a_logger_that_is_not_installed_comes_with_its_pip_line(refused) -> None:
    if find_spec("wandb") is not None:
        pytest.skip("it is installed")
    assert "pip install 'krill-lm[wandb]'" in refused(code=2, train={"loggers": ["wandb"]})


def test_a_misspelled_key_of_training_is_found(refused) -> None:
    assert "did you mean `learning_rate`?" in refused(code=2, train={"lerning_rate": 1})


def test_flags_about_a_dataset_need_one(refused) -> None:
    assert "--max-examples has no effect without --dataset-id" in refused("--max-examples", "5", code=2)


def test_a_folder_that_is_not_ours_is_left_alone(home: Path, krill, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "thesis.txt").write_text("all of it")
    source = str(home / "input.jsonl")
    outcome = krill("train", "--dataset-id", source, "--output-dir", "model", cwd=tmp_path)
    assert outcome.code == 5
    assert "is not a Krill output: it has `thesis.txt`" in outcome.err
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["thesis.txt"]


def test_a_budget_that_is_too_small_says_what_would_do(home: Path, tmp_path: Path, fresh_krill) -> None:
    """First what any model takes, then what this one does; nothing is begun before."""
    from tiny_trainings import tiny_config

    config = tiny_config(home, output_dir="model")
    config["train"] |= {"max_steps": 1}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    assert_hints_do(
        lambda memory: fresh_krill("train", "config.yaml", "--memory", memory, cwd=tmp_path),
        "330MB",
        tmp_path / "model",
    )
