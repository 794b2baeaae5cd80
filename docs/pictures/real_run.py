"""The run that the pictures are of: sources of Python's library and of the installed packages, in 256 MB.

In: a folder to work in. Out: a config, a tokenizer, a dataset, a report, and what was printed on a terminal;
the facts that diagrams are drawn from are kept as `run.json` beside this file. All paths are relative: no
picture names the machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import terminal

FACTS = Path(__file__).with_name("run.json")
KRILL = Path(sys.executable).with_name("krill")
CONFIG = """\
memory: 256MB
datasets:
  - path: library.jsonl
  - path: packages.jsonl
tokenizer:
  path: tokenizer
preprocess:
  prepared_path: dataset
  sequence_len: 2048
  dedup: minhash
  filters:
    - language: {allow: [en]}
    - gopher_repetition: {top_n_grams: [], dup_n_grams: []}
"""
_TEXTS = frozenset({".md", ".py", ".pyi", ".rst", ".txt"})


def make(folder: Path) -> str:
    """All of it; returns what `krill preprocess` wrote to its terminal."""
    library, packages = (Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib"))
    write_sources(folder / "library.jsonl", library)
    write_sources(folder / "packages.jsonl", packages)
    (folder / "config.yaml").write_text(CONFIG)
    train = ["tokenizer", "train", "--input", "library.jsonl", "--vocab-size", "16000"]
    krill(folder, *train, "--output", "tokenizer", "--memory", "256MB", "--quiet")
    printed = terminal.run([str(KRILL), "preprocess", "config.yaml"], folder)
    krill(folder, "report", "dataset")
    FACTS.write_text(json.dumps(facts(folder / "dataset"), indent=1) + "\n")
    return printed


def write_sources(file: Path, folder: Path) -> None:
    """The text files below a folder as JSON lines; what is installed beside a library is not its own."""
    with file.open("w", encoding="utf-8") as lines:
        for path in text_files(folder):
            text = path.read_text(encoding="utf-8", errors="replace")
            lines.write(json.dumps({"file": str(path.relative_to(folder)), "text": text}) + "\n")


def text_files(folder: Path) -> Iterator[Path]:
    """By path, folder after folder."""
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            if path.name not in ("site-packages", "dist-packages"):
                yield from text_files(path)
        elif path.suffix in _TEXTS:
            yield path


def krill(folder: Path, *arguments: str) -> str:
    """What a command printed."""
    return subprocess.run([KRILL, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def facts(dataset: Path) -> dict[str, Any]:
    """The plan, the peak, and how the dataset lies on disk."""
    from krill import load

    manifest = json.loads((dataset / "krill-run.json").read_text())
    shard, rows = manifest["dataset"]["shards"][0], manifest["dataset"]
    opened, number = load(dataset), rows["rows"] // 2
    # A row of the middle in which several documents can be told apart.
    while not 3 <= len(opened[number]["seq_lengths"]) <= 5:
        number += 1
    lengths = [int(length) for length in opened[number]["seq_lengths"]]
    budget = {key: manifest["budget"][key] for key in ("limit", "base", "predicted_peak", "measured_peak")}
    return {
        "budget": {**budget, "shares": manifest["budget"]["shares"]},
        "files": {path.name: path.stat().st_size for path in sorted(dataset.iterdir())},
        "sequence_len": rows["sequence_len"],
        "token_dtype": rows["token_dtype"],
        "rows_per_batch": rows["rows_per_batch"],
        "shard": {"file": shard["file"], "rows": shard["rows"], "batches": len(shard["batches"])},
        "row": {"number": number, "seq_lengths": lengths},
    }
