"""The folder of a training: finished, to be continued, to be started, or refused."""

from __future__ import annotations

import json

import pytest

from krill.errors import ConfigError, StorageError
from krill.storage.run import Run
from krill.training.folder import BEGUN, TrainFolder, check_ours

RUN = {"krill": "1", "identity": "a", "config": {"train": {"epochs": 1}}, "inputs": {"rows": "r"}}
OTHER = {"krill": "1", "identity": "b", "config": {"train": {"epochs": 2}}, "inputs": {"rows": "s"}}


def decided(folder, run=RUN, *, overwrite=False, anew=False):
    with Run(TrainFolder(folder)) as held:
        return held.begin(run, overwrite=overwrite, anew=anew)


@pytest.fixture
def begun(tmp_path):
    folder = tmp_path / "model"
    held = TrainFolder(folder)
    with Run(held) as run:
        assert run.begin(RUN, overwrite=False) == "start"
        held.start(RUN)
        (held.checkpoints / "00000010").mkdir(parents=True)
        held.metrics.write_text("{}\n")
    return folder


def test_a_run_is_continued_finished_and_refused_with_another_config(begun):
    assert decided(begun) == "continue"
    with pytest.raises(ConfigError, match="an unfinished run for") as error:
        decided(begun, OTHER)
    assert "train.epochs: `1` -> `2`" in error.value.message
    assert "the dataset's rows" in error.value.message
    assert decided(begun, OTHER, overwrite=True) == "start"
    assert decided(begun, OTHER, anew=True) == "start"
    with Run(TrainFolder(begun)) as run:
        run.publish({"command": "train", **RUN})
    assert not (begun / BEGUN).exists()
    assert decided(begun) == "finished"
    assert decided(begun, anew=True) == "finished"
    with pytest.raises(ConfigError, match=r"the output .* was made differently"):
        decided(begun, OTHER)


def test_what_has_no_checkpoint_yet_is_no_reason_to_refuse(begun):
    (begun / "checkpoints" / "00000010").rmdir()
    assert decided(begun, OTHER) == "start"


def test_starting_anew_removes_what_a_training_made_and_nothing_else(begun):
    (begun / "notes.txt").write_text("mine")
    (begun / "tokenizer").mkdir()
    TrainFolder(begun).start(OTHER)
    assert sorted(path.name for path in begun.iterdir()) == [BEGUN, "notes.txt", "tokenizer"]
    assert json.loads((begun / BEGUN).read_bytes())["identity"] == "b"


def test_a_folder_with_other_things_in_it_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("all of it")
    with pytest.raises(StorageError, match=r"not a Krill output: it has `thesis\.txt`"):
        decided(tmp_path)
    with pytest.raises(StorageError, match="thesis"):
        check_ours(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_the_folder_of_a_dataset_is_refused(tmp_path):
    (tmp_path / "krill-run.json").write_text('{"command": "preprocess", "identity": "a"}')
    with pytest.raises(StorageError, match="holds what `krill preprocess` made"):
        decided(tmp_path, overwrite=True)


def test_two_runs_can_t_have_one_folder(tmp_path):
    with (
        Run(TrainFolder(tmp_path / "model")),
        pytest.raises(StorageError, match="another run is writing"),
    ):
        decided(tmp_path / "model")


def test_a_folder_that_was_made_for_nothing_is_gone_again(tmp_path):
    assert decided(tmp_path / "a" / "model") == "start"
    assert not (tmp_path / "a").exists()
