"""`--engine ray` from end to end: the bytes of one process, inside the budget of each worker."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from chat_jobs import conversations, make_chat
from conftest import dataset_bytes
from jobs import Job
from ray_cluster import RayCluster

pytest_plugins = ["job_fixtures", "ray_fixtures"]

MB = 10**6
UNITS = {"unit_bytes": "4MB", "max_document_bytes": "500KB", "shard_size": "4MB", "sequence_len": 1024}


@contextmanager
def watched(cluster: RayCluster, folder: Path) -> Iterator[dict[int, int]]:
    """The most memory that each process held which worked on tasks meanwhile, as the kernel counts it.

    They are processes as users have them, no forks.
    """
    peaks: dict[int, int] = {}
    over = threading.Event()
    starting = ExitStack()

    def watch() -> None:
        while not over.wait(0.05):
            for process in cluster.working(folder):
                peaks[process.pid] = max(peaks.get(process.pid, 0), high_water(process))
            if len(peaks) == 2:
                starting.close()  # both have started: workers of other tests may be forks again

    thread = threading.Thread(target=watch)
    with starting:
        starting.enter_context(cluster.fresh_workers())
        thread.start()
        try:
            yield peaks
        finally:
            over.set()
            thread.join()


def high_water(process: psutil.Process) -> int:
    try:
        status = Path(f"/proc/{process.pid}/status").read_text()
    except OSError:
        return 0
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024 if "VmHWM" in status else 0


def both(job: Job, fresh_krill: Any, cluster: RayCluster, **preprocess: Any) -> tuple[Any, dict[int, int]]:
    """The same job by one process and on the cluster; how the latter ended, and what its workers held."""
    job.config["memory"], job.config["threads"] = "300MB", 1
    job.set(**{**UNITS, **preprocess})
    assert job.preprocess("--quiet").code == 0
    job.set(prepared_path="shared")
    job.save()
    arguments = ("--engine", "ray", "--address", cluster.address, "--json")
    with watched(cluster, job.folder) as peaks:
        outcome = fresh_krill("preprocess", job.folder / "config.yaml", *arguments, cwd=job.folder)
    assert outcome.code == 0, outcome.err
    assert dataset_bytes(job.folder / "shared") == dataset_bytes(job.output)
    return outcome, peaks


@pytest.mark.parametrize(
    "preprocess",
    [
        {"dedup": "exact", "packing": "bfd", "output": "both"},
        {"dedup": "minhash", "split": {"validation": 0.1}, "shuffle": True, "rejected": True},
    ],
    ids=["exact", "minhash"],
)
def test_the_cluster_makes_the_same_bytes_inside_the_budget(job, fresh_krill, sample, two_nodes, preprocess):
    job.read_from(str(sample), {"path": str(sample), "split": "train[:200]"})  # some documents twice
    outcome, peaks = both(job, fresh_krill, two_nodes, **preprocess)
    engine = outcome.result["engine"]
    assert engine["name"] == "ray"
    assert engine["workers"] == 2
    assert engine["tasks"] >= 10
    assert len(peaks) >= 2, "both nodes worked"
    assert max(peaks.values()) <= 300 * MB
    assert engine["worker_peak"] <= 300 * MB
    assert outcome.peak <= 300 * MB, "the driver"
    assert outcome.result["documents"]["dropped"]["duplicate"] >= 200


def test_conversations_on_the_cluster_are_those_of_one_process(job, two_nodes):
    units = {"unit_bytes": "64KB", "max_document_bytes": "8KB", "shard_size": "128KB"}
    make_chat(job, conversations(600), **units)
    job.config["threads"] = 1
    assert job.preprocess("--quiet").code == 0
    expected = dataset_bytes(job.output)
    job.set(prepared_path="shared")
    outcome = job.preprocess("--quiet", "--engine", "ray", "--address", two_nodes.address)
    assert outcome.code == 0, outcome.err
    assert dataset_bytes(job.folder / "shared") == expected


def test_without_an_address_the_cores_of_this_machine_are_used(job):
    """A cluster is started for the run; nothing of it is printed."""
    job.write("input.jsonl", b"".join(b'{"text": "%s"}\n' % (b"word %d " % at * 30) for at in range(500)))
    outcome = job.preprocess("--engine", "ray", "--workers", "1", "--threads", "2")
    assert outcome.code == 0, outcome.err
    assert outcome.err == ""
    assert "workers        1 by ray" in outcome.out
    assert "(raylet)" not in outcome.out
    assert "Token" not in outcome.out
