"""The engine `datatrove`: all tasks are done whatever dies, nothing is left behind, and errors say enough."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

import slurm_cluster
import small_stages
from krill.config.engine import EngineConfig
from krill.engines import Resources, WorkerSpec, open_engine
from krill.engines.datatrove import DatatroveEngine
from krill.engines.ray_engine import RayEngine
from krill.errors import BudgetError, ConfigError, InputError, KrillError
from rank_processes import rank_process
from small_stages import Squares, write_run

WORKER = Resources(memory=150_000_000, threads=1)


@pytest.fixture(autouse=True)
def taught(monkeypatch, tmp_path) -> None:
    small_stages.teach(monkeypatch, tmp_path / "site")


@pytest.fixture
def work(tmp_path) -> Path:
    return tmp_path / "work"


@pytest.fixture
def slurm(monkeypatch, tmp_path) -> Iterator[Path]:
    """The stand-in's jobs."""
    with slurm_cluster.stand_in(tmp_path / "slurm") as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield tmp_path / "slurm" / "jobs"


def engine_of(spec: WorkerSpec, executor: str = "local", **more) -> DatatroveEngine:
    if executor == "slurm":
        more = {"partition": slurm_cluster.PARTITION, **more}
    config = EngineConfig(name="datatrove", executor=executor, **{"workers": 2, **more})
    engine = open_engine(config, spec, lambda result: None)
    assert isinstance(engine, DatatroveEngine)
    return engine


def run(work: Path, *stages: list[str], **config) -> list[Squares]:
    spec, made = write_run(work, WORKER, *stages)
    with closing(engine_of(spec, **config)) as engine:
        for stage in made:
            engine.run(stage)
        assert engine.facts()["worker_peak"] > 0
    return made


def wait_for(what, seconds: float = 30.0) -> None:
    limit = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < limit, "it did not happen"
        time.sleep(0.05)


def gone(processes: list[psutil.Process]) -> bool:
    """Whether all have ended; one that nobody has buried yet is dead all the same."""
    return not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes)


def test_tasks_are_done_whatever_becomes_of_the_first_attempt(work) -> None:
    [stage] = run(work, ["square", "die once", "fail once", "square", "square", "square"])
    assert stage.results() == [number**2 for number in range(6)]


def test_two_processes_do_all_stages_with_what_a_worker_has(work) -> None:
    first, second = run(work, ["square"] * 7, ["square"] * 4)
    assert first.results() == [0, 1, 4, 9, 16, 25, 36]
    assert second.results() == [0, 1, 4, 9]
    assert len({*first.results("worker"), *second.results("worker")}) == 2
    assert set(first.results("memory")) == {150_000_000}
    assert set(first.results("threads")) == {1}
    assert list((work / "engine").iterdir()) == []


def test_tasks_are_listed_once(work) -> None:
    """The stage of `qa prepare` reads the questions as they are listed."""
    spec, [stage] = write_run(work, WORKER, ["square"] * 3)
    listed = iter(stage.tasks())
    stage.tasks = lambda: listed  # type: ignore[method-assign]
    with closing(engine_of(spec)) as engine:
        engine.run(stage)
        engine.facts()
    assert stage.results() == [0, 1, 4]


def test_what_was_committed_before_is_not_done_again(work) -> None:
    spec, [stage] = write_run(work, WORKER, ["refuse", "square"])
    stage.log.commit(0, {"square": "of another life"})
    with closing(engine_of(spec)) as engine:
        engine.run(stage)
    assert stage.results() == ["of another life", 1]


def test_an_error_of_a_rank_is_raised_as_it_is_and_the_logs_stay(work) -> None:
    with pytest.raises(InputError, match=r"`a.jsonl` is damaged") as raised:
        run(work, ["refuse", *["square"] * 8])
    assert raised.value.hint == "get it again"
    assert len(list(work.glob("engine/*/rank-1.log"))) == 1


@pytest.mark.parametrize(("does", "reason"), [("die", "ended by SIGKILL"), ("fail", "no luck with 1")])
def test_a_rank_that_always_fails_is_named_with_its_own_reason(work, does, reason) -> None:
    with pytest.raises(KrillError, match=rf"the rank 2 of 2 failed 2 times.*{reason}"):
        run(work, ["square", does], retries=1)


def test_a_rank_that_is_killed_in_the_middle_is_started_again(work) -> None:
    spec, [stage] = write_run(work, WORKER, ["sleep for 2", "sleep for 2", "square"])
    killed: list[psutil.Process] = []

    def kill_one() -> None:
        if not killed and (work / "ran-1").exists():
            killed.append(rank_process(work, 2))
            killed[0].kill()

    with closing(engine_of(spec)) as engine:
        check_ranks = engine._check_ranks
        engine._check_ranks = lambda: (kill_one(), check_ranks())  # type: ignore[method-assign]
        engine.run(stage)
        engine.facts()
    assert killed
    assert stage.results() == [0, 1, 4]


def test_nothing_runs_on_when_the_caller_stops(work) -> None:
    before = psutil.Process().children(recursive=True)
    spec, [stage] = write_run(work, WORKER, ["refuse", "sleep for 60"])
    with closing(engine_of(spec)) as engine, pytest.raises(InputError):
        engine.run(stage)
    processes = [one for one in psutil.Process().children(recursive=True) if one not in before]
    wait_for(lambda: gone(processes), 5)


def test_ranks_of_a_killed_driver_end_by_themselves(work) -> None:
    code = f"""
from pathlib import Path
from krill.config.engine import EngineConfig
from krill.engines import Resources, open_engine
from small_stages import write_run
spec, [stage] = write_run(Path({str(work)!r}), Resources(10**8, 1), ["square", "sleep for 60"])
open_engine(EngineConfig(name="datatrove", workers=2), spec, lambda result: None).run(stage)
"""
    with subprocess.Popen([sys.executable, "-c", code]) as driver:
        wait_for(lambda: (work / "ran-1").exists())
        processes = psutil.Process(driver.pid).children(recursive=True)
        assert len(processes) == 2
        driver.kill()
    wait_for(lambda: gone(processes))


def test_without_tasks_nothing_is_started(work) -> None:
    spec, [stage] = write_run(work, WORKER, [])
    with closing(engine_of(spec)) as engine:
        engine.run(stage)
        engine.facts()
    assert not (work / "engine").exists()


def test_slurm_runs_ranks_with_what_the_plan_and_the_config_say(work, slurm) -> None:
    more = {"account": "open", "sbatch": {"constraint": "avx2", "exclusive": ""}, "time": "1:00:00"}
    [stage] = run(work, ["square"] * 6, executor="slurm", **more)
    assert stage.results() == [number**2 for number in range(6)]
    [script] = [path.read_text() for path in slurm.glob("*.script")]
    wanted = {"array=1,2", "cpus-per-task=1", "mem-per-cpu=174M", "nodes=1", "partition=work", "no-requeue"}
    wanted |= {"time=1:00:00", "account=open", "constraint=avx2", "exclusive"}
    assert wanted <= {line.removeprefix("#SBATCH --") for line in script.splitlines()}
    assert {path.read_text() for path in slurm.glob("*.state")} == {"COMPLETED"}


def test_a_job_that_somebody_cancels_is_submitted_again(work, slurm) -> None:
    spec, [stage] = write_run(work, WORKER, ["square", "sleep for 2"])
    cancelled = False

    def cancel() -> None:
        nonlocal cancelled
        if not cancelled and (work / "ran-1").exists():
            subprocess.run(["scancel", "1_2"], check=True)
            cancelled = True

    with closing(engine_of(spec, "slurm")) as engine:
        check_ranks = engine._check_ranks
        engine._check_ranks = lambda: (cancel(), check_ranks())  # type: ignore[method-assign]
        engine.run(stage)
        engine.facts()
    assert stage.results() == [0, 1]
    states = {path.name: path.read_text() for path in slurm.glob("*.state")}
    assert (states["1_2.state"], states["2_2.state"]) == ("CANCELLED", "COMPLETED")


def test_jobs_that_fail_at_once_are_named_with_the_end_of_their_log(work, slurm, monkeypatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(KrillError, match=r"state FAILED; `.*1_1.out` ends with: .*/no/such/python"):
        run(work, ["square"], executor="slurm", retries=0)


def test_a_job_whose_rank_was_killed_is_named_with_the_signal(work, slurm) -> None:
    with pytest.raises(KrillError, match=r"the rank 1 of 1 failed 1 times.*state FAILED.*Killed"):
        run(work, ["die"], executor="slurm", workers=1, retries=0)


def test_more_ranks_than_an_array_may_have_are_several_arrays(work, slurm, monkeypatch) -> None:
    monkeypatch.setattr("krill.engines.slurm._MOST_RANKS", 2)
    [stage] = run(work, ["square"] * 3, executor="slurm", workers=3)
    assert stage.results() == [0, 1, 4]
    assert len(set(stage.results("worker"))) == 3
    states = {path.name: path.read_text() for path in slurm.glob("*.state")}
    assert states == dict.fromkeys(["1_1.state", "1_2.state", "2_1.state"], "COMPLETED")


def test_a_folder_may_have_any_name_on_slurm(tmp_path, slurm) -> None:
    [stage] = run(tmp_path / "a folder, 100% 'quoted'", ["square"], executor="slurm", workers=1)
    assert stage.results() == [0]


def test_what_slurm_refuses_is_reported(work, slurm) -> None:
    with pytest.raises(ConfigError, match=r"Slurm did not take the job.*Invalid account"):
        run(work, ["square"], executor="slurm", account="mine")
    with pytest.raises(ConfigError, match="no partition `night` with nodes"):
        run(work, ["square"], executor="slurm", partition="night")
    with pytest.raises(ConfigError, match=r"`engine.sbatch` has `array`"):
        run(work, ["square"], executor="slurm", sbatch={"array": "1-3"})


def test_a_machine_without_slurm_is_reported(work, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="`sinfo` is not on this machine"):
        run(work, ["square"], executor="slurm")


def test_more_workers_than_the_machine_has_memory_for_are_refused(work) -> None:
    spec, _ = write_run(work, Resources(memory=10**15, threads=1), ["square"])
    with pytest.raises(BudgetError, match="2 workers of 1,000,000,000,000,000 bytes each"):
        engine_of(spec)


def test_the_executor_ray_is_the_engine_ray(work, monkeypatch) -> None:
    asked: list[EngineConfig] = []

    class NoCluster(RayEngine):
        def __init__(self, config: EngineConfig, spec: WorkerSpec, done: Any) -> None:
            asked.append(config)
            self._config = config
            self.workers = 2
            self._tasks = self._peak = 0

    monkeypatch.setattr("krill.engines.ray_engine.RayEngine", NoCluster)
    spec, _ = write_run(work, WORKER, ["square"])
    config = EngineConfig(name="datatrove", executor="ray", address="auto")
    engine = open_engine(config, spec, lambda result: None)
    assert asked == [config]
    assert (engine.facts()["name"], engine.workers) == ("datatrove", 2)
