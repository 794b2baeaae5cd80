"""An installed Krill at work: a tokenizer, a dataset, its rows, from the standard library's own sources.

Run it with the Python of the environment that is to be tried: it uses nothing of this repository.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

CONFIG = """
memory: 400MB
datasets:
  - path: data/*.jsonl
tokenizer:
  path: tokenizer
preprocess:
  prepared_path: dataset
  sequence_len: 256
  filters: [gopher_repetition, c4]
  dedup: minhash
"""


def krill(*arguments: str) -> str:
    command = [sys.executable, "-m", "krill", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    print("krill", krill("--version").strip(), sys.version.split()[0], os.uname().machine)
    Path("data").mkdir()
    sources = [path for path in sorted(Path(os.__file__).parent.glob("*.py"))[:60] if path.stat().st_size]
    with open("data/sources.jsonl", "w", encoding="utf-8") as file:
        for path in [*sources, *sources[:5]]:
            file.write(json.dumps({"text": path.read_text(encoding="utf-8")}) + "\n")
    Path("config.yaml").write_text(CONFIG)
    training = ("--input", "data/sources.jsonl", "--vocab-size", "600", "--output", "tokenizer")
    krill("tokenizer", "train", *training, "--memory", "400MB", "--quiet")
    krill("preprocess", "config.yaml", "--quiet")
    krill("validate", "dataset", "--quiet")

    # Imported late: the commands are to work in processes of their own.
    from tokenizers import Tokenizer

    import krill as package

    text = "def main() -> None:\n    print('naïve', 1234567)\n"
    mine = package.tokenizer.load("tokenizer", memory="200MB", threads=1).encode_batch([text])
    theirs = Tokenizer.from_file("tokenizer/tokenizer.json").encode(text).ids
    assert list(mine[0]) == theirs, (list(mine[0]), theirs)
    manifest = json.loads(Path("dataset/krill-run.json").read_bytes())
    assert manifest["documents"]["dropped"]["duplicate"] > 0
    batches = list(package.load("dataset", memory="200MB").loader(batch_size=4, shuffle=True, seed=0))
    assert batches[0]["input_ids"].shape == (4, 256)
    kept = {name: manifest[name]["kept"] for name in ("documents", "tokens")}
    # The same on every machine; how the text of the standard library differs by version is another matter.
    files = sorted(Path("dataset").glob("data-*.arrow"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]
    print(f"{kept['documents']} documents, {kept['tokens']} tokens, {len(batches)} batches, sha256 {digest}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        main()
