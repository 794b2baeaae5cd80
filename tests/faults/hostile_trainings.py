"""Hostile settings, data and output folders: for `krill train`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hostile import OUTPUT, Case, save, settings
from hostile_models import MEMORY, REFUSED, command, save_model
from hostile_text import WHOLE


def cases() -> Iterator[Case]:
    yield from _train_settings()
    yield from _train_data()
    yield from _train_outputs()


def _train_settings() -> Iterator[Case]:
    """No dataset is there: what is wrong is told before it is looked for, or after."""
    values = {"zero": 0, "negative": -3, "nan": float("nan"), "infinite": float("inf"), "text": "many"}
    keys = (
        "width",
        "layers",
        "heads",
        "batch_size",
        "learning_rate",
        "max_steps",
        "save_every",
        "target_params",
    )
    settings_of = {f"{key}-{name}": {key: value} for key in keys for name, value in values.items()}
    settings_of |= {
        "width-2-to-40": {"width": 2**40, "layers": 1},
        "layers-2-to-40": {"width": 16, "layers": 2**40},
        "parameters-10-to-18": {"target_params": 10**18},
        "heads-that-do-not-divide": {"width": 16, "layers": 1, "heads": 5},
        "batch-2-to-50": {"width": 16, "layers": 1, "batch_size": 2**50},
        "output-empty": {"output_dir": ""},
        "output-of-nul": {"output_dir": "a\0b"},
        "output-is-the-dataset": {"output_dir": "dataset"},
        "output-is-here": {"output_dir": "."},
        "optimizer-unknown": {"optimizer": "\x1b[31m"},
        "unknown-key": {"\u202ehtdiw": 5},
    }
    for name, train in settings_of.items():

        def make(folder: Path, train: dict[str, Any] = train) -> None:
            config = settings(prepared_path="dataset")
            save(folder, {**config, "train": {"output_dir": OUTPUT, **train}})

        said = command("train", "config.yaml")
        yield Case(f"train-setting-{name}", make, said, REFUSED, memory=MEMORY)


def _train_data() -> Iterator[Case]:
    flags = {
        "absent": ["--dataset-id", "absent.jsonl"],
        "empty": ["--dataset-id", "empty.jsonl"],
        "not-json": ["--dataset-id", "noise.jsonl"],
        "tokenizer-absent": ["--dataset-id", "input.jsonl", "--tokenizer", "absent"],
        "tokenizer-noise": ["--dataset-id", "input.jsonl", "--tokenizer", "noise.jsonl"],
        "column-absent": ["--dataset-id", "input.jsonl", "--text-column", "\x1b[31m"],
        "row-zero": ["--dataset-id", "input.jsonl", "--seq-len", "0"],
        "row-2-to-40": [
            "--dataset-id",
            "input.jsonl",
            "--seq-len",
            str(2**40),
            "--width",
            "16",
            "--layers",
            "1",
        ],
        "stride-negative": ["--dataset-id", "input.jsonl", "--stride", "-1"],
        "epochs-zero": ["--dataset-id", "input.jsonl", "--epochs", "0"],
        "accumulate-zero": ["--dataset-id", "input.jsonl", "--gradient-accumulation-steps", "0"],
        "buffer-zero": ["--dataset-id", "input.jsonl", "--shuffle-buffer-size", "0"],
        "vocabulary-zero": ["--dataset-id", "input.jsonl", "--vocab-size", "0"],
        "rate-nan": ["--dataset-id", "input.jsonl", "--learning-rate", "nan"],
        "dataset-empty-name": ["--dataset-id", ""],
        "nothing": [],
        "seed-huge": ["--dataset-id", "input.jsonl", "--seed", str(2**70)],
    }
    for name, given in flags.items():
        said = command("train", "--output-dir", OUTPUT, *given)
        yield Case(f"train-flags-{name}", _train_inputs, said, REFUSED, memory=MEMORY)
    for memory in ("1B", "1MB", "100MB"):
        said = command("train", "--output-dir", OUTPUT, "--dataset-id", "input.jsonl", memory=memory)
        # Where JAX is loaded already, as in a warm process, it is refused later: for its data.
        yield Case(f"train-budget-{memory}", _train_inputs, said, frozenset({2, 4}), fresh=True)


def _train_inputs(folder: Path) -> None:
    (folder / "input.jsonl").write_bytes(WHOLE)
    (folder / "empty.jsonl").touch()
    (folder / "noise.jsonl").write_bytes(b"{{{\n" * 50)


def _train_outputs() -> Iterator[Case]:
    places: dict[str, Callable[[Path], object]] = {
        "a-file": lambda path: path.write_text("mine"),
        "a-fifo": os.mkfifo,
        "a-link-to-itself": lambda path: path.symlink_to(path.name),
        "a-full-folder": lambda path: (path.mkdir(), (path / "thesis.txt").write_text("mine")),
        "a-model-of-another": save_model,
        "checkpoints-of-noise": lambda path: (
            (path / "checkpoints" / "00000002").mkdir(parents=True),
            (path / "checkpoints" / "00000002" / "checkpoint.json").write_bytes(b"{{{"),
        ),
    }
    for name, place in places.items():

        def make(folder: Path, place: Callable[[Path], object] = place) -> None:
            _train_inputs(folder)
            place(folder / OUTPUT)

        for flags in ([], ["--overwrite"]):
            said = command("train", "--output-dir", OUTPUT, "--dataset-id", "empty.jsonl", *flags)
            which = f"{name}{'-overwritten' if flags else ''}"
            yield Case(f"train-output-dir-{which}", make, said, REFUSED, memory=MEMORY)
    yield Case(
        "train-damaged-dataset",
        _damaged,
        command("train", "config.yaml"),
        REFUSED,
        memory=MEMORY,
    )


def _damaged(folder: Path) -> None:
    """A manifest and no shards."""
    (folder / "dataset").mkdir()
    (folder / "dataset" / "krill-run.json").write_text('{"format": 1, "command": "preprocess", "splits": {}}')
    save(
        folder,
        {**settings(prepared_path="dataset"), "train": {"output_dir": OUTPUT, "width": 16, "layers": 1}},
    )
