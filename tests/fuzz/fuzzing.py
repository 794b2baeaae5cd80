"""Readers of files held to what they promise, thousands of damaged files each.

A target makes valid files once, and reads a folder of them in which one was damaged. What must hold: it reads
or raises a `KrillError`, within `SECONDS`, growing by less than `GROWTH`; no signal ends it. Mutations run in
forked children, so that a crash is one more failure: each is told with the command that repeats it. The same
seed gives the same mutations.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import shutil
import signal
import struct
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from mmap import mmap
from pathlib import Path
from random import Random

from krill.errors import KrillError
from mutations import mutate_bytes

SECONDS = 20
SECONDS_TO_MAKE = 120
# What is read depends on chance, so whole files are read so many times before they are damaged.
_WHOLE_READ = 5
# Inputs are some kilobytes, decoders' windows and pools of Arrow's memory a few megabytes.
GROWTH = 200_000_000
_BATCH = 250
_MOST_ADDRESSES = 8 << 30
_FAILED = 17

Mutate = Callable[[bytes, Random, Sequence[bytes]], bytes]
Check = Callable[[Path, Random], None]


@dataclass(frozen=True, slots=True)
class Target:
    """`make(folder)` writes valid files, each case a folder of its own, and returns which files of each are
    damaged; `check(case, random)` reads a case. `imports` are loaded once, before children are forked."""

    name: str
    make: Callable[[Path], Mapping[str, Sequence[str]]]
    check: Check
    mutate: Mutate = mutate_bytes
    imports: tuple[str, ...] = ()


@dataclass(slots=True)
class Failure:
    """A mutation after which something did not hold."""

    target: str
    seed: int
    number: int
    case: str
    problem: str
    kept: Path | None = None

    def __str__(self) -> str:
        again = f"python tests/fuzz --target {self.target} --seed {self.seed} --only {self.number}"
        return f"{self.target} {self.number} ({self.case}): {self.problem.strip()}\n  again: {again}"


@dataclass(slots=True)
class _Shared:
    """What a child tells its parent while it works: the mutation at hand."""

    memory: mmap = field(default_factory=lambda: mmap(-1, 8))

    def set(self, number: int) -> None:
        self.memory[:8] = struct.pack("<q", number)

    def get(self) -> int:
        return int(struct.unpack("<q", self.memory[:8])[0])


class Fuzzer:
    """One target over mutations of one seed, in a folder of its own."""

    def __init__(self, target: Target, folder: Path, seed: int) -> None:
        self.target = target
        self.seed = seed
        self._whole = folder / "whole"
        self._work = folder / "work"
        self._log = folder / "log"
        self._whole.mkdir(parents=True)
        self._shared = _Shared()
        for name in target.imports:
            import_module(name)
        self._cases = self._make()
        self._contents = {
            (case, name): (self._whole / case / name).read_bytes() for case, name in self._cases
        }

    def _make(self) -> list[tuple[str, str]]:
        """The valid files, read without a word; by a child, since making them may start threads."""
        listed = self._whole.parent / "made.json"

        def make() -> None:
            made = self.target.make(self._whole)
            listed.write_text(json.dumps([(case, name) for case, names in made.items() for name in names]))
            for case in made:
                for chance in range(_WHOLE_READ):
                    self.target.check(self._fresh(case), Random(chance))

        self._log.write_text("")
        status = self._wait(self._fork(make), SECONDS_TO_MAKE)
        assert status == 0, f"whole files can't be made and read: {self._log.read_text()}"
        return [(case, name) for case, name in json.loads(listed.read_text())]

    def run(self, numbers: Iterable[int], deadline: float = float("inf")) -> Iterator[Failure]:
        """Try these mutations; ends early at the `deadline` of the monotonic clock."""
        waiting = list(numbers)
        while waiting and time.monotonic() < deadline:
            batch, waiting = waiting[:_BATCH], waiting[_BATCH:]
            while batch:
                failure = self._batch(batch)
                if failure is None:
                    break
                yield failure
                batch = [number for number in batch if number > failure.number]

    def case_of(self, number: int) -> tuple[str, str]:
        return Random(f"{self.seed} {number} case").choice(self._cases)

    def mutated(self, number: int) -> bytes:
        """The content of the damaged file."""
        place = self.case_of(number)
        others = [content for other, content in self._contents.items() if other != place]
        return self.target.mutate(self._contents[place], Random(f"{self.seed} {number}"), others)

    def try_one(self, number: int) -> None:
        """A mutation in this process."""
        case, name = self.case_of(number)
        folder = self._fresh(case)
        (folder / name).write_bytes(self.mutated(number))
        try:
            self.target.check(folder, Random(f"{self.seed} {number} check"))
        except KrillError as error:
            _check_told(error)

    def _fresh(self, case: str) -> Path:
        shutil.rmtree(self._work, ignore_errors=True)
        shutil.copytree(self._whole / case, self._work / case)
        return self._work / case

    def _batch(self, batch: Sequence[int]) -> Failure | None:
        """The first failure in a batch, which a child works through."""
        self._shared.set(batch[0])
        self._log.write_text("")
        status = self._wait(self._fork(lambda: self._try_all(batch)), SECONDS)
        if status == 0:
            return None
        number = self._shared.get()
        if os.WIFSIGNALED(status):
            ended = signal.Signals(os.WTERMSIG(status)).name
            problem = f"ended by {ended}" if ended != "SIGKILL" else f"not done after {SECONDS} s"
        else:
            problem = ""
        case, name = self.case_of(number)
        problem = f"{problem}\n{self._log.read_text(errors='replace')}"
        return Failure(self.target.name, self.seed, number, f"{case}/{name}", problem)

    def _wait(self, child: int, seconds: float) -> int:
        """How the child ended; it is killed when it stays with one mutation for too long."""
        number, since, pause = self._shared.get(), time.monotonic(), 0.001
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return status
            if self._shared.get() != number:
                number, since = self._shared.get(), time.monotonic()
            elif time.monotonic() - since > seconds:
                os.kill(child, signal.SIGKILL)
                since = float("inf")
            time.sleep(pause)
            pause = min(0.05, pause * 1.5)

    def _fork(self, work: Callable[[], None]) -> int:
        """A child that does the work; what it and its libraries print goes into the log."""
        sys.stdout.flush()
        child = os.fork()
        if child != 0:
            return child
        code = _FAILED
        try:
            log = os.open(self._log, os.O_WRONLY | os.O_APPEND)
            for stream in (1, 2):
                os.dup2(log, stream)
            faulthandler.enable(log)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_AS, (_MOST_ADDRESSES, _MOST_ADDRESSES))
            work()
            code = 0
        except BaseException:
            os.write(log, traceback.format_exc().encode("utf-8", "backslashreplace"))
        finally:
            os._exit(code)

    def _try_all(self, batch: Sequence[int]) -> None:
        for number in batch:
            self._shared.set(number)
            os.ftruncate(1, 0)
            before = _reset_peak()
            self.try_one(number)
            grown = _peak() - before
            assert grown < GROWTH, f"held {grown / 1e6:,.0f} MB"


def _check_told(error: KrillError) -> None:
    """A message is one for people: not empty, and without the names of Python's own errors alone."""
    assert error.message.strip(), "an error without a message"
    str(error)


def _reset_peak() -> int:
    """Let the peak begin anew; what is held now."""
    Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmHWM in /proc/self/status")
