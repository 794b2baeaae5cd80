"""Small runs of every kind for tests of reports, with documents that a careless page would obey."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

import krill
from chat_jobs import write_tokenizer
from krill_process import KrillProcess
from tiny_trainings import tiny_config, write_text

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


def make_hostile_runs(folder: Path) -> dict[str, Path]:
    """A chat run, a tokenizer and a run with a changed manifest, in which all that is not ours is hostile:
    names of files and columns, turns, tokens, keys and values of the config, reasons, stages."""
    from tokenizers import AddedToken, Tokenizer

    folder.mkdir()
    name = "<img src=x onerror=alert(1)>"
    chats = folder / f"{name}.jsonl"
    turns = [{"role": role, "content": HOSTILE.replace("\x00", "")} for role in ("user", "assistant")]
    chats.write_text(
        "".join(json.dumps({"messages": turns, "id": n, name: HOSTILE}) + "\n" for n in range(9))
    )
    write_tokenizer(folder / "model")
    krill.preprocess(
        {
            "datasets": [{"path": str(chats), "type": "chat_template"}],
            "tokenizer": {"path": str(folder / "model")},
            "chat_template": "chatml",
            "preprocess": {"prepared_path": str(folder / "chat"), "sequence_len": 1024, "min_length": 0},
        },
        memory="400MB",
    )
    tokenizer = make_tokenizer(folder) / "tokenizer.json"
    changed = Tokenizer.from_file(str(tokenizer))
    changed.add_special_tokens([AddedToken(text) for text in HOSTILE.split("\x00")])
    changed.save(str(tokenizer))
    lying = make_dataset(folder / "lying")
    read = {"read": 9, "kept": 5, "dropped": {HOSTILE: 3, "step:</style><script>alert(2)</script>": 1}}
    change_manifest(
        lying,
        documents={**read, "notes": {HOSTILE: 2}},
        krill=HOSTILE,
        config={HOSTILE: HOSTILE, "preprocess": {"min_chars": HOSTILE, "dedup": {"method": HOSTILE}}},
        inputs=[{"path": HOSTILE, "bytes": 3}],
        stages=[{"name": HOSTILE, "seconds": 1.0, "peak": 5}],
        timeline={"samples": [[0, 1, 2], [1, 2, 3]], "stages": [{"name": HOSTILE, "begun": 0, "ended": 1}]},
        distributions={"sources": [{"source": HOSTILE, "read": 5}], "languages": {HOSTILE: {"documents": 1}}},
    )
    return {"chat": folder / "chat", "tokenizer": tokenizer.parent, "lying": lying}


def make_tokenizer(folder: Path, name: str = "tokenizer", vocab_size: int = 400) -> Path:
    source = write_documents(folder / "for-tokenizer.jsonl")
    krill.tokenizer.train([source], vocab_size=vocab_size, memory="300MB", output=folder / name)
    return folder / name


def make_training(folder: Path, *, finished: bool = True, learning_rate: float = 0.01) -> Path:
    """What `krill train` leaves of a tiny model, or of one whose training was killed."""
    folder.mkdir(parents=True)
    write_text(folder)
    output = folder / folder.name
    train = {"max_steps": 30 if finished else 100_000, "log_every": 1, "evaluate_every": 10}
    config = tiny_config(folder, **train, learning_rate=learning_rate, output_dir=str(output))
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    krill.preprocess(config, memory="256MB")
    metrics = output / "metrics.jsonl"
    running = KrillProcess(folder, "train", "config.yaml", "--quiet")
    if finished:
        assert running.wait() == 0, running.output
        return output
    running.wait_until(lambda: metrics.exists() and metrics.read_bytes().count(b"\n") > 25)
    running.kill()
    return output


def change_manifest(folder: Path, **fields: Any) -> None:
    """Somebody has edited the run's file; None takes a field out."""
    path = folder / "krill-run.json"
    manifest = json.loads(path.read_text()) | fields
    gone = [name for name, value in fields.items() if value is None]
    path.write_text(json.dumps({name: value for name, value in manifest.items() if name not in gone}))
