"""Near-duplicates on one core: MinHash signatures of real text, and clusters of many documents.

Signatures: `MinHash().bands_of` over 108 MB of grown real text, batch by batch, beside datatrove's
`MinhashDedupSignature`, whose own normalisation, words (spaCy) and permutations run on a part of the same
documents, since all of them would take minutes. Both with 14 bands of 8 rows and 5-word shingles.

Clusters: `dedup_minhash` over made-up bands of a million documents, a fifth of which agree in some with
another, at three shares of memory; its growth is the most that the process held above what it held before.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

from measured import run_measured
from real_text import grow_jsonl
from results import RATE, Column, again

MEGABYTES = int(os.environ.get("BENCH_MB", "108"))
DOCUMENTS = int(os.environ.get("BENCH_DOCUMENTS", "1000000"))
PEER_SHARE = 10  # the peer sees one document in so many

_OURS = """
import json, sys, time
import pyarrow as pa
from krill.dedup import MinHash
batch, seconds, done = [], 0.0, 0

def flush():
    global seconds, done
    column = pa.array(batch, pa.large_string())
    begun = time.monotonic()
    MinHash().bands_of(column)
    seconds += time.monotonic() - begun
    done += sum(len(text.encode()) for text in batch)
    batch.clear()

for line in open(sys.argv[1], "rb"):
    batch.append(json.loads(line)["text"])
    if len(batch) == 1000:
        flush()
flush()
print(json.dumps({"seconds": seconds, "bytes": done}))
"""

_PEER = """
import json, sys, time
from datatrove.pipeline.dedup.minhash import MinhashDedupSignature
step = MinhashDedupSignature(sys.argv[2])
step.word_tokenizer.word_tokenize("load what it loads lazily")
seconds, done = 0.0, 0
for number, line in enumerate(open(sys.argv[1], "rb")):
    if number % int(sys.argv[3]) == 0:
        text = json.loads(line)["text"]
        begun = time.monotonic()
        shingles = step.get_shingles(text)
        if shingles.size:
            step.get_signature(shingles)
        seconds += time.monotonic() - begun
        done += len(text.encode())
print(json.dumps({"seconds": seconds, "bytes": done}))
"""

_CLUSTERS = """
import json, sys, time
from pathlib import Path
from krill.dedup import dedup_minhash

def status(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

bands, keep, share = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
before = status("VmRSS")
begun = time.monotonic()
found = dedup_minhash([bands], [keep], bands=14, share=share, spill=keep.parent, threads=1)
seconds = time.monotonic() - begun
print(json.dumps({"seconds": seconds, "growth": status("VmHWM") - before, "duplicates": found.duplicates}))
"""


def on_one_core(script: str, *arguments: object) -> dict[str, float]:
    """What a script prints as JSON, run in a process of its own on the first core."""
    outcome = run_measured(
        ["/usr/bin/env", "taskset", "-c", "0", sys.executable, "-c", script, *map(str, arguments)]
    )
    assert outcome.code == 0, outcome.err
    return {**json.loads(outcome.out), "peak": outcome.peak}


def signatures(folder: Path) -> None:
    """Ours and the peer's, in megabytes a second."""
    corpus = grow_jsonl(folder / "corpus.jsonl", MEGABYTES * 10**6)
    columns = (Column("program", "program"), RATE)
    results, ours = again("minhash", "datatrove", columns=columns, keys=("program",)), 0.0
    for title, script, arguments in (
        ("Krill", _OURS, ()),
        ("datatrove", _PEER, (folder / "signatures", PEER_SHARE)),
    ):
        found = on_one_core(script, corpus, *arguments)
        rate = found["bytes"] / found["seconds"] / 1e6
        ours = ours or rate
        results.add(program=title, rate=rate, megabytes=found["bytes"] / 1e6, seconds=found["seconds"])
    results.save()
    print(f"ratio      {ours / rate:7.0f}x")


def clusters(folder: Path) -> None:
    """Seconds and memory at several shares."""
    import numpy as np

    random = np.random.default_rng(0)
    bands = random.integers(0, 2**64, (DOCUMENTS, 14), dtype=np.uint64)
    copies = DOCUMENTS // 5
    one, other = random.integers(0, DOCUMENTS, (2, copies))
    bands[other] = np.where(random.random((copies, 14)) < 0.4, bands[one], bands[other])
    bands.tofile(folder / "bands")
    del bands
    for megabytes in (9, 64, 400):
        found = on_one_core(_CLUSTERS, folder / "bands", folder / "keep", megabytes * 10**6)
        print(
            f"clusters of {DOCUMENTS:,} documents within {megabytes} MB: {found['seconds']:.1f} s,"
            f" grew {found['growth'] / 1e6:.1f} MB, {found['duplicates']:,} duplicates"
        )


def main() -> None:
    """Both, one after the other."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        signatures(Path(name))
        clusters(Path(name))
    print(f"all of it took {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
