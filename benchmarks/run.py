"""`make bench`: every benchmark in this folder, one after the other. Nothing else should run meanwhile."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHMARKS = (
    "clean_text",
    "preprocess_bytes",
    "predictions",
    "preprocess",
    "seed_scale",
    "quality_filters",
    "language",
    "fasttext_scores",
    "minhash",
    "train_tokenizer",
    "encode",
    "export",
    "loading",
    "shuffle_quality",
    "loading_torch",
    "streaming",
    "chat",
    "web",
    "qa",
    "qa_train",
    "datatrove_steps",
    "engine_ray",
    "train",
    "train_memory",
    "train_quality",
    "loss_memory",
    "optimizer8bit",
)


def main() -> int:
    """Run all, or those named; stops at the first that fails."""
    here = Path(__file__).parent
    for name in sys.argv[1:] or BENCHMARKS:
        print(f"\n== {name}", flush=True)
        code = subprocess.call([sys.executable, str(here / f"{name}.py")])
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
