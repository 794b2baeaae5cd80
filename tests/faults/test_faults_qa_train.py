"""Trainings of readers that are killed or interrupted, and continued, end with the bits of one left alone."""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path

import pytest

import preloaded
from tiny_readers import write_recall

FLAGS = {
    "--hidden": 16,
    "--layers": 1,
    "--heads": 1,
    "--batch-size": 4,
    "--max-steps": 24,
    "--bptt": 2,
    "--max-segments": 3,
    "--segment-selection": "random_continuous",
    "--save-every": 7,
    "--log-every": 4,
    "--evaluate-every": 10,
    "--threads": 1,
    "--memory": "1GB",
}
MEASURED = ("documents_per_second", "memory")


class Reading:
    """One training, and processes that run it into folders of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"
        write_recall(folder, "features", 10, segments=(2, 4), seed=3)

    def start(self, output: str, **changed: object) -> preloaded.Launched:
        flags = [str(part) for pair in {**FLAGS, **changed}.items() for part in pair]
        files = ["--tokenizer", "tokenizer.json", "--output-dir", output, "--eval", "features"]
        command = ["qa", "train", "features", *files, *flags]
        with self.log.open("wb") as log:
            return preloaded.launch(command, cwd=self.folder, out=log.fileno(), err=log.fileno())

    def finish(self, output: str, **changed: object) -> str:
        code = self.start(output, **changed).wait(200)
        said = self.log.read_text()
        assert code == 0, said
        return said

    def saved(self, output: str) -> int:
        steps = (self.folder / output / "checkpoints").glob("[0-9]*")
        return max((int(path.name) for path in steps), default=0)

    def end_after(self, process: preloaded.Launched, output: str, step: int, number: int) -> str:
        """Send a signal once `step` is saved; what it said until it ended."""
        deadline = time.monotonic() + 150
        while self.saved(output) < step:
            assert process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.002)
        process.send_signal(number)
        process.wait(100)
        return self.log.read_text()

    def lines(self, output: str) -> list[dict]:
        read = (self.folder / output / "metrics.jsonl").read_text().splitlines()
        return [
            {name: value for name, value in json.loads(line).items() if name not in MEASURED} for line in read
        ]


@pytest.mark.skipif(sys.platform == "darwin", reason="bits are promised for one machine and its libraries")
def test_a_killed_and_interrupted_reader_ends_with_the_same_weights_and_metrics(tmp_path):
    reading = Reading(tmp_path)
    reading.finish("alone")
    killed = reading.start("often")
    reading.end_after(killed, "often", 7, signal.SIGKILL)
    assert killed.returncode == -signal.SIGKILL
    went_on_from = reading.saved("often")
    interrupted = reading.start("often")
    said = reading.end_after(interrupted, "often", went_on_from + 1, signal.SIGTERM)
    assert interrupted.returncode == 130, said
    assert f"continuing after step {went_on_from}" in said
    assert "is saved\nhint: run the same command to continue" in said
    stopped_at = reading.saved("often")
    said = reading.finish(
        "often", **{"--memory": "2GB"}
    )  # another budget: the stored plan holds all the same
    assert f"continuing after step {stopped_at}" in said
    model = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("alone", "often")]
    assert model[0] == model[1]
    assert reading.lines("often") == reading.lines("alone")
    assert [line["step"] for line in reading.lines("alone") if line["kind"] == "train"] == list(
        range(4, 25, 4)
    )
