"""Trainings that are killed or interrupted, and continued, end with the bits of one that was left alone."""

from __future__ import annotations

import json
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

import preloaded
from tiny_trainings import MEASURED, prepare, tiny_config

STEPS = 24
TRAIN = {
    "max_steps": STEPS,
    "optimizer": "adamw8bit",
    "gradient_accumulation_steps": 3,
    "width": 32,
    "layers": 2,
    "save_every": 5,
    "log_every": 4,
    "evaluate_every": 10,
    "keep_checkpoints": 2,
}


class Training:
    """One config, and processes that run it into folders of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"
        prepare(folder)

    def start(self, output: str, *more: str) -> preloaded.Launched:
        config = self.folder / f"{output}.yaml"
        settings = tiny_config(self.folder, **TRAIN, output_dir=str(self.folder / output))
        config.write_text(yaml.safe_dump(settings))
        with self.log.open("wb") as log:
            printed = log.fileno()
            return preloaded.launch(["train", config, *more], out=printed, err=printed)

    def finish(self, output: str, *more: str) -> str:
        code = self.start(output, *more).wait(120)
        said = self.log.read_text()
        assert code == 0, said
        return said

    def saved(self, output: str) -> int:
        """The newest checkpoint that is there, by its folder's name."""
        steps = (self.folder / output / "checkpoints").glob("[0-9]*")
        return max((int(path.name) for path in steps), default=0)

    def end_after(self, process: preloaded.Launched, output: str, step: int, number: int) -> str:
        """Send a signal once `step` is saved; what it said until it ended."""
        deadline = time.monotonic() + 100
        while self.saved(output) < step:
            assert process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.002)
        process.send_signal(number)
        process.wait(60)
        return self.log.read_text()

    def end_after_pause(
        self, process: preloaded.Launched, output: str, step: int, deed: Callable[[], object]
    ) -> None:
        """Do something once `step` is saved, while the process is stopped, and see it end."""
        while self.saved(output) < step:
            assert process.poll() is None, self.log.read_text()
            time.sleep(0.002)
        process.send_signal(signal.SIGSTOP)
        deed()
        process.send_signal(signal.SIGCONT)
        process.wait(120)

    def lines(self, output: str) -> list[dict]:
        read = (self.folder / output / "metrics.jsonl").read_text().splitlines()
        return [
            {name: value for name, value in json.loads(line).items() if name not in MEASURED} for line in read
        ]


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    return Training(tmp_path_factory.mktemp("train"))


@pytest.mark.skipif(sys.platform == "darwin", reason="bits are promised for one machine and its libraries")
def test_killed_and_interrupted_trainings_end_with_the_same_weights_and_metrics(training):
    training.finish("alone")
    chance = random.Random(6)
    killed = training.start("often")
    training.end_after(killed, "often", chance.randrange(1, 11), signal.SIGKILL)
    assert killed.returncode == -signal.SIGKILL
    went_on_from = training.saved("often")
    interrupted = training.start("often", "--set", "train.log_every=4")
    said = training.end_after(interrupted, "often", chance.randrange(went_on_from + 1, 16), signal.SIGINT)
    assert interrupted.returncode == 130, said
    assert f"continuing after step {went_on_from}" in said
    assert "is saved\nhint: run the same command to continue" in said
    stopped_at = training.saved("often")
    assert f"interrupted after step {stopped_at}:" in said
    said = training.finish("often", "--memory", "2GB")  # another budget: the stored plan holds all the same
    assert f"continuing after step {stopped_at}" in said
    model = [(training.folder / name / "model.safetensors").read_bytes() for name in ("alone", "often")]
    assert model[0] == model[1]
    assert training.lines("often") == training.lines("alone")
    assert [line["step"] for line in training.lines("alone") if line["kind"] == "train"] == list(
        range(4, STEPS + 1, 4)
    )


def test_a_model_that_a_user_puts_there_while_a_training_runs_is_kept(training):
    model = training.folder / "guarded" / "model.safetensors"
    running = training.start("guarded")
    training.end_after_pause(running, "guarded", 5, lambda: model.write_text("mine"))
    assert running.returncode == 5, training.log.read_text()
    said = training.log.read_text()
    assert "holds `model.safetensors`, which Krill did not write: nothing there was touched" in said
    assert model.read_text() == "mine"
    model.rename(training.folder / "mine.safetensors")
    training.finish("guarded")
    assert model.stat().st_size > 1000


def test_a_training_is_not_started_anew_over_files_of_others(training):
    training.finish("noted")
    notes = training.folder / "noted" / "checkpoints" / "NOTES.md"
    notes.write_text("mine")
    before = (training.folder / "noted" / "model.safetensors").stat().st_ino
    assert training.start("noted", "--overwrite").wait(120) == 5
    said = training.log.read_text()
    assert "holds `checkpoints/NOTES.md`, which Krill did not write: nothing in it was touched" in said
    assert (training.folder / "noted" / "model.safetensors").stat().st_ino == before
    notes.unlink()
    training.finish("noted", "--overwrite")
