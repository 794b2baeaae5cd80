"""COMPAT, as typed: the blocks of the guide to features and lazy loading, through its shim."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from questions import SQUAD, story_file, tokenizer_of

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


# What the combined workflow leaves behind, looked at: every document once an epoch, in a row that stays its
# own, memory tokens in place, answers that read as given.
LOOKED_AT = """
import json
epochs = []
for _ in range(2):
    rows, steps, read, spelt = [], 0, 0, 0
    for time_step_batches in train_dataloader:
        first = time_step_batches[0]
        steps = max(steps, len(time_step_batches))
        rows += first["example_ids"]
        for step, batch in enumerate(time_step_batches):
            assert batch["example_ids"] == first["example_ids"]
            assert tuple(batch["input_ids"].shape) == (len(first["example_ids"]), 384)
            for row, alive in enumerate(batch["document_mask"].tolist()):
                assert alive == (step < batch["total_segments"][row])
                if alive and batch["has_answer"][row]:
                    begin = batch["offset_mapping"][row][batch["start_positions"][row]][0]
                    end = batch["offset_mapping"][row][batch["end_positions"][row]][1]
                    read += 1
                    spelt += batch["context"][row][begin:end].strip() == batch["chosen_answer_text"][row]
    epochs.append(rows)
names = [f"[MEM_{kind}_{n}]" for kind in ("READ", "WRITE") for n in range(16)]
memory = set(tokenizer.convert_tokens_to_ids(names))
in_place = sum(memory <= set(feature["input_ids"].tolist()) for feature in train_dataset)
print(json.dumps({
    "documents": [len(epoch) for epoch in epochs],
    "all": all(sorted(epoch) == sorted(train_dataset.get_all_documents()) for epoch in epochs),
    "shuffled": epochs[0] != epochs[1] != train_dataset.get_all_documents(),
    "steps": steps,
    "features": len(train_dataset),
    "in_place": in_place,
    "read": read,
    "spelt": spelt,
}))
"""
STEPS = [
    "Step 1: Processing dataset with streaming...",
    "Step 2: Creating lazy dataset...",
    "Step 3: Creating dataloader...",
    "Step 4: Training...",
]


FEATURES = """
print(total_features, sum(map(len, your_custom_cache_manager.chunks.values())), len(dataset), len(dataloader))
print(sorted(dataset[0]) == sorted(your_custom_cache_manager.chunks[0][0]))
"""


def test_the_combined_workflow_runs_as_written_and_after_it_every_other_block(folder) -> None:
    others = [
        block_with("Processed {total_features} features"),
        block_with("# Create dataloader (features loaded on-demand)"),
        KEEPER,
        block_with("memxlnet.data.streaming"),
    ]
    program = "\n".join([block_with("range(2)"), LOOKED_AT, *others, FEATURES])
    *said, looked, processed, counts, same = run(folder, program)
    assert [line for line in said if line.startswith("Step")] == STEPS
    found = json.loads(looked)
    assert found["documents"] == [24, 24]
    assert found["all"]
    assert found["shuffled"]
    assert found["steps"] > 3
    assert found["in_place"] == found["features"]
    assert found["read"] == found["spelt"] > 16
    manual_features, kept, lazy, batches = map(int, counts.split())
    assert processed == f"Processed {lazy} features"
    assert manual_features == kept == lazy == found["features"]
    assert batches == 3
    assert same == "True"
    assert len(list((folder / ".cache").iterdir())) == 1


@pytest.mark.soak
def test_the_combined_workflow_runs_as_written_on_real_questions(folder) -> None:
    shutil.copy(SQUAD, folder / "squad.json")
    *said, looked = run(folder, block_with("range(2)") + LOOKED_AT)
    assert [line for line in said if line.startswith("Step")] == STEPS
    found = json.loads(looked)
    assert found["documents"] == [6078, 6078]
    assert found["all"]
    assert found["in_place"] == found["features"] > 6078
    assert 0.97 * found["read"] <= found["spelt"] <= found["read"]
