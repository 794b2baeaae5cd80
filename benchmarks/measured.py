"""A command in a process of its own: how it ended, how long it took, and the most memory it held."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

# Forks from a process of a few megabytes: a child's ru_maxrss begins with what its parent held at the fork.
_LAUNCHER = """
import json, os, resource, sys, time
report, data_limit, file_limit, *command = sys.argv[1:]
begun = time.monotonic()
child = os.fork()
if child == 0:
    if data_limit != "-":
        resource.setrlimit(resource.RLIMIT_STACK, (2**20, 2**20))
        resource.setrlimit(resource.RLIMIT_DATA, (int(data_limit), int(data_limit)))
    if file_limit != "-":
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(file_limit), int(file_limit)))
    os.execv(command[0], command)
_, status, usage = os.wait4(child, 0)
with open(report, "w") as file:
    json.dump(
        {
            "peak": usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
            "seconds": time.monotonic() - begun,
            "cpu_seconds": usage.ru_utime + usage.ru_stime,
        },
        file,
    )
sys.exit(os.waitstatus_to_exitcode(status) & 255)
"""


@dataclass(frozen=True)
class Outcome:
    """How a command ended; `peak` is its VmHWM in bytes."""

    code: int
    out: str
    err: str
    peak: int
    seconds: float
    cpu_seconds: float

    @property
    def result(self) -> dict[str, Any]:
        """What `--json` printed."""
        return dict(json.loads(self.out))


@cache
def read_libraries() -> None:
    """Bring the libraries' files into the page cache, so that peaks are the same from run to run.

    Where code is touched, the kernel maps what surrounds it as far as it is in the page cache: the program
    itself holds 65 MB when only parts of them are, just after a start of the machine, and 88 MB at the most.
    """
    buffer = bytearray(1 << 20)
    for folder in {sysconfig.get_path("platlib"), sysconfig.get_path("stdlib")}:
        for path in Path(folder).rglob("*.so*"):
            if "torch" not in path.parts and path.is_file():  # 700 MB that no command of ours loads
                with path.open("rb", buffering=0) as file:
                    while file.readinto(buffer):
                        pass


def run_measured(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    data_limit: int | None = None,
    file_limit: int | None = None,
    timeout: float | None = None,
) -> Outcome:
    """Run `command`, perhaps under RLIMIT_DATA (with a stack of 1 MiB) or RLIMIT_FSIZE."""
    limits = ["-" if limit is None else str(limit) for limit in (data_limit, file_limit)]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "usage.json"
        done = subprocess.run(
            [sys.executable, "-S", "-c", _LAUNCHER, str(report), *limits, *map(str, command)],
            cwd=cwd,
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        usage = json.loads(report.read_text())
    return Outcome(done.returncode, done.stdout, done.stderr, **usage)
