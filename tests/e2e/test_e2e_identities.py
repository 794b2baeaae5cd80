"""The identity of a fixed run of every kind, pinned: with another one, finished outputs would be refused.

The golden outputs pin those of many configs; here is one of each command, at a version that never changes.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from golden_inputs import write_inputs

import krill
from krill.config import load_config


@pytest.fixture(autouse=True)
def fixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths as a config names them are a part of the identity, and so is the version."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(krill, "__version__", "0.0.0")


def identity_of(output: str) -> str:
    return str(json.loads(Path(output, "krill-run.json").read_bytes())["identity"])[:16]


def test_the_identities_of_a_tokenizer_a_dataset_an_export_and_packed_files() -> None:
    write_inputs(Path())
    krill.tokenizer.train("first.jsonl", vocab_size=400, output="tokenizer")
    preprocess = {"prepared_path": "dataset", "sequence_len": 64, "min_chars": 0, "min_length": 0}
    config: dict[str, Any] = {
        "datasets": [{"path": "first.jsonl"}],
        "tokenizer": {"path": "tokenizer"},
        "preprocess": preprocess,
    }
    krill.preprocess(config)
    krill.export("dataset", to="datatrove", output="ds")
    from krill.datatrove.pack import PackDataset

    step = PackDataset("ds", "packed", "tokenizer", sequence_len=64)
    step.input_folder.path = "ds"  # datatrove makes it absolute
    step.run()
    assert {name: identity_of(name) for name in ("tokenizer", "dataset", "ds", "packed")} == {
        "tokenizer": "9d0e305749a61aae",
        "dataset": "92b0ab73190e006c",
        "ds": "634261d4a87cd660",
        "packed": "18d82c75520ce844",
    }


def test_the_identity_of_features() -> None:
    write_inputs(Path())
    krill.qa.prepare("squad.json", "pieces", output="features", shape=krill.qa.Shape(48, 12))
    assert identity_of("features") == "5472d40c4f740f78"


def test_the_identity_of_a_training() -> None:
    from krill.training.job import describe_run

    data: Any = SimpleNamespace(identity=lambda: {"rows": "00ff", "tokenizer": "aa11"})
    config = load_config({"seed": 5, "train": {"epochs": 2, "batch_size": 4, "log_every": 3}}, environ={})
    assert describe_run(config, data)["identity"][:16] == "6a5ddd188fea31e7"


def test_the_identity_of_the_training_of_a_reader() -> None:
    from krill.training.job import describe_reader_run
    from krill.training.qa.settings import ReaderSettings

    run = describe_reader_run(
        {"features": "00ff", "tokenizer": "aa11"}, ReaderSettings(hidden=64, save_every=7)
    )
    assert run["identity"][:16] == "c4861bd1e1453c76"
