"""Small runs of every kind for tests of reports, with documents that a careless page would obey."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import krill

HOSTILE = (
    "<script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\">"
    " </pre></main> {{ 7 * 7 }} &amp; \x1b[31m \x00 \u202eright to left\u202c \u05e9\u05dc\u05d5\u05dd"
)
SECRET = "nobody but the owner of this document may read it"


def sentence(number: int) -> str:
    return f"Document {number} is about swarm {number * 7919 % 1000}, which lives near {number % 60} south."


def write_documents(path: Path, texts: Sequence[str] = ()) -> Path:
    """These documents, or some of which one is too short, two are copies, one is hostile; most have the
    secret."""
    if not texts:
        texts = [f"{sentence(number)} {SECRET}. " * 3 for number in range(60)]
        texts = [*texts, "too short", texts[3], texts[5], HOSTILE * 3]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def make_dataset(
    folder: Path, name: str = "dataset", *, documents: Sequence[str] = (), **preprocess: Any
) -> Path:
    """What `krill preprocess` makes of these documents."""
    folder.mkdir(parents=True, exist_ok=True)
    source = write_documents(folder / "documents.jsonl", documents)
    settings = {"sequence_len": 128, "min_length": 0, "min_chars": 50, "dedup": {"method": "exact"}}
    krill.preprocess(
        {
            "datasets": [{"path": str(source)}],
            "tokenizer": {"builtin": "bytes"},
            "preprocess": {"prepared_path": str(folder / name), **settings, **preprocess},
        },
        memory="400MB",
    )
    return folder / name


def make_tokenizer(folder: Path, name: str = "tokenizer", vocab_size: int = 400) -> Path:
    source = write_documents(folder / "for-tokenizer.jsonl")
    krill.tokenizer.train([source], vocab_size=vocab_size, memory="300MB", output=folder / name)
    return folder / name


def make_training(folder: Path, *, finished: bool = True, slower: float = 1.0) -> Path:
    """The files of a training as `krill train` writes them, without training one: that takes JAX."""
    folder.mkdir(parents=True)
    lines = []
    for step in range(10, 310, 10):
        loss = 5 * slower / (1 + step / 50) + 1
        lines.append(
            {"step": step, "kind": "train", "loss": loss, "grad_norm": 1 / step, "memory": 5 * 10**8}
        )
        lines[-1] |= {"learning_rate": 0.001 / step, "tokens_per_second": 900.0}
        if step % 100 == 0:
            lines.append({"step": step, "kind": "validation", "loss": loss + 0.1})
    (folder / "metrics.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines) + '{"step": 310, "ki'
    )
    described = {
        "format": 1,
        "command": "train",
        "krill": "0.1.0",
        "config": {"train": {"learning_rate": slower}},
    }
    budget = {"limit": 10**9, "predicted_peak": 6 * 10**8, "measured_peak": 55 * 10**7}
    manifest = described | {"budget": budget, "seconds": 12.5, "steps": 300, "parameters": 1_315_968}
    if finished:
        (folder / "krill-run.json").write_text(json.dumps(manifest))
    else:
        (folder / ".krill-begun.json").write_text(json.dumps(described))
    return folder


def change_manifest(folder: Path, **fields: Any) -> None:
    """Somebody has edited the run's file; None takes a field out."""
    path = folder / "krill-run.json"
    manifest = json.loads(path.read_text()) | fields
    path.write_text(json.dumps({name: value for name, value in manifest.items() if value is not None}))
