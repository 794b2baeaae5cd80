"""The main job on 10 thousand, a million and ten million short documents, beside the pipeline of the seed.

Clean, drop exact duplicates, tokenise with 32,000 tokens, drop what is shorter than 150 of them, pack rows of
2,048. The peer is the standard pipeline (datasets, transformers, TRL: `preprocess.STANDARD`). Both run as a
user starts them, on all cores; CPU is what they used of one, so that 200 % are two cores at work. A peer that
takes longer than `--peer-minutes`, or more data than `--peer-gb` (RLIMIT_DATA), is ended; the row says so.

Documents are pieces of 800 characters or less of real text. When all were used they come again with a changed
ending, but for one in ten, which is an exact copy. Ten million take 8 GB.

    python benchmarks/seed_scale.py [10K 1M 10M] [--peer-minutes 90] [--peer-gb 16] [--folder DIR]
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

import yaml

from measured import Outcome, run_measured
from preprocess import SEQUENCE_LEN, STANDARD, krill_command, trained
from real_text import real_texts
from results import Row, again, figures

SIZES = {"10K": 10**4, "1M": 10**6, "10M": 10**7}
BUDGET = "256MB"
PIECE = 800
LEAST = 400
ROWS_AT_ONCE = 2000
TIMED_OUT = 124  # coreutils' `timeout`


def main() -> None:
    """The sizes that were named, or the first two."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("sizes", nargs="*", default=["10K", "1M"], help=" ".join(SIZES))
    parser.add_argument("--peer-minutes", type=float, default=90)
    parser.add_argument("--peer-gb", type=float, default=16)
    parser.add_argument("--folder", type=Path, help="where corpora and the tokenizer are kept")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        folder = options.folder or Path(temporary)
        tokenizer = trained(folder)
        for name in options.sizes:
            path = corpus(folder, SIZES[name])
            compare(name, path, tokenizer, Path(temporary) / name, options.peer_minutes * 60, options.peer_gb)


def compare(name: str, path: Path, tokenizer: Path, work: Path, seconds: float, gigabytes: float) -> None:
    """One row for ours and one for the peer; what both wrote is compared token by token."""
    documents = SIZES[name]
    results = again("seed_scale", "datasets", "pyarrow")
    ours = krill(path, work / "krill", tokenizer)
    results.add(program="Krill", **row(ours, documents), tokens=ours.result["tokens"]["kept"])
    (work / "peer").mkdir()
    command = [sys.executable, "-c", STANDARD, path, tokenizer, work / "peer"]
    limited = ["/usr/bin/env", "timeout", "-k", "5", f"{seconds:.0f}", *command]
    peer = run_measured(limited, data_limit=int(gigabytes * 1e9))
    if peer.code == 0:
        fate = "the same" if same_rows(work / "krill" / "out", work / "peer" / "out") else "**others**"
    elif peer.code == TIMED_OUT:
        fate = f"ended after {seconds / 60:.0f} minutes"
    else:
        reason = peer.err.strip().splitlines()[-1:] or [f"exit code {peer.code}"]
        fate = f"failed with {gigabytes:g} GB: {reason[0][:80]}"
    results.add(program="datasets + transformers + TRL", **row(peer, documents), rows=fate)
    results.save()
    shutil.rmtree(work)


def row(outcome: Outcome, documents: int) -> Row:
    """Figures of one program; no rate, and seconds that are not all, where it did not end by itself."""
    found = {"documents": documents, "cpu": 100 * outcome.cpu_seconds / outcome.seconds, **figures(outcome)}
    if outcome.code == 0:
        return {**found, "rate": documents / outcome.seconds}
    return {**found, "seconds": f"over {outcome.seconds:.0f}"}


def krill(path: Path, work: Path, tokenizer: Path) -> Outcome:
    """`krill preprocess` as a user runs it."""
    work.mkdir(parents=True)
    config = {
        "datasets": [{"path": str(path)}],
        "tokenizer": {"path": str(tokenizer)},
        "preprocess": {"prepared_path": str(work / "out"), "sequence_len": SEQUENCE_LEN},
    }
    (work / "config.yaml").write_text(yaml.safe_dump(config))
    outcome = run_measured(
        [krill_command(), "preprocess", work / "config.yaml", "--json", "--memory", BUDGET]
    )
    assert outcome.code == 0, outcome.err
    return outcome


def same_rows(ours: Path, theirs: Path) -> bool:
    """Whether both have the same rows; theirs may have one more, which is not full."""
    from datasets import load_from_disk

    left, right = (load_from_disk(str(path)).select_columns(["input_ids"]) for path in (ours, theirs))
    if len(right) not in (len(left), len(left) + 1):
        return False
    for first in range(0, len(left), ROWS_AT_ONCE):
        last = min(first + ROWS_AT_ONCE, len(left))
        if left[first:last]["input_ids"] != right[first:last]["input_ids"]:
            return False
    return True


def corpus(folder: Path, documents: int) -> Path:
    """So many short documents, as the module says."""
    path = folder / f"short-{documents}.jsonl"
    if not path.exists():
        with path.with_suffix(".part").open("w", encoding="utf-8") as file:
            file.writelines(islice(lines(), documents))
        path.with_suffix(".part").rename(path)
    return path


def lines() -> Iterator[str]:
    """Documents without end, as JSON lines."""
    texts = (text[at : at + PIECE] for text in real_texts() for at in range(0, len(text), PIECE))
    pieces = [json.dumps({"text": text}, ensure_ascii=False)[:-2] for text in texts if len(text) >= LEAST]
    for turn in count():
        for number, piece in enumerate(pieces):
            yield f'{piece}"}}\n' if turn == 0 or number % 10 == 0 else f'{piece} ({turn})"}}\n'


if __name__ == "__main__":
    main()
