"""COMPAT, as typed: the blocks of the guide to memory-optimised training that load data."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

import krill
from real_text import real_texts

ROOT = Path(__file__).resolve().parents[2]
SEED = ROOT.parent / "shared" / "seeds" / "004_training.md"
HUB_ID = "skeskinen/TinyStories-Instruct-hf"

pytestmark = pytest.mark.skipif(not SEED.exists(), reason="the guide is not here")


def blocks_with(name: str) -> list[str]:
    """Python blocks that import a name from the loader's module; none where the guide is absent."""
    if not SEED.exists():
        return []
    text = SEED.read_text(encoding="utf-8", errors="replace")
    found = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [block for block in found if f"from streaming_data_loader import {name}\n" in block]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder with the shims, a tokenizer, and local text where the guide has a hub's dataset."""
    folder = tmp_path_factory.mktemp("guide")
    shutil.copytree(ROOT / "examples" / "seeds", folder, dirs_exist_ok=True)
    data = folder / HUB_ID
    data.mkdir(parents=True)
    (data / "train.txt").write_text("<|endoftext|>".join(islice(real_texts(), 40)), encoding="utf-8")
    krill.tokenizer.train([str(data / "train.txt")], vocab_size=500, output=folder / "trained")
    shutil.copy(folder / "trained" / "tokenizer.json", folder / "tokenizer.json")
    return folder


def run(folder: Path, program: str) -> list[str]:
    """The lines that a program prints; it must succeed."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, f"{program}\n{done.stderr}"
    return done.stdout.splitlines()


def test_the_guide_has_the_blocks_that_are_tested() -> None:
    assert len(blocks_with("StreamingDataLoader")) == 2
    assert len(blocks_with("estimate_memory_usage")) == 1


def test_streaming_batch_by_batch_runs_as_typed(folder: Path) -> None:
    """The first block names no dataset and leaves tokenizer, state and step to its reader."""
    before = """
from tokenizers import Tokenizer
tokenizer, state, seen = Tokenizer.from_file("tokenizer.json"), None, []
def train_step(state, batch):
    seen.append((batch["input_ids"].shape, batch["labels"].shape, str(batch["labels"].dtype)))
"""
    block = blocks_with("StreamingDataLoader")[0].replace('dataset_id="..."', f'dataset_id="{HUB_ID}"')
    lines = run(folder, before + block + "\nprint(len(seen), set(seen))")
    count, _, shapes = lines[-1].partition(" ")
    assert int(count) > 5
    assert shapes == "{((32, 128), (32, 128), 'int32')}"


def test_basic_usage_runs_as_typed(folder: Path) -> None:
    lines = run(folder, blocks_with("StreamingDataLoader")[1])
    assert len(lines) > 5
    assert set(lines) == {"(32, 128)"}


def test_the_estimate_runs_as_typed_and_prints_the_numbers_of_the_guide(folder: Path) -> None:
    lines = run(folder, blocks_with("estimate_memory_usage")[0])
    # "~100 MB", "~0.03 MB" and "99.97%" there.
    assert lines == ["Full load: 102.4 MB", "Streaming: 0.032768 MB", "Savings: 99.97%"]
