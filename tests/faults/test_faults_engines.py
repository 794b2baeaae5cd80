"""Workers, nodes and drivers on a Ray cluster that die, and storage that refuses: what was committed is kept,
the run goes on or says what is wrong, and ends with the bytes that one process makes."""

from __future__ import annotations

import copy
import os
import random
import re
import signal
import time
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import pytest

import preloaded
import slurm_cluster
from conftest import run_bytes
from jobs import Job, check_error
from krill.budget import parse_size
from krill_process import KrillProcess
from rank_processes import rank_process
from ray_cluster import RayCluster
from real_text import grow_jsonl

pytest_plugins = ["ray_fixtures"]

POISON = b'{"text": "' + b"This one is poison to whoever reads it on a worker. " * 4 + b'"}\n'

# A step that passes everything. On a worker, and while the file `fault` is there, it does what that says.
FAULTS = """
import os, resource, signal, sys
from pathlib import Path

def passed(batch):
    fault = Path("fault")
    worker = "RAY_RAYLET_PID" in os.environ or "krill.engines.worker" in " ".join(sys.orig_argv)
    if worker and fault.exists():
        if fault.read_text() == "die" and any("poison" in text.as_py()[:20] for text in batch.column("text")):
            os.kill(os.getpid(), signal.SIGKILL)
        if fault.read_text() == "refuse":
            # Less than a unit's file, more than what Ray writes about its worker, which has to go on.
            resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
    return [True] * batch.num_rows
"""


class Case:
    """A job of many units, and what one process makes of it."""

    def __init__(self, folder: Path, corpus: bytes, **preprocess: Any) -> None:
        job = Job(folder, krill=None)
        job.write("input.jsonl", corpus)
        job.write("faults.py", FAULTS.encode())
        job.config["threads"] = 1
        job.set(
            unit_bytes="200KB",
            max_document_bytes="50KB",
            shard_size="400KB",
            sequence_len=512,
            filters=["faults:passed"],
            **preprocess,
        )
        job.save()
        outcome = preloaded.run(["preprocess", "config.yaml", "--quiet"], cwd=folder)
        assert outcome.code == 0, outcome.err
        self.expected = run_bytes(job.output)
        self._job = job

    def on(self, cluster: RayCluster, folder: Path, **engine: Any) -> Job:
        """The same for a cluster, in another folder."""
        job = Job(
            folder, lambda *arguments, **options: preloaded.run(arguments, server=cluster.server, **options)
        )
        folder.mkdir(exist_ok=True)
        for name in ("input.jsonl", "faults.py"):
            os.link(self._job.folder / name, folder / name)
        job.config = copy.deepcopy(self._job.config)
        job.config["memory"] = "300MB"
        job.config["engine"] = {"name": "ray", "address": cluster.address, **engine}
        job.save()
        return job


@pytest.fixture(scope="module")
def case(tmp_path_factory) -> Case:
    path = grow_jsonl(tmp_path_factory.mktemp("text") / "3mb.jsonl", 3_000_000)
    middle = path.read_bytes().partition(b"\n")
    corpus = middle[0] + b"\n" + POISON + middle[2]
    return Case(tmp_path_factory.mktemp("case"), corpus, dedup="minhash")


def start(job: Job, cluster: RayCluster) -> KrillProcess:
    return KrillProcess(job.folder, "preprocess", "config.yaml", server=cluster.server)


def committed(job: Job) -> dict[str, tuple[int, int]]:
    """Records of committed units, as they lie on disk: one that is written again is another one."""
    found = {}
    for path in records(job):
        with suppress(FileNotFoundError):
            found[str(path.relative_to(job.work))] = path.stat().st_ino, path.stat().st_mtime_ns
    return found


def records(job: Job) -> list[Path]:
    """Where they lie. Phases of deduplication are removed when it is over, and everything when the run is."""
    folders = _inside(job.work / "stages")
    return [path for folder in folders for path in _inside(folder) if path.suffix == ".json"]


def _inside(folder: Path) -> list[Path]:
    with suppress(FileNotFoundError):
        return list(folder.iterdir())
    return []


def check_whole(job: Job, case: Case) -> None:
    assert run_bytes(job.output) == case.expected
    assert not job.work.exists()


def kill_one(cluster: RayCluster, job: Job, chance: random.Random) -> int:
    """Kill a worker that is at work; how many were."""
    working = cluster.working(job.folder)
    with suppress(psutil.NoSuchProcess, IndexError):
        chance.choice(working).kill()
        return 1
    return 0


def survive(case: Case, cluster: RayCluster, folder: Path, kills: int, chance: random.Random) -> None:
    """Kill so many workers while they work; between two of them, something gets done."""
    killed = 0
    for life in count():
        if killed == kills:
            return
        job = case.on(cluster, folder / str(life), retries=min(kills, 100))
        run = start(job, cluster)
        done = 0
        while run.process.poll() is None:
            if killed < kills and len(records(job)) > done:
                time.sleep(chance.uniform(0, 0.2))
                done = len(records(job))
                killed += kill_one(cluster, job, chance)
            time.sleep(0.02)
        assert run.wait() == 0, run.output
        assert "died" not in run.output, "that is the engine's business, not the user's"
        check_whole(job, case)


def test_workers_killed_at_twenty_moments_change_nothing(case, ray_cluster, tmp_path):
    survive(case, ray_cluster, tmp_path, 20, random.Random(1))


@pytest.mark.soak
def test_workers_killed_at_two_hundred_moments_change_nothing(case, ray_cluster, tmp_path):
    survive(case, ray_cluster, tmp_path, 200, random.Random())


def test_a_node_that_is_lost_while_it_works_changes_nothing(case, ray_cluster, another_node, tmp_path):
    raylet, lose = another_node
    for life in range(10):  # a run may be over before the new node has got a task
        folder = tmp_path / str(life)
        job = case.on(ray_cluster, folder)
        dataset = job.work / "dataset"
        run = start(job, ray_cluster)
        run.wait_until(lambda: dataset.is_dir() and bool(ray_cluster.working_on(raylet, folder)))  # noqa: B023
        if run.process.poll() is None:
            break
        assert run.wait() == 0, run.output
    # What a worker leaves that dies while it writes a shard.
    (dataset / ".data-00000.arrow.0badcafe.krill-tmp").write_bytes(b"half of a sh")
    lose()
    assert run.process.poll() is None, run.output
    assert run.wait() == 0, run.output
    check_whole(job, case)


def test_a_task_that_always_fails_is_named_and_the_rest_is_kept(case, ray_cluster, tmp_path):
    job = case.on(ray_cluster, tmp_path, retries=1)
    job.write("fault", b"die")
    outcome = job.preprocess()
    check_error(
        outcome,
        1,
        "` failed 2 times, the last time with: The worker died unexpectedly",
        hint="what other tasks have done is kept",
    )
    named = re.search(r"the task `scan, input\.jsonl from 0 to ([\d,]+)`", outcome.err)
    assert named and int(named[1].replace(",", "")) > 200_000, "it has more than one unit"
    before = committed(job)
    assert len(before) >= 2
    (tmp_path / "fault").unlink()
    resumed = start(job, ray_cluster)
    resumed.wait_until(lambda: (job.work / "stages" / "encode").exists())
    assert before.items() <= committed(job).items()
    assert resumed.wait() == 0, resumed.output
    assert "continuing an earlier run of this command" in resumed.output
    check_whole(job, case)


def test_storage_that_refuses_writes_is_named(case, ray_cluster, tmp_path):
    job = case.on(ray_cluster, tmp_path)
    job.write("fault", b"refuse")
    outcome = job.preprocess()
    check_error(outcome, 5, "cannot write `", "file size limit exceeded", hint="raise the limit")
    assert not list(tmp_path.rglob("*.krill-tmp"))


def test_a_killed_driver_goes_on_with_what_was_committed(case, ray_cluster, tmp_path):
    job = case.on(ray_cluster, tmp_path)
    run = start(job, ray_cluster)
    run.wait_until(lambda: any(job.work.glob("stages/encode/*.json")))
    run.kill()
    before = committed(job)
    assert before
    resumed = start(job, ray_cluster)
    resumed.wait_until(lambda: any(job.work.glob("stages/pack-*/*.json")) or job.output.exists())
    found = committed(job)
    assert before.items() <= found.items() or job.output.exists(), "they go when it is published, not before"
    assert resumed.wait() == 0, resumed.output
    assert "continuing an earlier run of this command" in resumed.output
    assert "scan: 0 B in" in resumed.output
    check_whole(job, case)


@pytest.mark.parametrize("interrupt", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_an_interrupted_driver_ends_its_tasks(case, ray_cluster, tmp_path, interrupt):
    job = case.on(ray_cluster, tmp_path)
    run = start(job, ray_cluster)
    run.wait_until(lambda: any(job.work.glob("stages/scan/*.json")))
    working = ray_cluster.working(tmp_path)
    run.process.send_signal(interrupt)
    sent = time.monotonic()
    assert run.wait() == 130, run.output
    assert time.monotonic() - sent < 10
    assert "Traceback" not in run.output
    assert run.output.endswith("hint: run the same command to continue\n")
    assert committed(job)
    assert not list(job.work.rglob("*.krill-tmp"))
    psutil.wait_procs(working, timeout=10)
    assert not list(job.work.rglob("*.krill-tmp"))
    assert not any(process.is_running() for process in working)


def test_an_address_where_nothing_answers_is_named_at_once(case, tmp_path):
    job = case.on(RayCluster("127.0.0.1:9", ()), tmp_path)
    outcome = job.preprocess(timeout=30)
    check_error(
        outcome, 2, "no Ray cluster can be used at `127.0.0.1:9`", hint="start one with `ray start --head`"
    )
    assert not job.work.exists()


def test_a_budget_without_room_for_ray_is_refused_with_one_that_does(
    case, ray_cluster, tmp_path, fresh_krill
):
    """For the driver and for each worker, all in processes of their own."""
    job = case.on(ray_cluster, tmp_path, workers=1)
    job.config["memory"] = "120MB"  # loading Ray takes more
    refused = fresh_krill("preprocess", job.save(), cwd=job.folder)
    check_error(refused, 4, "the budget is too small", "given 120 MB", hint="--memory")
    job.config["memory"] = refused.err.split("hint: --memory ")[1].split(" ")[0]
    with ray_cluster.fresh_workers():
        outcome = fresh_krill("preprocess", job.save(), cwd=job.folder)
    assert outcome.code == 0, outcome.err
    peak = max(outcome.peak, job.manifest()["engine"]["worker_peak"])
    assert peak <= parse_size(job.config["memory"])


def test_no_node_with_room_for_a_worker_is_an_error(case, ray_cluster, tmp_path):
    job = case.on(ray_cluster, tmp_path)
    job.config["memory"] = "4GB"
    outcome = job.preprocess()
    check_error(
        outcome,
        2,
        "no node of the cluster has room for a worker of 1 threads and 4,000,000,000 bytes",
        hint="lower --threads or --memory",
    )
    assert not job.work.exists()


class Ranks:
    """A job on datatrove's executor, under way: which processes its ranks are."""

    def __init__(self, case: Case, folder: Path, environment: dict[str, str], **engine: Any) -> None:
        cluster = RayCluster("none", ())
        self.job = case.on(cluster, folder)
        self.job.config["engine"] = {"name": "datatrove", "workers": 2, **engine}
        self.job.save()
        self.log = (folder / "log").open("w+")
        self.process = preloaded.launch(
            ["preprocess", "config.yaml"],
            cwd=folder,
            out=self.log.fileno(),
            err=self.log.fileno(),
            env=environment,
        )

    def kill_rank_after(self, committed: int) -> None:
        """End one with SIGKILL when so many tasks are committed."""
        limit = time.monotonic() + 60
        while len(records(self.job)) < committed:
            assert time.monotonic() < limit and self.process.poll() is None, self.output
            time.sleep(0.01)
        rank_process(self.job.work, 2).kill()

    @property
    def output(self) -> str:
        self.log.seek(0)
        return self.log.read()


@pytest.mark.parametrize("executor", ["local", "slurm"])
def test_a_datatrove_rank_that_is_killed_changes_nothing(case, tmp_path, executor):
    with ExitStack() as stack:
        environment, engine = {}, {}
        if executor == "slurm":
            environment = stack.enter_context(slurm_cluster.stand_in(tmp_path / "slurm"))
            engine = {"executor": "slurm", "partition": slurm_cluster.PARTITION}
        run = Ranks(case, tmp_path / "run", environment, **engine)
        run.kill_rank_after(3)
        assert run.process.wait(120) == 0, run.output
        check_whole(run.job, case)


def test_a_datatrove_rank_that_always_fails_is_reported_with_its_own_error(case, tmp_path):
    job = case.on(RayCluster("none", ()), tmp_path)
    job.config["engine"] = {"name": "datatrove", "workers": 2, "retries": 1}
    job.write("fault", b"refuse")
    outcome = job.preprocess()
    check_error(outcome, 5, "cannot write `", "file size limit exceeded", hint="raise the limit")
    before = committed(job)
    (tmp_path / "fault").write_bytes(b"die")
    outcome = job.preprocess()
    check_error(outcome, 1, "the rank ", " of 2 failed 2 times", "SIGKILL", hint="what was done is kept")
    assert before.items() <= committed(job).items()
