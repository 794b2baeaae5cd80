"""A tiny training: real text of a few documents in short rows, and a model of a few thousand weights."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import krill
from jobs import json_lines
from krill.budget import parse_size
from measured import Outcome
from real_text import real_texts

TINY_MODEL = {"width": 16, "layers": 1, "batch_size": 2, "learning_rate": 0.01}
# Figures of metrics that are about the machine and not about the model.
MEASURED = ("tokens_per_second", "memory")


def tiny_config(folder: Path, **train: Any) -> dict[str, Any]:
    """Everything inside `folder`, in absolute paths."""
    return {
        "memory": "1GB",
        "threads": 1,
        "datasets": [{"path": str(folder / "input.jsonl")}],
        "tokenizer": {"builtin": "bytes"},
        "preprocess": {
            "prepared_path": str(folder / "dataset"),
            "sequence_len": 32,
            "split": {"validation": 0.2},
        },
        "train": {"output_dir": str(folder / "model"), **TINY_MODEL, **train},
    }


def write_text(folder: Path, documents: int = 8, characters: int = 700) -> None:
    """Some documents of the config."""
    texts = (text[:characters] for text in islice(real_texts(), documents))
    (folder / "input.jsonl").write_bytes(json_lines(texts))


def prepare(folder: Path) -> dict[str, Any]:
    """The dataset of the config, which is returned."""
    write_text(folder)
    config = tiny_config(folder)
    krill.preprocess(config, memory="256MB")
    return config


def assert_hints_do(run: Callable[[str], Outcome], memory: str, output: Path) -> None:
    """A budget is refused with a larger one, that one perhaps too, then one does; nothing is begun before."""
    given = [parse_size(memory)]
    while (outcome := run(str(given[-1]))).code:
        assert outcome.code == 4, outcome.err
        assert "the budget is too small" in outcome.err
        assert not output.exists()
        (hinted,) = re.findall(r"--memory (\d+)MB", outcome.err)
        given.append(int(hinted) * 10**6)
        assert given[-1] > given[-2]
        assert len(given) <= 3, outcome.err
    assert len(given) > 1
    assert outcome.peak <= given[-1]
