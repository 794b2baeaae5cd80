"""Read JSON lines, clean, drop exact duplicates, write Parquet: one core, no tokenizer.

Ours: `krill preprocess` with `output: text`, `--threads 1 --memory 256MB`. The peer does the same with
Hugging Face `datasets` in one process, as the seed's pipeline did: `load_dataset`, `map`, `filter`, a set of
texts, `to_parquet`. Both start from nothing, imports and all, on one core.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import yaml

from measured import Outcome, run_measured
from real_text import grow_jsonl
from results import again, figures

SIZE = int(os.environ.get("BENCH_MB", "500")) * 10**6

_PEER = """
import sys, datasets
source, folder = sys.argv[1:]
datasets.config.HF_DATASETS_CACHE = folder
data = datasets.load_dataset("json", data_files=source, split="train", cache_dir=folder)

def clean(row):
    text = row["text"]
    if not isinstance(text, str):
        text = ""
    return {"text": text.encode("utf-8", "ignore").decode("utf-8", "ignore").strip()}

seen = set()

def first_time(row):
    if row["text"] in seen:
        return False
    seen.add(row["text"])
    return True

data = data.map(clean).filter(lambda row: len(row["text"]) >= 100).filter(first_time)
data.select_columns(["text"]).to_parquet(folder + "/out.parquet")
print(len(data))
"""


def one_core(command: list[str | Path]) -> Outcome:
    """Run on the first core alone, threads of libraries included."""
    return run_measured(["/usr/bin/env", "taskset", "-c", "0", *command])


def main() -> None:
    """Both, one after the other, on the same file; ratios below."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        corpus = grow_jsonl(folder / "corpus.jsonl", SIZE)
        config = {
            "datasets": [{"path": str(corpus)}],
            "preprocess": {"prepared_path": str(folder / "ours"), "output": "text"},
        }
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        krill = Path(sys.executable).with_name("krill")
        arguments = ["--memory", "256MB", "--threads", "1", "--json"]
        ours = one_core([krill, "preprocess", folder / "config.yaml", *arguments])
        assert ours.code == 0, ours.err
        (folder / "cache").mkdir()
        peer = one_core([sys.executable, "-c", _PEER, corpus, folder / "cache"])
        assert peer.code == 0, peer.err
        kept = ours.result["documents"]["kept"]
        assert int(peer.out.split()[-1]) == kept, "both must keep the same documents"
        size = corpus.stat().st_size / 1e6
        print(f"{size:.0f} MB of JSON lines, {kept:,} documents kept, one core")
        results = again("clean_text", "datasets", "pyarrow")
        for program, outcome in (("Krill", ours), ("Hugging Face datasets", peer)):
            results.add(program=program, rate=size / outcome.seconds, **figures(outcome, beside=ours))
        results.save()


if __name__ == "__main__":
    main()
