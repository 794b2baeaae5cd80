"""A run on Slurm makes what one process makes, also after Ctrl-C; on a real Slurm where it is installed."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import preloaded
import slurm_cluster
from conftest import dataset_bytes
from jobs import Job, document, json_lines

pytest_plugins = ["job_fixtures"]


@pytest.fixture(scope="module")
def slurm(tmp_path_factory) -> Iterator[dict[str, str]]:
    """The environment of a cluster of one node."""
    folder: Path = tmp_path_factory.mktemp("cluster") / "slurm"
    start = slurm_cluster.real_slurm if slurm_cluster.real_slurm_is_here() else slurm_cluster.stand_in
    with start(folder) as environment:
        yield environment


def on_slurm(job: Job) -> None:
    job.write("input.jsonl", json_lines(document(number - number % 3) for number in range(1000)))
    job.set(dedup="minhash", unit_bytes="64KB", max_document_bytes="8KB", shard_size="64KB", packing="bfd")
    job.config["threads"] = 1
    assert job.preprocess().code == 0
    partition = slurm_cluster.PARTITION
    job.config["engine"] = {"name": "datatrove", "executor": "slurm", "partition": partition, "workers": 2}
    job.set(prepared_path="by-slurm")


def jobs_in_queue(environment: dict[str, str]) -> list[str]:
    """The states of all jobs that have not ended."""
    asked = [
        subprocess.run(
            ["squeue", "--noheader", "--array", "--states=all", f"--jobs={number}", "--format=%K %T"],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        for number in range(1, 5)
    ]
    states = [line.split()[1] for answer in asked for line in answer.stdout.splitlines()]
    return [state for state in states if state in ("PENDING", "RUNNING", "COMPLETING")]


def finish(job: Job, slurm) -> None:
    """Run the command to its end: it makes what one process makes, and leaves nothing behind."""
    outcome = job.preprocess(env=slurm)
    assert outcome.code == 0, outcome.err
    assert "2 by datatrove" in outcome.out + outcome.err
    assert dataset_bytes(job.folder / "by-slurm") == dataset_bytes(job.output)
    assert not (job.folder / ".by-slurm.krill").exists()
    assert jobs_in_queue(slurm) == []


@pytest.mark.soak  # the next one ends with the same, when hardly anything has been done before
def test_slurm_makes_what_one_process_makes(job: Job, slurm) -> None:
    on_slurm(job)
    finish(job, slurm)


def test_ctrl_c_takes_the_jobs_from_the_queue_and_the_same_command_goes_on(job: Job, slurm) -> None:
    on_slurm(job)
    job.save()
    with ExitStack() as files:
        log = files.enter_context((job.folder / "log").open("w"))
        started = preloaded.launch(
            ["preprocess", "config.yaml"], out=log.fileno(), err=log.fileno(), cwd=job.folder, env=slurm
        )
    limit = time.monotonic() + 60
    while not list(job.folder.glob(".by-slurm.krill/stages/scan/*.json")):
        assert time.monotonic() < limit, (job.folder / "log").read_text()
        time.sleep(0.02)
    started.send_signal(signal.SIGINT)
    assert started.wait(60) & 255 == 130
    assert jobs_in_queue(slurm) == []
    finish(job, slurm)
