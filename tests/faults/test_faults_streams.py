"""Closed, full and abandoned standard streams: the work is done, and the exit code says what happened."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import preloaded
from conftest import KRILL, dataset_bytes
from jobs import document, json_lines

pytest_plugins = ["job_fixtures"]

TRAIN = "tokenizer train --input input.jsonl --vocab-size 270 --output t"
FULL = "error: cannot write to standard output: no space left on device"


@pytest.fixture
def ready(job):
    job.write("input.jsonl", json_lines(map(document, range(100, 120))))
    job.save()
    return job


def shell(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    """What a user types, with `krill` for the command."""
    line = line.replace("krill ", f"{KRILL} ", 1)
    return subprocess.run(["sh", "-c", line], cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    ("redirected", "code"),
    [
        (">&-", 0),
        ("2>&-", 0),
        ("<&- >&- 2>&-", 0),
        ("> /dev/full", 5),
        ("2> /dev/full", 0),
        ("> /dev/full 2> /dev/full", 5),
    ],
)
def test_the_dataset_is_written_whatever_becomes_of_the_lines(ready, finished, redirected, code):
    ended = shell(ready.folder, f"krill preprocess config.yaml {redirected}")
    assert ended.returncode == code, ended.stderr
    assert dataset_bytes(ready.output) == dataset_bytes(finished)
    assert "Traceback" not in ended.stderr
    if redirected == "> /dev/full":
        assert ended.stderr.startswith(FULL)


def test_no_file_takes_the_place_of_a_closed_stream(ready, finished):
    """The lowest free number is the next file's: a library's print would be written into a shard."""
    ended = shell(ready.folder, f"krill {TRAIN} >&- 2>&-")
    assert ended.returncode == 0
    assert (ready.folder / "t" / "tokenizer.json").is_file()
    refused = shell(ready.folder, "krill preprocess config.yaml --set seed=x <&- >&- 2>&-")
    assert refused.returncode == 2


def test_closed_input_is_empty_input(ready):
    shell(ready.folder, f"krill {TRAIN} -q")
    for verb in ("encode", "decode"):
        ended = shell(ready.folder, f"krill tokenizer {verb} --tokenizer t <&-")
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def full_output(command, folder) -> tuple[int, str]:
    """How a command ends whose output goes to a full device, and what it says."""
    complaints = folder / "complaints"
    with open("/dev/full", "wb") as full, complaints.open("wb") as err:
        code = preloaded.launch(command, out=full.fileno(), err=err.fileno(), cwd=folder).wait(60)
    return code, complaints.read_text()


def test_every_verb_says_that_its_result_could_not_be_written(rerun):
    rerun.write("input.jsonl", json_lines(map(document, range(100, 120))))
    rerun.save()
    assert rerun.run(*TRAIN.split()).code == 0
    for command in (
        ["--help"],
        ["preprocess", "--help"],
        ["--version"],
        ["preprocess", "config.yaml"],
        ["estimate", "config.yaml"],
        ["estimate", "config.yaml", "--json"],
        ["inspect", "out"],
        ["validate", "out"],
        ["export", "out", "--to", "jsonl", "--output", "exported"],
        ["tokenizer", "encode", "--tokenizer", "t", "some text"],
        ["tokenizer", "encode", "--tokenizer", "t", "--input", "input.jsonl"],
        ["tokenizer", "decode", "--tokenizer", "t", "5"],
        ["run", "config.yaml"],
    ):
        code, said = full_output(command, rerun.folder)
        assert (code, said.partition("\n")[0]) == (5, FULL), command
    assert len((rerun.folder / "exported" / "train.jsonl").read_bytes()) > 1000


def test_the_steps_of_a_run_go_on_when_nobody_can_be_told(ready):
    ready.config["tokenizer"] = {"path": "t", "vocab_size": 270}
    ready.set(min_length=1, sequence_len=8)
    ready.save()
    code, said = full_output(["run", "config.yaml"], ready.folder)
    assert (code, said.partition("\n")[0]) == (5, FULL)
    assert (ready.folder / "t" / "tokenizer.json").is_file()
    assert (ready.output / "krill-run.json").is_file()


@pytest.mark.parametrize("command", ["--help", "tokenizer --help", "qa train --help", "--version"])
def test_help_whose_reader_left_is_quiet(tmp_path, command):
    ours, theirs = os.pipe()
    os.close(ours)
    with (tmp_path / "complaints").open("wb") as complaints:
        launched = preloaded.launch(command.split(), out=theirs, err=complaints.fileno(), cwd=tmp_path)
        os.close(theirs)
        assert launched.wait(60) == 130
    assert (tmp_path / "complaints").read_bytes() == b""
