"""Worker processes answer requests, are started again when they are lost, and end with their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from krill.budget import Meter
from krill.errors import BudgetError, ConfigError
from krill.threads.processes import WorkerProcesses

MB = 10**6
WORK = """
import os, signal, time
from pathlib import Path
from krill.errors import ConfigError

def open_work(settings):
    folder = Path(settings.decode())
    def answer(request):
        print("not an answer")
        name, _, rest = request.partition(b" ")
        if name == b"refuse":
            raise ConfigError("this is refused", hint="ask for another")
        if name == b"fail":
            raise ValueError("a fault of ours")
        if name == b"die" or (name == b"die-once" and not (folder / "died").exists()):
            (folder / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if name == b"grow":
            return bytes(len(bytearray(b"x" * int(rest))))
        if name == b"sleep":
            (folder / "sleeps").write_text(str(os.getpid()))
            time.sleep(float(rest))
        return b"%d %s" % (os.getpid(), rest)
    return answer

def refuse(settings):
    raise ConfigError("these settings are refused")
"""


@pytest.fixture
def processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., WorkerProcesses]]:
    (tmp_path / "some_work.py").write_text(WORK)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    made = []

    def make(count: int = 1, memory: int = 100 * MB, work: str = "open_work", meter: Meter | None = None):
        pool = WorkerProcesses(f"some_work:{work}", os.fsencode(tmp_path), count, memory, meter)
        made.append(pool)
        return pool

    yield make
    for pool in made:
        pool.release()


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until_ended(process: int, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while is_running(process):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_threads_are_answered_by_several_processes(processes: Callable[..., WorkerProcesses]) -> None:
    pool = processes(2)
    content = os.urandom(300_000)  # more than a pipe holds
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda number: pool.answer(b"say %d " % number + content), range(20)))
    assert [answer.split(b" ", 1)[1] for answer in answers] == [b"%d " % n + content for n in range(20)]
    found = {int(answer.split()[0]) for answer in answers}
    assert 1 <= len(found) <= 2 and os.getpid() not in found
    assert pool.held_bytes() > 5 * MB
    pool.release()
    assert not any(map(is_running, found))
    assert int(pool.answer(b"say").split()[0]) not in found  # started again


def test_errors_of_the_work_are_raised_here_and_the_process_goes_on(
    processes: Callable[..., WorkerProcesses],
) -> None:
    pool = processes()
    first = pool.answer(b"say")
    with pytest.raises(ConfigError, match="this is refused") as refused:
        pool.answer(b"refuse")
    assert refused.value.hint == "ask for another"
    with pytest.raises(RuntimeError, match="ValueError: a fault of ours"):
        pool.answer(b"fail")
    # Of a fault nobody knows what it has left behind.
    assert pool.answer(b"say") != first
    with pytest.raises(ConfigError, match="these settings are refused"):
        processes(work="refuse").answer(b"say")


def test_a_lost_process_is_started_again_and_one_that_is_lost_twice_is_an_error(
    processes: Callable[..., WorkerProcesses],
) -> None:
    pool = processes()
    assert pool.answer(b"die-once 7").endswith(b" 7")
    with pytest.raises(BudgetError, match="was ended by SIGKILL, 2 times") as lost:
        pool.answer(b"die")
    assert "--threads 1" in (lost.value.hint or "")
    assert pool.answer(b"say 8").endswith(b" 8")


def test_a_process_ends_before_it_holds_more_than_it_was_given(
    processes: Callable[..., WorkerProcesses],
) -> None:
    pool = processes(memory=80 * MB)
    assert pool.answer(b"grow 10000000") == bytes(10**7)
    with pytest.raises(BudgetError, match="needs more than the 80,000,000 bytes"):
        pool.answer(b"grow 300000000")


def test_the_meter_counts_what_processes_hold_while_they_run(
    processes: Callable[..., WorkerProcesses],
) -> None:
    with Meter(10**9) as meter:
        pool = processes(memory=200 * MB, meter=meter)
        own = meter.used
        assert pool.answer(b"grow 30000000") == bytes(3 * 10**7)
        time.sleep(0.2)
        assert meter.others_peak > 40 * MB
        assert meter.peak >= own + 40 * MB
        assert meter.used < own + 100 * MB  # the answer, and nothing of the other process
        pool.release()
    small = Meter(own + 300 * MB)
    assert not small.under_pressure()
    small.lend(290 * MB)
    assert small.under_pressure()  # what is lent is not there for this process
    small.lend(0)
    assert not small.under_pressure()


def test_threads_that_start_processes_at_once_change_the_guard_one_after_the_other() -> None:
    script = """
import threading, time
from krill.budget.meter import Meter, guard_process

def lend(size):
    begin.wait()
    meter.lend(size, lambda: time.sleep(0.01) or 0)

guard_process()
with Meter(10**9) as meter:
    meter.guard()
    for size in (10**7, 2 * 10**7) * 5:
        begin = threading.Barrier(4)
        threads = [threading.Thread(target=lend, args=[size], daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
print("done")
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr


@pytest.mark.parametrize("request_text", ["sleep 60", "say"])
def test_processes_end_with_a_parent_that_is_killed(
    tmp_path: Path, processes: Callable[..., WorkerProcesses], request_text: str
) -> None:
    """Also in the midst of their work."""
    script = f"""
import threading, time
from krill.threads.processes import WorkerProcesses
pool = WorkerProcesses("some_work:open_work", {os.fsencode(tmp_path)!r}, 1, 100_000_000, None)
print(pool.answer(b"say").decode(), flush=True)
threading.Thread(target=pool.answer, args=[{request_text.encode()!r}], daemon=True).start()
time.sleep(60)
"""
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    process = int(parent.stdout.readline().split()[0])
    if request_text.startswith("sleep"):
        while not (tmp_path / "sleeps").exists():
            time.sleep(0.05)
    assert is_running(process)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    wait_until_ended(process)


def test_a_file_in_the_working_directory_is_not_taken_for_a_module(
    tmp_path: Path, processes: Callable[..., WorkerProcesses], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "orjson.py").write_text("raise SystemExit(7)")
    monkeypatch.chdir(tmp_path / "here")
    assert processes().answer(b"say 1").endswith(b" 1")
