"""The main job with a tokenizer of 32,000 tokens, beside the pipelines that people run today: one core.

`exact`: clean, drop exact duplicates, tokenise, pack; the peer is the seed's standard pipeline (datasets,
transformers, TRL). `minhash`: drop near-duplicates, tokenise; the peer is datatrove, its four MinHash stages
and its `DocumentTokenizer`. `short`: 10,000 short documents, where start-up is most of it. `scale`: ours
alone, one thread and two, and ten times the input.

Every program is a process of its own, imports included; on one core with `taskset` but for two threads.

    python benchmarks/preprocess.py [exact minhash short scale] [--mb 108]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from measured import Outcome, run_measured
from real_text import grow_jsonl, real_texts
from results import again, figures

VOCABULARY = 32_000
SEQUENCE_LEN = 2048
BUDGET = "256MB"

STANDARD = """
import sys, datasets, trl
from transformers import PreTrainedTokenizerFast
source, tokenizer, folder = sys.argv[1:]
data = datasets.load_dataset("json", data_files=source, split="train", cache_dir=folder)

def clean(row):
    text = row["text"] if isinstance(row["text"], str) else ""
    return {"text": text.encode("utf-8", "ignore").decode("utf-8", "ignore").strip()}

seen = set()

def first_time(row):
    if row["text"] in seen:
        return False
    seen.add(row["text"])
    return True

data = data.map(clean).filter(lambda row: len(row["text"]) >= 100).filter(first_time)
tokenizer = PreTrainedTokenizerFast(tokenizer_file=tokenizer, eos_token="<|endoftext|>")
eos = tokenizer.eos_token_id

def tokenize(rows):
    return {"input_ids": [[*ids, eos] for ids in tokenizer(rows["text"])["input_ids"]]}

tokens = data.map(tokenize, batched=True, remove_columns=data.column_names)
kept = tokens.filter(lambda row: len(row["input_ids"]) >= 150)
packed = trl.pack_dataset(kept, SEQUENCE_LEN, "wrapped", map_kwargs={"batch_size": max(1, len(kept))})
packed.save_to_disk(folder + "/out")
print(len(kept))
""".replace("SEQUENCE_LEN", str(SEQUENCE_LEN))

DATATROVE = """
import sys
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.dedup import (
    MinhashDedupBuckets, MinhashDedupCluster, MinhashDedupFilter, MinhashDedupSignature,
)
from datatrove.pipeline.dedup.minhash import MinhashConfig
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.tokens import DocumentTokenizer
from datatrove.utils.hashing import HashConfig
source, tokenizer, folder = sys.argv[1:]
config = MinhashConfig(hash_config=HashConfig(precision=64))
reader = lambda: JsonlReader(source)
logs = folder + "/logs"
stages = [
    [reader(), MinhashDedupSignature(folder + "/signatures", config=config)],
    [MinhashDedupBuckets(folder + "/signatures", folder + "/buckets", config=config)],
    [MinhashDedupCluster(folder + "/buckets", folder + "/removed", config=config)],
    [
        reader(),
        MinhashDedupFilter(folder + "/removed"),
        DocumentTokenizer(folder + "/tokens", tokenizer_name_or_path=tokenizer, eos_token="<|endoftext|>"),
    ],
]
for number, pipeline in enumerate(stages):
    tasks = config.num_buckets if number == 1 else 1
    LocalPipelineExecutor(pipeline, tasks=tasks, workers=1, logging_dir=f"{logs}/{number}").run()
"""


def main() -> None:
    """The jobs that were named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("jobs", nargs="*", default=list(JOBS), help="exact minhash short scale")
    parser.add_argument("--mb", type=int, default=108)
    parser.add_argument("--folder", type=Path, help="where corpora and the tokenizer are kept")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        tokenizer = trained(folder)
        for name in options.jobs:
            print(f"\n{name}", flush=True)
            JOBS[name](folder, Path(temporary), tokenizer, options.mb)


def exact(folder: Path, work: Path, tokenizer: Path, megabytes: int) -> None:
    """Beside the seed's pipeline."""
    job = f"clean, exact dedup, tokenise, pack, {megabytes} MB"
    beside_standard(job, corpus(folder, megabytes), work / "exact", tokenizer)


def short(folder: Path, work: Path, tokenizer: Path, megabytes: int) -> None:
    """The same on 10,000 short documents."""
    path = folder / "short.jsonl"
    texts = [text[:600] for text in real_texts()]
    with path.open("w", encoding="utf-8") as file:
        for number in range(10_000):
            file.write(json.dumps({"text": f"{number} {texts[number % len(texts)]}"}) + "\n")
    beside_standard("the first job on 10,000 short documents", path, work / "short", tokenizer)


def beside_standard(job: str, path: Path, work: Path, tokenizer: Path) -> None:
    """Ours and the standard pipeline on one file; both must keep as many documents."""
    ours = krill(path, work / "krill", tokenizer)
    (work / "peer").mkdir(parents=True)
    peer = one_core([sys.executable, "-c", STANDARD, path, tokenizer, work / "peer"])
    assert peer.code == 0, peer.err
    kept = ours.result["documents"]["kept"]
    assert int(peer.out.split()[-1]) == kept, (peer.out, kept)
    keep(job, ours, "datasets + transformers + TRL", peer)


def minhash(folder: Path, work: Path, tokenizer: Path, megabytes: int) -> None:
    """Beside datatrove."""
    path = corpus(folder, megabytes)
    ours = krill(path, work / "minhash", tokenizer, dedup="minhash")
    (work / "datatrove").mkdir(parents=True)
    peer = one_core([sys.executable, "-c", DATATROVE, path, tokenizer, work / "datatrove"])
    assert peer.code == 0, peer.err
    keep(f"near-duplicates by MinHash, tokenise, {megabytes} MB", ours, "datatrove", peer)


def scale(folder: Path, work: Path, tokenizer: Path, megabytes: int) -> None:
    """One thread and two, in turn; ten times the input. The fastest of three, as the machine is shared."""
    best: dict[tuple[int, int], Outcome] = {}
    for size in (megabytes, 10 * megabytes):
        path = corpus(folder, size)
        for turn in range(3):
            for threads in (1, 2):
                outcome = krill(path, work / f"scale-{size}-{threads}-{turn}", tokenizer, threads=threads)
                print(f"{size} MB, {threads} threads: {outcome.seconds:.2f} s", flush=True)
                best[size, threads] = min(best.get((size, threads), outcome), outcome, key=_seconds)
    report(path, [(f"krill, {size} MB, {threads} threads", best[size, threads]) for size, threads in best])
    ceiling = _side_by_side(path, work, tokenizer)
    print(f"two runs of one thread, each on its own core, at once: {ceiling:.2f}x the throughput of one")


def _side_by_side(path: Path, work: Path, tokenizer: Path) -> float:
    """What a second core of this machine is worth to runs that share nothing: no thread can do better."""
    alone, together = [], []
    for turn in range(3):
        for cores, found in (((turn % 2,), alone), ((0, 1), together)):
            begun = time.perf_counter()
            with ThreadPoolExecutor() as pool:
                places = [work / f"side-{turn}-{len(cores)}-{core}" for core in cores]
                list(pool.map(lambda place, core: krill(path, place, tokenizer, core=core), places, cores))
            found.append(time.perf_counter() - begun)
    return 2 * median(alone) / median(together)


def _seconds(outcome: Outcome) -> float:
    return outcome.seconds


JOBS = {"exact": exact, "minhash": minhash, "short": short, "scale": scale}


def trained(folder: Path) -> Path:
    """A tokenizer of 32,000 tokens, trained on the sample."""
    output = folder / "tokenizer-32k"
    if not (output / "tokenizer.json").exists():
        text = grow_jsonl(folder / "tokenizer-text.jsonl", 30_000_000)
        command = [krill_command(), "tokenizer", "train", "--input", text, "--vocab-size", str(VOCABULARY)]
        done = run_measured([*command, "--output", output, "--quiet", "--overwrite"])
        assert done.code == 0, done.err
    return output / "tokenizer.json"


def corpus(folder: Path, megabytes: int) -> Path:
    """Real text of this size."""
    path = folder / f"corpus-{megabytes}.jsonl"
    return path if path.exists() else grow_jsonl(path, megabytes * 10**6)


def krill(
    path: Path, work: Path, tokenizer: Path, *, threads: int = 1, core: int = 0, **settings: Any
) -> Outcome:
    """`krill preprocess` as a user runs it; one thread on one core."""
    work.mkdir(parents=True)
    config = {
        "datasets": [{"path": str(path)}],
        "tokenizer": {"path": str(tokenizer)},
        "preprocess": {"prepared_path": str(work / "out"), "sequence_len": SEQUENCE_LEN, **settings},
    }
    (work / "config.yaml").write_text(yaml.safe_dump(config))
    command = [krill_command(), "preprocess", work / "config.yaml", "--threads", str(threads), "--json"]
    command += ["--memory", BUDGET]
    outcome = one_core(command, core) if threads == 1 else run_measured(command)
    assert outcome.code == 0, outcome.err
    return outcome


def krill_command() -> Path:
    """The command that belongs to this interpreter."""
    return Path(sys.executable).with_name("krill")


def one_core(command: Sequence[str | Path], core: int = 0) -> Outcome:
    """Run on one core alone, threads of libraries included."""
    return run_measured(["/usr/bin/env", "taskset", "-c", str(core), *command])


def keep(job: str, ours: Outcome, program: str, peer: Outcome) -> None:
    """Two rows of what this benchmark is for."""
    results = again("preprocess", "datasets", "pyarrow", "datatrove", "trl")
    results.add(job=job, program="Krill", **figures(ours))
    results.add(job=job, program=program, **figures(peer, beside=ours))
    results.save()


def report(path: Path, rows: Sequence[tuple[str, Outcome]]) -> None:
    """A line each, and how many times the first one's time and memory the others took."""
    print(f"{path.stat().st_size / 1e6:.0f} MB of JSON lines")
    first = rows[0][1]
    for title, outcome in rows:
        print(
            f"{title:32} {outcome.seconds:7.1f} s {outcome.peak / 1e6:7.0f} MB peak"
            f" {outcome.seconds / first.seconds:7.1f}x the time {outcome.peak / first.peak:6.1f}x the memory",
            flush=True,
        )


if __name__ == "__main__":
    main()
