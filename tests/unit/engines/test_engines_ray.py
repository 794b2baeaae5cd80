"""The engine on a real cluster of two nodes: how it sends tasks, tries them again, and says no."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from krill.config import load_config
from krill.config.engine import EngineConfig
from krill.engines import Resources, Stage, WorkerSpec
from krill.engines.engine import check_machine
from krill.engines.ray_engine import RayEngine, connect, import_ray, remote_function
from krill.engines.worker import decode_result
from krill.errors import BudgetError, ConfigError, KrillError, MissingExtra, StorageError

pytest_plugins = ["ray_fixtures"]

SMALL = Resources(memory=200 * 10**6, threads=1)
# A worker opens what the request names: this one fails in a way that is worth another try, that one is not.
FAULTY = WorkerSpec("no kind", "/nowhere", "none", SMALL)
REFUSED = WorkerSpec("preprocess", "/nowhere", "none", SMALL)


def config_of(address: str | None, **settings: Any) -> EngineConfig:
    return load_config({"engine": {"name": "ray", "address": address, **settings}}, environ={}).engine


@pytest.fixture(scope="module")
def on_cluster(two_nodes) -> Iterator[Any]:
    """Engines on the cluster, one at a time; the process stays in it."""
    ray = import_ray(retries=3)
    connect(ray, two_nodes.address)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("krill.engines.ray_engine.connect", lambda ray, address, workers: None)
        yield lambda spec=REFUSED, **settings: RayEngine(
            config_of(two_nodes.address, **settings), spec, lambda result: None
        )
    ray.shutdown()


class Numbers(Stage):
    """So many tasks, none of which is done; remembers which were taken."""

    def __init__(self, number: int) -> None:
        super().__init__("scan", lambda name: None)
        self.number = number
        self.taken: list[int] = []

    def tasks(self) -> Iterator[int]:
        for at in range(self.number):
            self.taken.append(at)
            yield at

    def missing(self, tasks: Iterable[int]) -> Iterator[int]:
        return iter(tasks)

    def describe(self, tasks: Sequence[int]) -> str:
        return f"task {tasks[0]}"


def test_there_are_as_many_workers_as_cores(on_cluster):
    assert on_cluster().workers == 2
    assert on_cluster(workers=7).workers == 7


def test_an_error_of_a_task_is_raised_as_it_was(on_cluster):
    with pytest.raises(StorageError, match=r"can't read `/nowhere/run\.json`") as caught:
        on_cluster().run(Numbers(1))
    assert caught.value.hint is not None
    assert "folders that all machines see" in caught.value.hint


def test_a_task_that_fails_is_tried_again_and_then_named(on_cluster):
    begun = time.monotonic()
    with pytest.raises(KrillError, match=r"the task `task 0` failed 2 times, .*KeyError: 'no kind'"):
        on_cluster(FAULTY, retries=1).run(Numbers(1))
    assert time.monotonic() - begun > 0.5, "it waits a little before it tries again"


@pytest.mark.parametrize(("workers", "most"), [("auto", 6), (1, 1), (2, 6), (5, 15)])
def test_tasks_are_taken_as_workers_get_free(on_cluster, workers, most):
    stage = Numbers(100)
    with pytest.raises(KrillError):
        on_cluster(FAULTY, workers=workers, retries=0).run(stage)
    assert len(stage.taken) == most


def test_a_worker_for_which_no_node_has_room_is_refused(on_cluster):
    for resources in (Resources(SMALL.memory, 3), Resources(10**12, 1)):
        with pytest.raises(ConfigError, match="the most that one has is 1 cores, 2,000,000,000 bytes"):
            on_cluster(replace(REFUSED, resources=resources))


def test_more_workers_than_the_machine_has_memory_for_are_refused():
    with pytest.raises(BudgetError, match="3 workers of 1,000,000,000,000,000 bytes each"):
        check_machine(3, Resources(10**15, 1))
    check_machine(3, SMALL)


def test_an_address_outside_the_cluster_is_refused():
    with pytest.raises(ConfigError, match="the driver has to be in the cluster") as caught:
        connect(None, "ray://head:10001")
    assert "with the address `auto`" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("address", "fact"),
    [
        ("nonsense", "no address such as `head:6379`"),
        ("127.0.0.1:9", r"nothing answers \(Connection refused\)"),
        ("[::1]:9", "nothing answers"),
        ("no-such-host.invalid:6379", "nothing answers"),
    ],
)
def test_an_address_where_no_cluster_is_is_named(address, fact):
    with pytest.raises(ConfigError, match=fact):
        connect(None, address)


def test_the_environment_says_where_auto_is(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")
    with pytest.raises(ConfigError, match=r"at `127\.0\.0\.1:9`: nothing answers"):
        connect(None, "auto")


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match="the engine `ray` needs the extra `ray`") as caught:
        RayEngine(config_of("auto"), REFUSED, lambda result: None)
    assert caught.value.hint == "pip install 'krill-lm[ray]'"


def test_a_machine_without_krill_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "krill.engines", None)
    result = remote_function()(b"anything")
    with pytest.raises(ConfigError, match=f"can't load Krill into `{sys.executable}`"):
        decode_result(result)
