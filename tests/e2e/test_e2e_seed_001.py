"""COMPAT, as typed: the blocks of the guide to features and lazy loading, through its shim."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from questions import story_file, tokenizer_of

ROOT = Path(__file__).resolve().parents[2]
SEED = ROOT.parent / "shared" / "seeds" / "001_features_and_lazy_loading.md"

pytestmark = pytest.mark.skipif(not SEED.exists(), reason="the guide is not here")

# What the guide leaves to its reader, and nothing else: the data, the tokenizer's path, the epochs.
FILLED_IN = {
    '"squad_v2"': '"squad.json"',
    '"xlnet-base-cased"': '"tokenizer"',
    "range(num_epochs)": "range(2)",
}
KEEPER = """
class Keeper:
    def __init__(self):
        self.chunks = {}

    def save_chunk(self, data, dataset_name, split, chunk_id):
        self.chunks[chunk_id] = data

your_custom_cache_manager = Keeper()
"""


def block_with(text: str) -> str:
    """The block of the guide that has this in it, filled in."""
    guide = SEED.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", guide, re.DOTALL | re.MULTILINE)
    for old, new in FILLED_IN.items():
        blocks = [block.replace(old, new) for block in blocks]
    return next(block for block in blocks if text in block)


@pytest.fixture
def folder(tmp_path) -> Path:
    shutil.copytree(ROOT / "examples" / "seeds" / "memxlnet", tmp_path / "memxlnet")
    story_file(tmp_path / "squad.json", words=1500)
    tokenizer_of("unigram").save_pretrained(tmp_path / "tokenizer")
    return tmp_path


def run(folder: Path, program: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


TOLD = """
steps = [len(batches) for batches in train_dataloader]
print(max(steps), len(train_dataset), sorted(time_step_batches[0]))
reads = tokenizer.convert_tokens_to_ids([f"[MEM_READ_{n}]" for n in range(16)])
print(all(set(reads) <= set(feature["input_ids"].tolist()) for feature in train_dataset))
print(total_features, sum(map(len, your_custom_cache_manager.chunks.values())), len(dataset))
"""


def test_every_block_of_the_workflow_runs_as_written(folder) -> None:
    combined = block_with("range(2)")
    first = block_with("Processed {total_features} features")
    second = block_with("# Create dataloader (features loaded on-demand)")
    manual = block_with("memxlnet.data.streaming")
    lines = run(folder, "\n".join([combined, first, second, KEEPER, manual, TOLD]))
    assert [line for line in lines if line.startswith("Step")] == [
        "Step 1: Processing dataset with streaming...",
        "Step 2: Creating lazy dataset...",
        "Step 3: Creating dataloader...",
        "Step 4: Training...",
    ]
    assert int(lines[-3].split()[0]) > 3
    assert "'document_mask'" in lines[-3]
    assert lines[-2] == "True"
    manual_features, kept, lazy = map(int, lines[-1].split())
    assert f"Processed {lazy} features" in lines
    assert manual_features == kept == lazy
    assert len(list((folder / ".cache").iterdir())) == 1
