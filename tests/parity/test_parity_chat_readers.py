"""axolotl's and LLaMA-Factory's own code reads Krill's folder as tokenised data, row for row.

Both pin other versions of torch and transformers than the tests have, so they are not installed with them:
`pip install --no-deps axolotl llamafactory peft addict posthog distro numba llvmlite omegaconf
antlr4-python3-runtime==4.9.3` brings what their readers import. LLaMA-Factory imports torchaudio, of which
there is no build for this torch: where it is missing, an empty module stands in, as no audio is read.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import datasets
import pytest

import krill
from chat_jobs import conversations, json_rows
from chat_models import TRL_TEMPLATES, make_model

TEMPLATE = next(path for path in TRL_TEMPLATES if path.stem == "qwen2_5_training").read_text()
COLUMNS = ("input_ids", "labels", "attention_mask")
AXOLOTL = """
from axolotl.utils.data.shared import load_dataset_with_config
from axolotl.utils.data.wrappers import get_dataset_wrapper
from axolotl.utils.dict import DictDefault

def read(folder, split):
    config = DictDefault({"path": folder, "type": None})
    rows = load_dataset_with_config(config, False)[split]
    return get_dataset_wrapper(config, None, DictDefault({}), None, rows)[0]
"""
LLAMA_FACTORY = """
from llamafactory.data.loader import get_dataset
from llamafactory.hparams import DataArguments

def read(folder, split):
    found = get_dataset(None, None, DataArguments(tokenized_path=folder), None, "sft", None)
    return found[{"train": "train_dataset", "validation": "eval_dataset"}[split]]
"""
MAIN = """
import json, sys
_, folder, output, *columns = sys.argv
splits = {split: read(folder, split) for split in ("train", "validation")}
with open(output, "w") as file:
    json.dump({split: [list(rows[name]) for name in columns] for split, rows in splits.items()}, file)
"""


@pytest.mark.parametrize(("package", "reader"), [("axolotl", AXOLOTL), ("llamafactory", LLAMA_FACTORY)])
def test_the_reader_of_another_trainer_gives_the_same_rows(package: str, reader: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    make_model(tmp_path / "model", TEMPLATE)
    (tmp_path / "chats.jsonl").write_bytes(json_rows(conversations(40, seed=3)))
    preprocess = {"sequence_len": 4096, "packing": "none", "split": {"validation": 0.2}}
    krill.preprocess(
        {
            "datasets": [{"path": str(tmp_path / "chats.jsonl"), "type": "chat_template"}],
            "tokenizer": {"path": str(tmp_path / "model")},
            "preprocess": {"prepared_path": str(tmp_path / "sft"), **preprocess},
        },
        memory="500MB",
    )
    stand_in = tmp_path / "modules"
    stand_in.mkdir()
    if importlib.util.find_spec("torchaudio") is None:
        (stand_in / "torchaudio.py").touch()
    script, output = tmp_path / "read.py", tmp_path / "rows.json"
    script.write_text(reader + MAIN)
    path = os.pathsep.join([str(stand_in), os.environ.get("PYTHONPATH", "")])
    offline = {"HF_HUB_OFFLINE": "1", "AXOLOTL_DO_NOT_TRACK": "1", "DISABLE_VERSION_CHECK": "1"}
    subprocess.run(
        [sys.executable, script, tmp_path / "sft", output, *COLUMNS],
        env={**os.environ, **offline, "PYTHONPATH": path},
        check=True,
    )
    found = json.loads(output.read_text())
    expected = datasets.load_from_disk(str(tmp_path / "sft"))
    for split in ("train", "validation"):
        rows = expected[split]
        assert len(rows) > 0
        assert found[split] == [list(rows[name]) for name in COLUMNS]
