"""The predicted peak of a run beside the measured one, over formats, sizes, threads and settings.

The plan refuses budgets by what it predicts, so a prediction that is far too high refuses people who would
fit, and one that is too low is a broken promise. Each row is a command in a process of its own, with all
libraries in the page cache (`read_libraries`), where a process holds most. Every row has to be within
`BOUNDS`; the last line says how many are not, and the exit code is then 1.

A prediction is of the most that a run may hold: all threads with their largest blocks at one moment. On a
machine that does other work they may not meet, so a command that stayed below the bounds is run again, up to
`TURNS` times, and its highest peak counts. One that is over is never run again.

    python benchmarks/predictions.py [preprocess] [tokenizer] [--largest 300] [--only "txt, 50 MB"]
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from measured import read_libraries, run_measured
from real_text import grow_jsonl, grow_text, installed_texts

MB = 10**6
BOUNDS = (0.88, 1.0)
TURNS = 5
LONG = " with a document of "
FORMATS = ("jsonl", "txt", "json", "csv", "parquet", "arrow", "jsonl.gz", "jsonl.zst")
FILTERS = [
    {"language": {"allow": ["en", "de", "fr", "es", "ja", "zh", "ko", "pt", "ru"], "min_score": 0.0}},
    "gopher_repetition",
    "gopher_quality",
    "fineweb",
]
SETTINGS: dict[str, dict[str, Any]] = {
    "tokens": {},
    "text": {"output": "text"},
    "both": {"output": "both"},
    "not deduplicated, bfd": {"dedup": "none", "packing": "bfd"},
    "MinHash, filters": {"dedup": "minhash", "filters": FILTERS},
    "rows of 8,192, shuffled": {"sequence_len": 8192, "shuffle": True},
}
LONG_SETTINGS: dict[str, dict[str, Any]] = {
    "tokens": {},
    "both": {"output": "both"},
    "language": {"filters": FILTERS[:1]},
    "MinHash, language, repetition": {"dedup": "minhash", "filters": FILTERS[:2]},
}
LONG_DOCUMENTS = (4, 8, 20)
# Not CSV, where a row may be twice as long as a document.
LONG_FORMATS = ("txt", "json", "parquet", "arrow", "jsonl.gz", "jsonl.zst")
VOCABULARIES = (1_000, 32_000)


@dataclass(frozen=True)
class Cell:
    """One run: `key` names the corpus."""

    command: str
    format: str
    size: int
    threads: int
    setting: str
    memory: str = "1GB"
    config: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        what = f"{self.format}, {self.size} MB, {self.setting}"
        return f"{self.command}: {what}, threads {self.threads}, {self.memory}"


def preprocess_cells(largest: int) -> Iterator[Cell]:
    """All formats with the default settings, all settings with JSON lines, a long document among others."""
    sizes = [size for size in (1, 7, 50, 300) if size <= largest]
    for format, size, threads in product(FORMATS, sizes, (1, 2)):
        yield Cell("preprocess", format, size, threads, "tokens")
    for (name, setting), size, threads in product(SETTINGS.items(), sizes, (1, 2, 4)):
        if name != "tokens" or threads == 4:
            yield Cell("preprocess", "jsonl", size, threads, name, config=setting)
    for memory in ("200MB", "256MB", "512MB"):
        yield Cell("preprocess", "jsonl", sizes[-1], 2, "both", memory, SETTINGS["both"])
    size = min(50, sizes[-1])
    for long, (name, setting), threads in product(LONG_DOCUMENTS, LONG_SETTINGS.items(), (1, 2)):
        yield Cell("preprocess", f"jsonl{LONG}{long} MB", size, threads, name, config=setting)
    for format, threads in product(LONG_FORMATS, (1, 2)):
        yield Cell("preprocess", f"{format}{LONG}{LONG_DOCUMENTS[-1]} MB", size, threads, "tokens")


def tokenizer_cells(largest: int) -> Iterator[Cell]:
    """Text whose words grow as those of real text do."""
    sizes = [size for size in (1, 7, 50, 300) if size <= largest]
    for size, threads, vocabulary in product(sizes, (1, 2), VOCABULARIES):
        yield Cell("tokenizer train", "txt", size, threads, f"vocabulary {vocabulary:,}")


def measure(cell: Cell, folder: Path) -> float:
    """Measured over predicted, in the turn that held most."""
    output = folder / "out"
    corpus = corpus_of(cell, folder)
    options = ["--memory", cell.memory, "--threads", str(cell.threads), "--json", "--overwrite"]
    krill = Path(sys.executable).with_name("krill")
    if cell.command == "preprocess":
        config = {
            "datasets": [{"path": str(corpus)}],
            "tokenizer": {"builtin": "bytes"},
            "preprocess": {"prepared_path": str(output), **cell.config},
        }
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        command = [krill, "preprocess", folder / "config.yaml", *options]
    else:
        vocabulary = cell.setting.split()[-1].replace(",", "")
        named = ["--input", corpus, "--output", folder / "tokenizer", "--vocab-size", vocabulary]
        command = [krill, "tokenizer", "train", *named, *options]
    turns: list[tuple[float, int, int]] = []
    while len(turns) < TURNS and (not turns or turns[-1][0] < BOUNDS[0]):
        outcome = run_measured(command)
        assert outcome.code == 0, f"{cell}: {outcome.err}"
        predicted = outcome.result["budget"]["predicted_peak"]
        turns.append((outcome.peak / predicted, outcome.peak, predicted))
    ratio, peak, predicted = max(turns)
    mark = "" if BOUNDS[0] <= ratio <= BOUNDS[1] else "  <-- outside"
    again = "" if len(turns) == 1 else f", the highest of {len(turns)} turns"
    print(f"{ratio:.3f}  {peak / MB:5.0f} of {predicted / MB:5.0f} MB  {cell}{again}{mark}", flush=True)
    return ratio


def corpus_of(cell: Cell, folder: Path) -> Path:
    """The corpus of a cell, made once."""
    kind = "txt-words" if cell.command != "preprocess" else cell.format
    kind, _, long = kind.partition(LONG)
    path = folder / f"{cell.size}{'-' if long else ''}{long}.{kind}"
    if path.exists():
        return path
    if long and kind == "jsonl":
        return with_long_document(path, kind, int(long.split()[0]) * MB, cell.size)
    if kind == "txt-words":
        return grow_text(path, cell.size * MB)
    if kind == "jsonl":
        return grow_jsonl(path, cell.size * MB)
    lines = corpus_of(Cell("preprocess", f"jsonl{LONG}{long}" if long else "jsonl", cell.size, 1, ""), folder)
    write(lines, path, kind)
    return path


def with_long_document(path: Path, kind: str, wanted: int, size: int) -> Path:
    """JSON lines with a document of real sources in their middle that is as long as `wanted`."""
    usual = corpus_of(Cell("preprocess", kind, size, 1, ""), path.parent)
    lines, document = usual.read_bytes().splitlines(keepends=True), bytearray()
    for text in installed_texts():
        document += text.encode()
        if len(document) >= wanted:
            break
    text = document[:wanted].decode(errors="ignore")
    document = json.dumps({"text": text}).encode() + b"\n"
    path.write_bytes(b"".join([*lines[: len(lines) // 2], document, *lines[len(lines) // 2 :]]))
    return path


def write(lines: Path, path: Path, kind: str) -> None:
    """The documents of JSON lines in another format."""
    if kind.startswith("jsonl."):
        tool = {"gz": ["gzip", "-1", "-c"], "zst": ["zstd", "-q", "-c"]}[kind.removeprefix("jsonl.")]
        with path.open("wb") as file:
            subprocess.run([*tool, str(lines)], stdout=file, check=True)
        return
    with lines.open(encoding="utf-8") as file:
        texts = [json.loads(line)["text"] for line in file]
    if kind == "txt":
        path.write_text("\n\n".join(text.replace("\n\n", "\n") for text in texts))
    elif kind == "json":
        path.write_text(json.dumps([{"text": text} for text in texts]))
    elif kind == "csv":
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([["text"], *([text] for text in texts)])
    else:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.table({"text": texts})
        if kind == "parquet":
            pq.write_table(table, path, row_group_size=20_000)
        else:
            with pa.ipc.new_file(path, table.schema) as writer:
                writer.write_table(table, max_chunksize=2_000)


def main() -> int:
    """The grids that were named, or both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("grids", nargs="*", default=["preprocess", "tokenizer"])
    parser.add_argument("--largest", type=int, default=300, help="megabytes of text, at the most")
    parser.add_argument("--only", default="", help="those whose name has this in it")
    options = parser.parse_args()
    cells = {"preprocess": preprocess_cells, "tokenizer": tokenizer_cells}
    read_libraries()
    with tempfile.TemporaryDirectory() as name:
        ratios = [
            measure(cell, Path(name))
            for grid in options.grids
            for cell in cells[grid](options.largest)
            if options.only in str(cell)
        ]
    outside = sum(not BOUNDS[0] <= ratio <= BOUNDS[1] for ratio in ratios)
    print(f"{len(ratios)} runs from {min(ratios):.3f} to {max(ratios):.3f}, {outside} outside of {BOUNDS}")
    return int(outside > 0)


if __name__ == "__main__":
    sys.exit(main())
