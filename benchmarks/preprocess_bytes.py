"""The whole main job with the byte tokenizer: read, clean, deduplicate, encode, pack, on one and two threads.

There is no peer for this one; it shows what everything around the tokenizer costs, and how it grows with
threads and with input.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import yaml

from measured import run_measured
from real_text import grow_jsonl
from results import again, figures

SIZE = int(os.environ.get("BENCH_MB", "500")) * 10**6


def main() -> None:
    """Two sizes ten times apart, one and two threads."""
    krill = Path(sys.executable).with_name("krill")
    results = again("preprocess_bytes")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for size in (SIZE // 10, SIZE):
            corpus = grow_jsonl(folder / "corpus.jsonl", size)
            for threads in (1, 2):
                output = folder / f"{size}-{threads}"
                config = {
                    "datasets": [{"path": str(corpus)}],
                    "tokenizer": {"builtin": "bytes"},
                    "preprocess": {"prepared_path": str(output)},
                }
                (folder / "config.yaml").write_text(yaml.safe_dump(config))
                arguments = ["--memory", "256MB", "--threads", str(threads), "--json"]
                outcome = run_measured([krill, "preprocess", folder / "config.yaml", *arguments])
                assert outcome.code == 0, outcome.err
                predicted = outcome.result["budget"]["predicted_peak"]
                rate = size / outcome.seconds / 1e6
                measured = {"rate": rate, "predicted": predicted / 1e6, **figures(outcome)}
                results.add(megabytes=size // 10**6, threads=threads, **measured)
        results.save()


if __name__ == "__main__":
    main()
