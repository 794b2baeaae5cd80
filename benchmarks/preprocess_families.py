"""`krill preprocess` with the tokenizers of many model families, beside itself with the library encoding.

In: tokenizers as `encode_families.py` takes them, and two more that are trained here: Unigram with the
form NFKC (that of SentencePiece's charsmap, where `sentencepiece` is installed) and Metaspace, WordPiece
with BERT's normalizer and pre-tokenizer. The text is that benchmark's, too, as JSON lines.

Each run is a process of its own with one thread, start-up included. Ours has `--memory 256MB`, and 300MB
where there are more than 200,000 tokens. The other is the same command, told that no tokenizer is native;
the library does not run within that, so it gets what it wants. Both must write the same rows. Times are
CPU time, of the user and of the system, which others on the same machine move less than the clock.

    python benchmarks/preprocess_families.py TOKENIZER... --mb 100
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from pathlib import Path

import yaml

from encode_families import LIBRARY_MB, MB, trained_by_library, unpacked, write_documents
from measured import Outcome, run_measured
from results import Results, again

SMALL, LARGE, LARGE_FROM, UNBOUNDED = "256MB", "300MB", 200_000, "4GB"
SHOWN = {"unigram": "Unigram", "wordpiece": "WordPiece"}
BY_LIBRARY = """
import sys
import krill.tokenizer.open as opening
from krill.tokenizer.tokenizer_json import NotNative

opening.native_spec = lambda file: NotNative("the benchmark says so")
opening.fallback_reason = lambda file: "the benchmark says so"
from krill.cli.app import main

sys.exit(main())
"""


def preprocess(text: Path, tokenizer: Path, folder: Path, memory: str, *, library: bool) -> Outcome:
    """The command, one thread."""
    folder.mkdir()
    config = folder / "config.yaml"
    settings = {
        "datasets": [{"path": str(text)}],
        "tokenizer": {"path": str(tokenizer)},
        "preprocess": {"prepared_path": str(folder / "out"), "sequence_len": 2048},
    }
    config.write_text(yaml.safe_dump(settings))
    program = [sys.executable, "-c", BY_LIBRARY] if library else [Path(sys.executable).with_name("krill")]
    outcome = run_measured([*program, "preprocess", config, "--threads", "1", "--memory", memory, "--json"])
    assert outcome.code == 0, outcome.err
    made = json.loads((folder / "out" / "krill-run.json").read_bytes())["tokenizer"]
    assert made["encoder"] == ("huggingface" if library else "native"), made
    return outcome


def digest(folder: Path) -> str:
    """Of all rows."""
    rows = hashlib.blake2b()
    for path in sorted((folder / "out").glob("data-*.arrow")):
        rows.update(path.read_bytes())
    return rows.hexdigest()


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("tokenizers", nargs="+", type=Path)
    parser.add_argument("--mb", type=int, default=100)
    parser.add_argument("--trained", nargs="*", default=["unigram", "wordpiece"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        few = write_documents(folder / "few", min(LIBRARY_MB, options.mb) * MB)
        files = [unpacked(given, folder) for given in options.tokenizers]
        files += [trained_by_library(kind, few, folder) for kind in options.trained]
        documents = write_documents(folder / "documents", options.mb * MB)
        text = folder / "documents.jsonl"
        text.write_text("".join(f'{{"text": {line}}}\n' for line in documents.read_text().splitlines()))
        results = again("preprocess_families", "tokenizers")
        for file in files:
            report(results, text, file, folder)
        results.save()


def report(results: Results, text: Path, file: Path, folder: Path) -> None:
    """A row."""
    model = json.loads(file.read_bytes())["model"]
    memory = LARGE if len(model["vocab"]) > LARGE_FROM else SMALL
    found = {}
    for library in (False, True):
        work = folder / f"{file.parent.name}-{library}"
        outcome = preprocess(text, file, work, UNBOUNDED if library else memory, library=library)
        found[library] = outcome, digest(work)
    (ours, our_rows), (library_run, its_rows) = found[False], found[True]
    assert our_rows == its_rows, f"the rows differ: {file}"
    results.add(
        tokenizer=SHOWN.get(file.parent.name, file.parent.name),
        tokens=len(model["vocab"]),
        seconds=ours.cpu_seconds,
        peak=ours.peak / MB,
        library_seconds=library_run.cpu_seconds,
        library_peak=library_run.peak / MB,
        times=library_run.cpu_seconds / ours.cpu_seconds,
        megabytes=text.stat().st_size / MB,
    )


if __name__ == "__main__":
    main()
