"""The engine `datatrove`: all tasks are done whatever dies, nothing is left behind, and errors say enough."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import psutil
import pytest

import errands
import slurm_cluster
from errands import errand
from krill.config.engine import EngineConfig
from krill.engines import Engine, Resources, Task, open_engine
from krill.errors import BudgetError, ConfigError, InputError, KrillError, MissingExtra

WORKER = Resources(memory=150_000_000, threads=1)


@pytest.fixture(autouse=True)
def taught(monkeypatch, tmp_path) -> None:
    errands.teach(monkeypatch, tmp_path / "site")


@pytest.fixture
def work(tmp_path) -> Path:
    folder: Path = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def slurm(monkeypatch, tmp_path) -> Iterator[Path]:
    """The stand-in's jobs."""
    with slurm_cluster.stand_in(tmp_path / "slurm") as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield tmp_path / "slurm" / "jobs"


def engine_of(executor: str = "local", **more) -> Engine:
    if executor == "slurm":
        more = {"partition": slurm_cluster.PARTITION, **more}
    engine = open_engine(EngineConfig(name="datatrove", executor=executor, **{"workers": 2, **more}))
    assert engine is not None
    return engine


def squares(engine: Engine, tasks: Iterator[Task] | list[Task]) -> list[int]:
    try:
        return sorted(done.result["square"] for done in engine.run("errand", tasks, WORKER))
    finally:
        engine.close()


def wait_for(what, seconds: float = 20.0) -> None:
    limit = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < limit, "it did not happen"
        time.sleep(0.05)


def gone(processes: list[psutil.Process]) -> bool:
    """Whether all have ended; one that nobody has buried yet is dead all the same."""
    return not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes)


def worker_processes(work: Path) -> list[int]:
    signs = work.glob("engine/*/workers/*")
    return [orjson.loads(sign.read_bytes())["process"] for sign in signs if not sign.name.startswith(".")]


def test_tasks_are_done_whatever_becomes_of_the_first_attempt(work) -> None:
    doings = ["square", "die once", "fail once"]
    tasks = [errand(work, number, doings[number % 3]) for number in range(9)]
    assert squares(engine_of(), tasks) == [number**2 for number in range(9)]
    assert list((work / "engine").iterdir()) == []


def test_tasks_are_taken_as_workers_get_free_and_run_in_few_processes(work) -> None:
    taken = 0

    def tasks() -> Iterator[Task]:
        nonlocal taken
        for taken in range(1, 31):
            yield errand(work, taken)

    engine = engine_of()
    results = []
    for ended, done in enumerate(engine.run("errand", tasks(), WORKER)):
        assert taken <= ended + 3 * 2
        results.append(done.result)
    engine.close()
    assert sorted(result["square"] for result in results) == [number**2 for number in range(1, 31)]
    assert len({result["worker"] for result in results}) == 2
    assert {(result["memory"], result["threads"]) for result in results} == {(150_000_000, 1)}


def test_workers_stay_from_one_stage_to_the_next(work) -> None:
    engine = engine_of()
    stages = [
        {done.result["worker"] for done in engine.run("errand", [errand(work, 1), errand(work, 2)], WORKER)}
        for _ in range(3)
    ]
    engine.close()
    assert len(set.union(*stages)) <= 2


def test_an_error_of_a_task_is_raised_as_it_is_and_the_logs_stay(work) -> None:
    with pytest.raises(InputError, match=r"`a.jsonl` is damaged") as raised:
        squares(engine_of(), [errand(work, 1, "refuse"), *(errand(work, n) for n in range(2, 20))])
    assert raised.value.hint == "get it again"
    assert len(list(work.glob("engine/*/crews/0000/start.log"))) == 1


def test_a_task_that_always_dies_is_named_with_the_reason(work) -> None:
    with pytest.raises(KrillError, match=r"`errand 3` failed 2 times.*ended by SIGKILL"):
        squares(engine_of(retries=1), [errand(work, 3, "die")])


def test_a_worker_that_dies_in_the_middle_is_replaced(work) -> None:
    engine = engine_of()
    tasks = [errand(work, 1, "sleep", seconds=1), errand(work, 2, "sleep", seconds=1), errand(work, 3)]
    found = engine.run("errand", tasks, WORKER)
    results = [next(found).result["square"]]
    for process in worker_processes(work):
        os.kill(process, signal.SIGKILL)
    results += [done.result["square"] for done in found]
    engine.close()
    assert sorted(results) == [1, 4, 9]


def test_nothing_runs_on_when_the_caller_stops(work) -> None:
    before = psutil.Process().children(recursive=True)
    engine = engine_of()
    found = engine.run("errand", [errand(work, 1), errand(work, 2, "sleep", seconds=60)], WORKER)
    next(found)
    wait_for(lambda: (work / "ran-2").exists())
    processes = [one for one in psutil.Process().children(recursive=True) if one not in before]
    assert len(processes) >= 5  # the executor, its manager, two workers, and a hand at least
    found.close()
    engine.close()
    wait_for(lambda: gone(processes), 5)


def test_workers_of_a_killed_driver_leave_by_themselves(work) -> None:
    code = f"""
from pathlib import Path
from errands import errand
from krill.config.engine import EngineConfig
from krill.engines import Resources, open_engine
engine = open_engine(EngineConfig(name="datatrove", workers=2))
list(engine.run("errand", [errand(Path({str(work)!r}), 1, "sleep", seconds=60)], Resources(10**8, 1)))
"""
    with subprocess.Popen([sys.executable, "-c", code]) as driver:
        wait_for(lambda: (work / "ran-1").exists())
        processes = psutil.Process(driver.pid).children(recursive=True)
        driver.kill()
    wait_for(lambda: gone(processes))


def test_without_tasks_nothing_is_started(work) -> None:
    assert squares(engine_of(), []) == []
    assert list(work.iterdir()) == []


def test_a_missing_extra_is_named(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "datatrove", None)
    with pytest.raises(MissingExtra, match="the engine `datatrove` needs the extra `datatrove`"):
        engine_of()


def test_slurm_runs_tasks_with_what_the_plan_and_the_config_say(work, slurm) -> None:
    tasks = [errand(work, number, ["square", "die once"][number % 2]) for number in range(6)]
    engine = engine_of(
        "slurm", account="open", sbatch={"constraint": "avx2", "exclusive": ""}, time="1:00:00"
    )
    assert squares(engine, tasks) == [number**2 for number in range(6)]
    [script] = [path.read_text() for path in slurm.glob("*.script")]
    wanted = {"array=0-1%2", "cpus-per-task=1", "mem-per-cpu=220M", "nodes=1", "partition=work"}
    wanted |= {"time=1:00:00", "account=open", "constraint=avx2", "exclusive"}
    assert wanted <= {line.removeprefix("#SBATCH --") for line in script.splitlines()}
    assert "srun --cpus-per-task=1 -l -n 1 launch_pickled_pipeline" in script
    assert {path.read_text() for path in slurm.glob("*.state")} == {"COMPLETED"}


def test_a_job_that_somebody_cancels_is_submitted_again(work, slurm) -> None:
    engine = engine_of("slurm")
    found = engine.run("errand", [errand(work, 1), errand(work, 2, "sleep", seconds=1)], WORKER)
    results = [next(found).result["square"]]
    wait_for(lambda: (work / "ran-2").exists())
    subprocess.run(["scancel", "1"], check=True)
    results += [done.result["square"] for done in found]
    engine.close()
    assert sorted(results) == [1, 4]
    states = {path.name: path.read_text() for path in slurm.glob("*.state")}
    assert (states["1_0.state"], states["1_1.state"], states["2_0.state"]) == (
        "CANCELLED",
        "CANCELLED",
        "COMPLETED",
    )


def test_jobs_that_fail_at_once_are_told_with_the_end_of_their_log(work, slurm, monkeypatch) -> None:
    (slurm.parent / "bin" / "launch_pickled_pipeline").write_text(
        "#!/bin/sh\necho no module datatrove\nexit 3\n"
    )
    (slurm.parent / "bin" / "launch_pickled_pipeline").chmod(0o755)
    (slurm.parent / "bin" / "srun").write_text('#!/bin/sh\nshift 4\nexec "$(dirname $0)/$@"\n')
    with pytest.raises(KrillError, match=r"state FAILED; `.*1_0.out` ends with: .*no module datatrove"):
        squares(engine_of("slurm", retries=0), [errand(work, 1)])


def test_what_slurm_refuses_is_told(work, slurm, tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"Slurm did not take the job.*Invalid account"):
        squares(engine_of("slurm", account="mine"), [errand(work, 1)])
    with pytest.raises(ConfigError, match="no partition `night` with nodes"):
        engine_of("slurm", partition="night")
    with pytest.raises(ConfigError, match=r"`engine.sbatch` has `array`"):
        engine_of("slurm", sbatch={"array": "1-3"})
    with pytest.raises(ConfigError, match="can't be named in a script"):
        squares(engine_of("slurm"), [errand(tmp_path / "a folder", 1)])


def test_a_machine_without_slurm_is_told(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="`sinfo` is not on this machine"):
        engine_of("slurm")


def test_a_run_in_an_object_store_is_refused(work) -> None:
    with pytest.raises(ConfigError, match=r"needs a folder .* and the run is in `s3://bucket/run`"):
        squares(engine_of(), [Task("errand 1", {"work": "s3://bucket/run"}, anywhere=True)])


def test_more_workers_than_the_machine_has_memory_for_are_refused(work) -> None:
    engine = engine_of()
    with pytest.raises(BudgetError, match="2 workers of 1,000,000,000,000,000 bytes each"):
        list(engine.run("errand", [errand(work, 1)], Resources(memory=10**15, threads=1)))
    engine.close()
