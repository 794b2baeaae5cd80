"""What all tests share: real text, corpora grown from it, and the command run in a process of its own."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings

# The machines are shared and noisy, so no deadlines; and a change is judged by its own tests, not by new
# luck: `make fuzz` and `make soak` are where randomness belongs.
settings.register_profile("krill", deadline=None, derandomize=True)
settings.load_profile("krill")

ROOT = Path(__file__).resolve().parent.parent
SHARED_DATA = ROOT.parent / "shared" / "data"
KRILL = Path(sys.executable).with_name("krill")

# Forks from a process of a few megabytes: a child's ru_maxrss begins with what its parent held at the fork.
_LAUNCHER = """
import json, os, resource, sys
report, data_limit, file_limit, *command = sys.argv[1:]
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
    json.dump({"peak": usage.ru_maxrss * 1024}, file)
sys.exit(os.waitstatus_to_exitcode(status) & 255)
"""


@dataclass(frozen=True)
class Outcome:
    """How a command ended; `peak` is its VmHWM in bytes."""

    code: int
    out: str
    err: str
    peak: int

    @property
    def result(self) -> dict:
        """What `--json` printed."""
        return json.loads(self.out)


@pytest.fixture
def krill(tmp_path_factory) -> Callable[..., Outcome]:
    """Run `krill ARGUMENTS` in a process of its own, in `cwd`, perhaps under limits."""

    def run(*arguments, cwd=None, data_limit=None, file_limit=None, env=None, timeout=300) -> Outcome:
        report = tmp_path_factory.mktemp("report") / "usage.json"
        limits = ["-" if limit is None else str(limit) for limit in (data_limit, file_limit)]
        command = [
            sys.executable,
            "-S",
            "-c",
            _LAUNCHER,
            str(report),
            *limits,
            str(KRILL),
            *map(str, arguments),
        ]
        done = subprocess.run(
            command,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return Outcome(done.returncode, done.stdout, done.stderr, json.loads(report.read_text())["peak"])

    return run


@pytest.fixture(scope="session")
def sample() -> Path:
    """6,000 Markdown documents in ten-odd languages; tests that need it skip where it is absent."""
    path = SHARED_DATA / "docs_sample.jsonl.gz"
    if not path.exists():
        pytest.skip("the shared sample of real text is not here")
    return path


def real_texts() -> Iterator[str]:
    """Real documents: the shared sample, or the standard library's own sources where it is absent."""
    path = SHARED_DATA / "docs_sample.jsonl.gz"
    if path.exists():
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)["text"]
    else:
        for source in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
            yield source.read_text(encoding="utf-8", errors="replace")


def grow_jsonl(path: Path, size: int) -> Path:
    """A JSON-lines file of at least `size` bytes: real documents, each round made different from the last."""
    texts = list(real_texts())
    written = 0
    with path.open("wb") as file:
        for round_number in count():
            for number, text in enumerate(texts):
                # One document in ten repeats exactly, so that there are duplicates to find.
                mark = "" if number % 10 == 0 else f" ({round_number})"
                line = json.dumps({"id": number, "text": text + mark}, ensure_ascii=number % 2 == 0)
                written += file.write(line.encode() + b"\n")
                if written >= size:
                    return path
    raise AssertionError("unreachable")


@pytest.fixture(scope="session")
def corpus_50mb(tmp_path_factory) -> Path:
    return grow_jsonl(tmp_path_factory.mktemp("corpus") / "50mb.jsonl", 50_000_000)


def dataset_bytes(folder: Path) -> dict[str, bytes]:
    """Every file of an output but the manifest, which tells times and peaks."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "krill-run.json"
    }
