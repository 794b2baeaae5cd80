"""What all tests share: real text, corpora grown from it, and the command run in a process of its own."""

from __future__ import annotations

import fcntl
import gc
import os
import sys
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

import preloaded
from measured import Outcome, read_libraries, run_measured
from properties import load_profile
from real_text import SAMPLE, grow_jsonl

load_profile()

# JAX's programs compile faster without LLVM's passes, MLIR's fusions and a module for each
# function; what they compute and hold is alike. And each is compiled once for all tests: hundreds of
# processes run the same few.
# XLA ends a process that gives it a flag which its version does not know: these have come and gone.
_JAXLIB = tuple(map(int, version("jaxlib").split(".")[:2])) if find_spec("jaxlib") else (0, 0)
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    " --xla_cpu_parallel_codegen_split_count=1"
    + " --xla_cpu_use_fusion_emitters=false" * (_JAXLIB < (0, 11))
    + " --xla_cpu_opt_preset=CPU_OPT_PRESET_FAST_COMPILE" * (_JAXLIB >= (0, 10)),
)
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / "build" / "jax-cache"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

KRILL = Path(sys.executable).with_name("krill")


_loaded = 0  # modules, when the collector was last told to leave all alone


def pytest_collection_finish() -> None:
    """What is loaded by now stays: the collector of garbage need not walk over it again and again."""
    global _loaded
    gc.collect()
    gc.freeze()
    _loaded = len(sys.modules)


def pytest_runtest_logfinish() -> None:
    """Nor over what tests have loaded since: PyTorch and its like are a million objects."""
    if len(sys.modules) > _loaded + 300:
        pytest_collection_finish()


@pytest.fixture
def krill() -> Callable[..., Outcome]:
    """Run `krill ARGUMENTS` in a process of its own, everything loaded; options as of `preloaded.run`."""
    return lambda *arguments, **options: preloaded.run(arguments, **options)


@pytest.fixture
def fresh_krill() -> Callable[..., Outcome]:
    """The same from the beginning, and with no more in memory than it takes; options as of `run_measured`."""
    read_libraries()

    def run(*arguments, timeout=300, **options) -> Outcome:
        return run_measured([KRILL, *arguments], timeout=timeout, **options)

    return run


@pytest.fixture
def jax_as_installed(monkeypatch) -> None:
    """For commands whose memory is measured: JAX compiles as it does for users, and every time."""
    for name in ("XLA_FLAGS", "JAX_COMPILATION_CACHE_DIR"):
        monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def sample() -> Path:
    """6,000 Markdown documents in ten-odd languages; tests that need it skip where it is absent."""
    if not SAMPLE.exists():
        pytest.skip("the shared sample of real text is not here")
    return SAMPLE


@pytest.fixture(scope="session")
def made_once(tmp_path_factory) -> Callable[[str, Callable[[Path], object]], Path]:
    """The file `name`, which `make` writes for all processes of pytest; none may change it."""
    own = tmp_path_factory.getbasetemp()
    folder = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own

    def find(name: str, make: Callable[[Path], object]) -> Path:
        path = folder / name
        with (folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                make(folder / f"{name}.part")
                (folder / f"{name}.part").rename(path)
        return path

    return find


@pytest.fixture(scope="session")
def grown(made_once) -> Callable[[int], Path]:
    """JSON lines of so many megabytes, grown from real text."""
    return lambda size: made_once(f"{size}mb.jsonl", lambda path: grow_jsonl(path, size * 10**6))


@pytest.fixture(scope="session")
def corpus_50mb(grown) -> Path:
    return grown(50)


def run_bytes(folder: Path) -> dict[str, bytes]:
    """Every file of an output but the manifest, which tells times and peaks."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "krill-run.json"
    }


def dataset_bytes(folder: Path) -> dict[str, bytes]:
    """The same without the examples of what was dropped, which name the files of the input."""
    return {name: content for name, content in run_bytes(folder).items() if name != "examples.jsonl"}
