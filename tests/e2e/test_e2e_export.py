"""`krill export` as people and scripts meet it: every format, a second time, faults, an interrupt."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import numpy as np
import pytest

import krill as package
from jobs import Job, check_error, document, json_lines
from krill.dataset import Dataset
from krill.tokenizer.byte import EOS
from krill_process import KrillProcess

pytest_plugins = ["job_fixtures"]

TEXTS = [document(number).strip() for number in range(30)]


@pytest.fixture
def prepared(job) -> Job:
    """A job whose dataset of tokens and documents is finished."""
    job.write("input.jsonl", json_lines(TEXTS))
    job.set(output="both")
    outcome = job.preprocess("--quiet")
    assert outcome.code == 0, outcome.err
    return job


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_it_stands_beside_the_dataset_and_tells_what_it_wrote(prepared):
    outcome = prepared.run("export", "out", "--to", "bin")
    assert (outcome.code, outcome.err) == (0, "")
    assert names(prepared.folder / "out-bin") == ["krill-run.json", "meta.json", "train.bin"]
    assert "promise kept" in outcome.out
    tokens = np.fromfile(prepared.folder / "out-bin" / "train.bin", np.uint16)
    assert tokens.tolist() == [token for row in Dataset(prepared.output) for token in row["input_ids"]]


def test_json_is_one_object_and_quiet_is_silent(prepared):
    outcome = prepared.run("export", "out", "--to", "megatron", "--json", "--memory", "200MB")
    assert outcome.code == 0, outcome.err
    result = outcome.result
    assert (result["status"], result["output"], result["command"]) == ("done", "out-megatron", "export")
    assert [entry["file"] for entry in result["files"]] == ["train.bin", "train.idx"]
    assert result["budget"]["limit"] == 200_000_000
    quiet = prepared.run("export", "out", "--to", "parquet", "--quiet")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")


def test_a_second_time_says_so_and_overwrite_writes_again(prepared):
    prepared.run("export", "out", "--to", "jsonl", "--quiet")
    file = prepared.folder / "out-jsonl" / "train.jsonl"
    written = file.stat().st_mtime_ns
    again = prepared.run("export", "out", "--to", "jsonl")
    assert again.code == 0
    assert "nothing to do: out-jsonl is finished" in again.out
    assert file.stat().st_mtime_ns == written
    refused = prepared.run("export", "out", "--to", "jsonl", "--lines", "documents")
    check_error(refused, 2, "lines: `null` -> `documents`", hint="--overwrite")
    assert prepared.run("export", "out", "--to", "jsonl", "--overwrite", "--quiet").code == 0
    assert file.stat().st_mtime_ns > written


def test_text_comes_back_from_tokens_and_from_the_kept_documents(prepared):
    assert prepared.run("export", "out", "--to", "jsonl", "--text", "--output", "a", "--quiet").code == 0
    lines = (prepared.folder / "a" / "train.jsonl").read_bytes().splitlines()
    decoded = [json.loads(line)["text"] for line in lines]
    assert decoded[:-1] == TEXTS[: len(decoded) - 1]
    assert TEXTS[len(decoded) - 1].startswith(decoded[-1])
    assert prepared.run("export", "out", "--to", "jsonl", "--what", "text", "--output", "b", "-q").code == 0
    lines = (prepared.folder / "b" / "documents.jsonl").read_bytes().splitlines()
    assert [json.loads(line)["text"] for line in lines] == TEXTS


def test_python_exports_too(prepared):
    summary = package.export(
        prepared.output, to="megatron", output=prepared.folder / "megatron", memory="100MB"
    )
    assert [file.name for file in summary.files] == ["train.bin", "train.idx"]
    ends = np.fromfile(summary.files[0], np.uint16) == EOS
    assert summary.manifest.extra["files"][0]["documents"] == ends.sum() + (not ends[-1])


def test_a_fault_is_an_error_with_its_code_and_leaves_nothing(prepared):
    before = prepared.files()
    cases = [
        (["absent", "--to", "bin"], 3, "`absent` does not exist", "krill preprocess"),
        (["out", "--to", "csv"], 2, "--to", "krill export --help"),
        (["out"], 2, "--to", "krill export --help"),
        (["out", "--to", "bin", "--split", "validation"], 3, "no split `validation`", "--split"),
        (["out", "--to", "bin", "--output", "out"], 2, "one inside the other", "out-bin"),
        (["out", "--to", "bin", "--threads", "many"], 2, "`threads` is `many`", "whole number"),
        (["out", "--to", "bin", "--memory", "10MB"], 4, "the budget is too small", "--memory"),
        (
            ["out", "--to", "jsonl", "--text", "--tokenizer", "nowhere"],
            3,
            "no tokenizer at `nowhere`",
            "--tokenizer",
        ),
    ]
    for arguments, code, fact, hint in cases:
        check_error(prepared.run("export", *arguments, "--quiet"), code, fact, hint=hint)
        assert prepared.files() == before


def test_a_full_disk_is_an_error_and_leaves_nothing(prepared):
    before = prepared.files()
    for to in ("parquet", "megatron", "bin", "mds", "litdata", "jsonl"):
        outcome = prepared.run("export", "out", "--to", to, "--quiet", file_limit=1000)
        check_error(outcome, 5, "cannot write", "file size limit exceeded", hint="ulimit -f")
        assert prepared.files() == before


def signalled(job: Job, number: signal.Signals) -> tuple[int, str]:
    """An export that gets a signal while it writes: its exit code and what it said."""
    running = KrillProcess(job.folder, "export", "out", "--to", "jsonl", "--quiet")
    running.wait_until(lambda: any(job.folder.glob(".out-jsonl.krill/dataset/.train.jsonl.*")))
    running.process.send_signal(number)
    return running.wait(), running.output


def test_an_interrupt_leaves_nothing_and_a_kill_is_made_good_by_the_next_run(job, grown):
    job.read_from(str(grown(16)))  # long enough that the signals come while it writes
    assert job.preprocess("--quiet").code == 0
    before = names(job.folder)
    code, told = signalled(job, signal.SIGINT)
    assert (code, names(job.folder)) == (130, before)
    assert "interrupted: nothing was written" in told
    code, _ = signalled(job, signal.SIGKILL)
    assert (code, names(job.folder)) == (-signal.SIGKILL, sorted([".out-jsonl.krill", *before]))
    assert job.run("export", "out", "--to", "jsonl", "--quiet").code == 0
    assert names(job.folder) == sorted(["out-jsonl", *before])
    with (job.folder / "out-jsonl" / "train.jsonl").open("rb") as file:
        assert sum(1 for _ in file) == len(Dataset(job.output))
