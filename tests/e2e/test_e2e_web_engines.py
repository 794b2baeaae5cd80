"""A crawl of every kind, with damage: the same bytes by threads, shares, ranks and a cluster, whenever it was
killed."""

from __future__ import annotations

import copy
import json
import random
import shutil
from typing import Any

import pytest

import preloaded
from conftest import run_bytes
from jobs import Job, check_error
from krill_process import KrillProcess
from ray_cluster import RayCluster
from web_crawl import write_mixed_crawl

pytest_plugins = ["job_fixtures", "ray_fixtures"]

DROPPED = {"warc_corrupt": 2, "archive_name": 1, "mislabelled": 1}


@pytest.fixture(scope="module")
def prepared_once(tmp_path_factory: pytest.TempPathFactory) -> Job:
    job = Job(tmp_path_factory.mktemp("web"), lambda *words, **options: preloaded.run(words, **options))
    return prepared(job, 60, unit_bytes="64KB", max_document_bytes="8KB")


@pytest.fixture
def crawl(job: Job, prepared_once: Job) -> Job:
    """A job of some units, done by one thread into `out`; the next one writes into `again`."""
    shutil.copytree(prepared_once.folder, job.folder, dirs_exist_ok=True)
    job.config = copy.deepcopy(prepared_once.config)
    return job


def prepared(job: Job, pages: int, **preprocess: Any) -> Job:
    whole = write_mixed_crawl(job.folder / "crawl", pages)
    job.read_from({"path": "crawl", "columns": ["url", "title"], "extract": {"max_page_bytes": "1MB"}})
    job.set(output="both", min_length=10, on_error="skip", dedup="exact", **preprocess)
    job.config |= {"memory": "400MB", "threads": 1}
    outcome = job.preprocess("--json")
    assert outcome.code == 0, outcome.err
    documents = json.loads(outcome.out)["documents"]
    assert documents["dropped"] == DROPPED
    assert documents["kept"] == whole
    job.set(prepared_path="again")
    job.save()
    return job


def same(job: Job) -> bool:
    return run_bytes(job.folder / "again") == run_bytes(job.output)


def test_threads_budgets_and_shares_of_the_work(crawl: Job) -> None:
    assert crawl.preprocess("--threads", "2", "--memory", "1GB").code == 0
    assert same(crawl)
    crawl.set(prepared_path="shared")
    crawl.save()
    shares = [KrillProcess(crawl.folder, "preprocess", "config.yaml", "--task", f"{n}/2") for n in (1, 2)]
    for share in shares:
        assert share.wait() == 0, share.output
    assert crawl.preprocess("--task", "finish").code == 0
    assert run_bytes(crawl.folder / "shared") == run_bytes(crawl.output)


def test_ranks_of_datatrove(crawl: Job) -> None:
    crawl.config["engine"] = {"name": "datatrove", "workers": 2}
    outcome = crawl.preprocess("--json")
    assert outcome.code == 0, outcome.err
    assert same(crawl)
    assert outcome.result["engine"]["workers"] == 2


@pytest.mark.soak
def test_two_workers_of_a_ray_cluster(crawl: Job, ray_cluster: RayCluster) -> None:
    outcome = crawl.preprocess("--engine", "ray", "--address", ray_cluster.address, "--json")
    assert outcome.code == 0, outcome.err
    assert same(crawl)
    assert outcome.result["engine"]["workers"] == 2


def killed_until_done(job: Job, seconds: list[float], *options: str) -> int:
    """Kill the run so many seconds after each beginning, then let it end; how often it was killed."""
    killed = 0
    for each in seconds:
        run = KrillProcess(job.folder, "preprocess", "config.yaml", *options)
        run.work = job.folder / ".again.krill"
        if not run.kill_after(each):
            break
        killed += 1
    outcome = job.preprocess(*options)
    assert outcome.code == 0, outcome.err
    return killed


def test_a_run_that_is_killed_again_and_again(crawl: Job) -> None:
    assert killed_until_done(crawl, [0.05, 0.15, 0.3], "--threads", "2") >= 1
    assert same(crawl)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(12))
def test_a_run_that_is_killed_at_any_moment(job: Job, seed: int) -> None:
    """Of some seconds, killed after a few of them at random until it ends by itself."""
    job = prepared(job, 400, unit_bytes="300KB", max_document_bytes="20KB", rejected=True)
    chance = random.Random(seed)
    options = ("--threads", chance.choice("12"), "--memory", chance.choice(["400MB", "1GB"]))
    assert killed_until_done(job, [chance.uniform(0.02, 0.05 * n + 0.1) for n in range(25)], *options) >= 1
    assert same(job)


def test_the_bytes_of_a_resumed_run_are_of_all_its_inputs(crawl: Job) -> None:
    """An archive that changes under a killed run is refused."""
    run = KrillProcess(crawl.folder, "preprocess", "config.yaml")
    run.work = crawl.folder / ".again.krill"
    units = run.work / "stages" / "scan"
    run.wait_until(lambda: len(list(units.glob("*.json"))) >= 2)
    run.kill()
    path = crawl.folder / "crawl" / "3.zip"
    path.write_bytes(path.read_bytes() + b"\0")
    outcome = crawl.preprocess()
    check_error(outcome, 2, "was made differently: input `crawl/3.zip`", hint="--overwrite")
