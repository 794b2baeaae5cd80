"""What all tests share: real text, corpora grown from it, and the command run in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from measured import Outcome, run_measured
from real_text import SAMPLE, grow_jsonl

# The machines are shared and noisy, so no deadlines; and a change is judged by its own tests, not by new
# luck: `make fuzz` and `make soak` are where randomness belongs.
settings.register_profile("krill", deadline=None, derandomize=True)
settings.load_profile("krill")

KRILL = Path(sys.executable).with_name("krill")


@pytest.fixture
def krill() -> Callable[..., Outcome]:
    """Run `krill ARGUMENTS` in a process of its own; options as of `run_measured`."""

    def run(*arguments, timeout=300, **options) -> Outcome:
        return run_measured([KRILL, *arguments], timeout=timeout, **options)

    return run


@pytest.fixture(scope="session")
def sample() -> Path:
    """6,000 Markdown documents in ten-odd languages; tests that need it skip where it is absent."""
    if not SAMPLE.exists():
        pytest.skip("the shared sample of real text is not here")
    return SAMPLE


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
