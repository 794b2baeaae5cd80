"""Verbs that take the config in the place of the folders that it names."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from jobs import check_error
from tiny_trainings import prepare

pytest.importorskip("jax")


@pytest.fixture(scope="module")
def config(tmp_path_factory) -> Path:
    """A prepared dataset and a config in the working directory, whose paths are relative to it."""
    folder = tmp_path_factory.mktemp("config-verbs")
    settings = prepare(folder)
    settings["preprocess"]["prepared_path"] = "dataset"
    settings["datasets"] = [{"path": "input.jsonl"}]
    settings["train"] |= {"output_dir": "model", "max_steps": 1}
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


def test_a_config_names_the_dataset_and_the_model(krill, config) -> None:
    def run(*arguments):
        outcome = krill(*arguments, cwd=config.parent)
        assert outcome.code == 0, outcome.err
        return outcome

    for verb in ("inspect", "inspect-dataset", "validate"):
        by_config, by_folder = (run(verb, path, "--json").result for path in ("config.yaml", "dataset"))
        assert by_config == by_folder
    run("train", "config.yaml", "--quiet")
    scored = run("evaluate", "config.yaml", "--json").result
    assert (scored["model"], scored["data"], scored["split"]) == ("model", "dataset", "validation")
    assert scored["budget"]["limit"] == 10**9  # as the config says
    other = run("evaluate", "config.yaml", "input.jsonl", "--memory", "900MB", "--json").result
    assert (other["data"], other["budget"]["limit"]) == ("input.jsonl", 900_000_000)
    words = ("--prompt", "The", "--max-tokens", 3, "--temperature", 0)
    made = [
        run(verb, path, *words).out for verb, path in (("inference", "config.yaml"), ("generate", "model"))
    ]
    assert made[0] == made[1]


def test_what_the_config_names_and_is_not_there_is_told(krill, config) -> None:
    other = yaml.safe_load(config.read_text())
    other["preprocess"]["prepared_path"] = "nowhere"
    other["train"]["output_dir"] = "nobody"
    (config.parent / "other.yaml").write_text(yaml.safe_dump(other))

    def run(*arguments):
        return krill(*arguments, cwd=config.parent)

    remedy = "krill preprocess other.yaml"
    check_error(run("evaluate", "other.yaml"), 3, "`nowhere`, is not there", hint=remedy)
    check_error(run("validate", "other.yaml"), 3, "`nowhere` does not exist", hint="krill preprocess")
    check_error(run("inference", "other.yaml", "--prompt", "x"), 3, "nobody", hint="")
    check_error(run("evaluate", "model"), 2, "nothing to evaluate", hint="krill evaluate model DATA")
    check_error(run("validate", "missing.yaml"), 2, "config `missing.yaml` does not exist", hint="YAML")
