"""Golden outputs: commands on made input, and digests of every file that they write.

`golden.json` has what the commands of 0.1 wrote. Arrow shards and all other files are compared byte for byte;
Parquet decoded, as its bytes are Arrow's own. Of a manifest: its identity, and what readers read of it.

    python tests/e2e/golden_cases.py        writes golden.json anew, if bytes are meant to change
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

STORED = Path(__file__).with_name("golden.json")
SMALL = {
    "unit_bytes": "64KB",
    "max_document_bytes": "8KB",
    "shard_size": "100KB",
    "sequence_len": 256,
    "min_chars": 30,
    "min_length": 20,
}
TRAINED = {"tokenizer": {"path": "tokenizers/gpt2"}}
PIECES = {"tokenizer": {"path": "pieces"}}
QUALITY = ["gopher_repetition", {"gopher_quality": {"min_doc_words": 10}}, "c4", "fineweb"]
MIXED = [{"path": "first.jsonl", "weight": 2}, {"path": "second.jsonl", "weight": 1, "max_tokens": 20000}]

# Name, then what differs from `SMALL` and from the rest of the config.
DATASETS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "exact, wrapped": ({}, {}),
    "minhash, bfd, both": ({"dedup": "minhash", "packing": "bfd", "output": "both"}, {}),
    "no dedup, no packing": ({"dedup": "none", "packing": "none"}, {}),
    "bloom, shuffled": ({"dedup": {"method": "bloom", "expected_documents": 2000}, "shuffle": True}, {}),
    "paragraphs": ({"dedup": {"method": "exact", "level": "paragraph"}, "output": "both"}, {}),
    "lines": ({"dedup": {"method": "exact", "level": "line"}}, {}),
    "clusters": (
        {"dedup": {"method": "minhash", "verify": 0.7, "clusters": True, "threshold": 0.8}, "output": "text"},
        {},
    ),
    "against": ({"dedup": {"method": "exact", "against": ["second.jsonl"]}}, {}),
    "filters": ({"filters": QUALITY, "statistics": True, "rejected": True, "output": "both"}, {}),
    "filters alone": ({"filters": ["web-any"], "dedup": "none"}, {}),
    "repeated lines": ({"filters": ["repeated_lines", "repeated_paragraphs"]}, {}),
    "validation": ({"split": {"validation": 0.2}, "packing": "bfd", "output": "both"}, {}),
    "mixture": ({"split": {"validation": 0.1}, "shuffle": True}, {"datasets": MIXED}),
    "trained tokenizer": ({"packing": "bfd", "max_length": 900}, TRAINED),
    "trained, many rows": ({"sequence_len": 32, "token_dtype": "int32"}, TRAINED),
    "word pieces": ({"min_length": 5}, PIECES),
    "oversize": ({"max_document_bytes": "1KB", "oversize": "drop", "max_words": 120}, {}),
    "split documents": ({"max_document_bytes": "1KB", "output": "both"}, {}),
    "malformed": ({"on_error": "skip"}, {"datasets": [{"path": "broken.jsonl"}]}),
    "json": ({}, {"datasets": [{"path": "first.json"}]}),
    "csv, columns": ({"output": "text"}, {"datasets": [{"path": "first.csv", "columns": ["id", "kind"]}]}),
    "gzip": ({}, {"datasets": [{"path": "first.jsonl.gz"}]}),
    "text": ({}, {"datasets": [{"path": "first.txt", "separator": "<|endoftext|>"}]}),
    "parquet, all columns": ({"output": "both"}, {"datasets": [{"path": "first.parquet", "columns": "*"}]}),
    "arrow": ({}, {"datasets": [{"path": "first.arrow"}]}),
    "slice": (
        {},
        {"datasets": [{"path": "first.jsonl", "split": "train[100:500]"}, {"path": "second.jsonl"}]},
    ),
}
TOKENIZERS: dict[str, list[str]] = {
    "gpt2": ["--vocab-size", "700"],
    "cl100k": ["--vocab-size", "500", "--pattern", "cl100k", "--tiktoken"],
    "o200k": ["--vocab-size", "500", "--pattern", "o200k", "--special-tokens", "<|a|>", "<|b|>"],
    "llama3": ["--vocab-size", "500", "--pattern", "llama3", "--tie-break", "greatest"],
    "qwen2": ["--vocab-size", "500", "--pattern", "qwen2", "--boundaries", "lines"],
    "limits": ["--vocab-size", "600", "--min-frequency", "20", "--max-token-length", "6", "--preset", "chat"],
    "alphabet": ["--vocab-size", "400", "--initial-alphabet", "seen", "--limit-alphabet", "60"],
}
EXPORTS: dict[str, list[str]] = {
    "parquet": ["--to", "parquet"],
    "megatron": ["--to", "megatron"],
    "bin": ["--to", "bin"],
    "datatrove": ["--to", "datatrove"],
    "jsonl": ["--to", "jsonl"],
    "jsonl of documents": ["--to", "jsonl", "--lines", "documents"],
    "jsonl of text": ["--to", "jsonl", "--text"],
    "jsonl of kept text": ["--to", "jsonl", "--what", "text"],
}
FEATURES: dict[str, list[str]] = {
    "pieces": ["--tokenizer", "pieces", "--max-seq-length", "64", "--doc-stride", "16"],
    "trained": ["--tokenizer", "tokenizers/gpt2", "--max-seq-length", "96", "--doc-stride", "30"],
    "few segments": [
        "--tokenizer",
        "pieces",
        "--max-seq-length",
        "48",
        "--doc-stride",
        "8",
        "--max-segments",
        "3",
    ],
}


def write_config(folder: Path, name: str, output: str) -> str:
    """The config of a dataset; its file's name."""
    preprocess, rest = DATASETS[name]
    config = {
        "memory": "256MB",
        "datasets": [{"path": "first.jsonl"}],
        "tokenizer": {"builtin": "bytes"},
        **rest,
        "preprocess": {"prepared_path": output, **SMALL, **preprocess},
    }
    file = f"{output.replace('/', '-')}.yaml"
    (folder / file).write_text(json.dumps(config))
    return file


def commands(kind: str, name: str) -> tuple[list[str], str]:
    """What makes an output, and where."""
    place = f"{kind}s/{name.replace(' ', '-').replace(',', '')}"
    match kind:
        case "tokenizer":
            return [
                "tokenizer",
                "train",
                "--input",
                "first.jsonl",
                *TOKENIZERS[name],
                "--output",
                place,
            ], place
        case "export":
            return ["export", "datasets/validation", *EXPORTS[name], "--output", place], place
        case _:
            return ["qa", "prepare", "squad.json", *FEATURES[name], "--output", place], place


def digests(folder: Path) -> dict[str, Any]:
    """Of everything in an output, and of its manifest what says what it is."""
    files = {
        str(path.relative_to(folder)): digest(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "krill-run.json"
    }
    manifest = json.loads((folder / "krill-run.json").read_bytes())
    keys = ("documents", "tokens", "distributions", "merges", "features")
    read = {key: manifest[key] for key in keys if key in manifest}
    return {"identity": manifest.get("identity"), "manifest": read, "files": files}


def digest(path: Path) -> str:
    if path.suffix == ".parquet":
        return hashlib.sha256(decoded(path)).hexdigest()[:32]
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:32]


def decoded(path: Path) -> bytes:
    """The columns of Parquet, their types and values."""
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    columns = [(field.name, str(field.type)) for field in table.schema]
    return json.dumps([columns, table.to_pylist()], ensure_ascii=False, sort_keys=True).encode()


def stored() -> dict[str, Any]:
    return dict(json.loads(STORED.read_text()))


def write_stored(folder: Path) -> Mapping[str, Any]:
    """Run everything here, and keep what it made."""
    import subprocess

    from golden_inputs import write_inputs

    def run(*arguments: str) -> None:
        krill = Path(sys.executable).with_name("krill")
        subprocess.run([krill, *arguments, "--quiet", "--threads", "2"], cwd=folder, check=True)

    write_inputs(folder)
    found: dict[str, Any] = {}
    for name in TOKENIZERS:
        command, place = commands("tokenizer", name)
        run(*command)
        found[f"tokenizer: {name}"] = digests(folder / place)
    for name in DATASETS:
        place = f"datasets/{name.replace(' ', '-').replace(',', '')}"
        run("preprocess", write_config(folder, name, place))
        found[f"dataset: {name}"] = digests(folder / place)
    for kind, table in (("export", EXPORTS), ("feature", FEATURES)):
        for name in table:
            command, place = commands(kind, name)
            run(*command)
            found[f"{kind}: {name}"] = digests(folder / place)
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        STORED.write_text(json.dumps(write_stored(Path(made)), indent=1, sort_keys=True) + "\n")
