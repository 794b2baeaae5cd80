"""Worker processes, for work that Python's own lock lets one thread do at a time.

In: requests, as bytes. Out: the answer to each, as bytes, by one of several processes that do the same work.
Held in memory: here a request and its answer; in each process what its work holds, at the most the bytes that
it was given: a guard ends it before it goes beyond.

The work is a function of a request alone: a process that was lost is started again, and does the same. A
process ends with the one that started it, whatever ends that: then its pipes are closed, and its parent is
another. Only bytes go through the pipes, and what is run is named by our own code.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from pathlib import Path
from queue import LifoQueue
from typing import TYPE_CHECKING, Any, Final

import orjson

from krill.errors import BudgetError, KrillError, decode_error, encode_error

if TYPE_CHECKING:
    from krill.budget import Meter

Work = Callable[[bytes], bytes]

# `-P`: a file in the working directory is not taken for a module.
_COMMAND: Final = ("-P", "-c", "from krill.threads.processes import main; main()")
_TRIES: Final = 2
_SECONDS_TO_END: Final = 5.0
_SIZE_BYTES: Final = 8
# What an answer begins with.
_ANSWER, _ERROR, _BUG = b"a", b"e", b"b"


class WorkerProcesses:
    """So many processes with the work `module:function`, which is called with `settings` in each of them and
    returns what answers requests.

    They are started when they are first needed. Each may hold `memory` bytes, of which the `meter` is told.
    """

    def __init__(self, work: str, settings: bytes, count: int, memory: int, meter: Meter | None) -> None:
        self._begin = orjson.dumps({"work": work, "memory": memory, "parent": os.getpid()})
        self._settings = settings
        self._count, self._memory, self._meter = count, memory, meter
        self._running: set[_Process] = set()
        self._idle: LifoQueue[_Process | None] = LifoQueue()
        for _ in range(count):
            self._idle.put(None)

    def answer(
        self, request: bytes, watched: Callable[[int], AbstractContextManager[None]] | None = None
    ) -> bytes:
        """What the work makes of a request, in any process that is free; any thread may ask. Meanwhile it is
        `watched`, if that is given, by the id of the process.

        Raises what the work raises; a `BudgetError` if processes go on being lost with this request.
        """
        process = self._idle.get()
        try:
            for _ in range(_TRIES):
                process = process or self._start()
                try:
                    with nullcontext() if watched is None else watched(process.id):
                        return process.ask(request)
                except (EOFError, BrokenPipeError):
                    lost, process = process, None
                    code = self._end(lost)
            raise _lost(code, self._memory)
        except KrillError:
            raise
        except BaseException:  # an answer may be under way
            if process is not None:
                self._end(process)
                process = None
            raise
        finally:
            self._idle.put(process)

    def held_bytes(self) -> int:
        """The most that the processes which run have held, each on its own."""
        return sum(process.peak_bytes() for process in list(self._running))

    def release(self) -> None:
        """End the processes; they are started again when they are needed."""
        for process in list(self._running):
            self._end(process)
        if self._meter is not None:
            self._meter.lend(0)
        for _ in range(self._idle.qsize()):
            self._idle.get()
            self._idle.put(None)

    def _start(self) -> _Process:
        if self._meter is not None:
            self._meter.lend(self._count * self._memory, self.held_bytes)
        process = _Process()
        self._running.add(process)
        process.write(self._begin)
        process.write(self._settings)
        return process

    def _end(self, process: _Process) -> int:
        self._running.discard(process)
        return process.end()


class _Process:
    """A process and its pipes, used by one thread at a time."""

    def __init__(self) -> None:
        # In a group of its own, Ctrl-C does not reach it: it ends with its parent.
        self._process = subprocess.Popen(
            [sys.executable, *_COMMAND],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            process_group=0,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout

    @property
    def id(self) -> int:
        return self._process.pid

    def write(self, content: bytes) -> None:
        write_frame(self._requests.fileno(), content)

    def ask(self, request: bytes) -> bytes:
        self.write(request)
        found = read_frame(self._answers.fileno())
        if found is None:
            raise EOFError
        kind, content = found[:1], found[1:]
        if kind == _ERROR:
            raise decode_error(orjson.loads(content))
        if kind == _BUG:
            raise RuntimeError(f"in a worker process:\n{content.decode()}")
        return content

    def peak_bytes(self) -> int:
        """`VmHWM` of the process; 0 where that is not known."""
        try:
            status = Path(f"/proc/{self._process.pid}/status").read_text()
        except OSError:
            return 0
        return next((int(line.split()[1]) * 1024 for line in status.splitlines() if "VmHWM" in line), 0)

    def end(self) -> int:
        """Have it end; its exit code."""
        self._requests.close()
        try:
            return self._process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()
        finally:
            self._answers.close()


def _lost(code: int, memory: int) -> BudgetError:
    if code == BudgetError.exit_code:
        return BudgetError(
            f"a worker process needs more than the {memory:,} bytes that it was given",
            hint="with --threads 1 the work is done in one process",
        )
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    return BudgetError(
        f"a worker process {how}, {_TRIES} times with the same work",
        hint="see whether the machine runs out of memory, and run the same command again; with --threads 1"
        " the work is done in one process",
    )


def write_frame(file: int, content: bytes) -> None:
    """Its size, then the content."""
    for part in (len(content).to_bytes(_SIZE_BYTES, "little"), content):
        left = memoryview(part)
        while left:
            left = left[os.write(file, left) :]


def read_frame(file: int) -> bytes | None:
    """The next content; None where there is none any more."""
    size = _read(file, _SIZE_BYTES)
    return None if size is None else _read(file, int.from_bytes(size, "little"))


def _read(file: int, size: int) -> bytes | None:
    parts = []
    while size:
        part = os.read(file, size)
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def end_with(parent: int) -> None:
    """End this process soon after that one, which started it, has ended."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    """A worker process: answers requests until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests, answers = 0, os.dup(1)
    os.dup2(2, 1)  # what the work prints is no answer
    begin, settings = read_frame(requests), read_frame(requests)
    if begin is None or settings is None:
        return
    told: dict[str, Any] = orjson.loads(begin)
    end_with(told["parent"])
    _guard(told["memory"])
    work = _attempt(lambda: _work(told["work"], settings))
    while (request := read_frame(requests)) is not None:
        try:
            write_frame(answers, work(request))
        except BrokenPipeError:
            return


def _work(name: str, settings: bytes) -> Work:
    module, function = name.split(":")
    made: Work = getattr(import_module(module), function)(settings)
    return made


def _attempt(make: Callable[[], Work]) -> Work:
    """The work, with its errors as answers; where it could not be made, that error is every answer."""
    try:
        work = make()
    except Exception as error:
        fault = _fault(error)
        return lambda request: fault

    def answer(request: bytes) -> bytes:
        try:
            return _ANSWER + work(request)
        except Exception as error:
            return _fault(error)

    return answer


def _fault(error: Exception) -> bytes:
    if isinstance(error, KrillError):
        return _ERROR + orjson.dumps(encode_error(error))
    return _BUG + "".join(traceback.format_exception(error)).encode("utf-8", "backslashreplace")


def _guard(memory: int) -> None:
    from krill import _native

    _native.configure_malloc()
    guard = _native.MemoryGuard(memory, "", BudgetError.exit_code)
    if guard.start():
        _kept.append(guard)


_kept: Final[list[Any]] = []
