"""Damaged files through every reader, in process: the short form of `make fuzz`, the same each time."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fuzz_targets import TARGETS
from fuzzing import Fuzzer

SEED = 20_240_229
# As many as take two or three seconds.
MUTATIONS = {"chat": 120, "our-dataset": 120, "parquet": 200}
USUAL = 250
WITH_JAX = [name for name, target in TARGETS.items() if target.imports]


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory where that is a folder: most of the time goes into making and removing files."""
    place = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="krill-fuzz-", dir=place) as name:
        yield Path(name) / "fuzz"


@pytest.mark.parametrize("name", sorted(set(TARGETS) - set(WITH_JAX)))
def test_damaged_files_are_read_or_refused_with_a_krill_error(name: str, folder: Path) -> None:
    fuzzer = Fuzzer(TARGETS[name], folder, SEED)
    failures = list(fuzzer.run(range(MUTATIONS.get(name, USUAL))))
    assert not failures, "\n\n".join(map(str, failures))


def test_damaged_models_are_read_or_refused_with_a_krill_error() -> None:
    """In a process of its own: JAX forbids forks of this one."""
    chosen = [word for name in WITH_JAX for word in ("--target", name)]
    command = [sys.executable, "tests/fuzz", *chosen, "--seed", str(SEED), "--count", str(USUAL)]
    root = Path(__file__).parents[2]
    ended = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_a_reader_that_crashes_hangs_grows_or_raises_something_else_is_told(folder: Path) -> None:
    """The driver itself: each kind of failure is one, with its number, and the others are still tried."""
    import fuzzing

    def make(folder: Path) -> dict[str, list[str]]:
        (folder / "case").mkdir()
        (folder / "case" / "file").write_bytes(b"whole")
        return {"case": ["file"]}

    def check(case: Path, random: object) -> None:
        content = (case / "file").read_bytes()
        if content == b"whole":
            return
        match content[0]:
            case 0:
                import ctypes

                ctypes.string_at(8)
            case 1:
                while True:
                    pass
            case 2:
                b"x" * (fuzzing.GROWTH + 50_000_000)
            case 3:
                raise ValueError("a bug")

    target = fuzzing.Target("driver", make, check, lambda data, random, others: bytes([random.randrange(5)]))
    fuzzer = Fuzzer(target, folder, SEED)
    kinds = {fuzzer.mutated(number)[0]: number for number in range(100)}
    hanging = kinds.pop(1)
    failures = {failure.number: failure.problem for failure in fuzzer.run(sorted(kinds.values()))}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fuzzing, "SECONDS", 1)
        failures |= {failure.number: failure.problem for failure in fuzzer.run([hanging])}
    kinds[1] = hanging
    assert sorted(failures) == sorted(kinds[kind] for kind in range(4))
    assert "ended by SIGSEGV" in failures[kinds[0]]
    assert "not done after 1 s" in failures[kinds[1]]
    assert "AssertionError: held 2" in failures[kinds[2]]
    assert "ValueError: a bug" in failures[kinds[3]]
