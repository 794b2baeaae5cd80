"""Train a tokenizer: Krill inside its budget beside gigabpe, gigatoken, rustbpe and Hugging Face.

Byte-level BPE with GPT-2's pattern on text grown from real text (`real_text.grow_text`), each trainer in a
process of its own, one after the other, start-up and imports included. Peaks are VmHWM. Krill runs as the
command, by lines as gigabpe and Hugging Face do, once for each budget and number of threads, and must make
the same merges every time. With several sizes it also says how its peak grows with the text.

    python benchmarks/train_tokenizer.py --mb 480 --memory 1GB 256MB --peers-python PATH
    python benchmarks/train_tokenizer.py --mb 480 --threads 1 --peers tokenizers
    python benchmarks/train_tokenizer.py --mb 5000 --threads 2 --peers gigabpe --peers-python PATH
    python benchmarks/train_tokenizer.py --mb 11000 --threads 2 --peers
    python benchmarks/train_tokenizer.py --mb 48 480 --memory 256MB --peers

`--peers` with no name leaves the peers out; Hugging Face (`tokenizers`) takes minutes for 480 MB and runs if
named. `--peers-python`, or PEERS_PYTHON in the environment, is an interpreter that has them. `--folder`
keeps the corpora for the next run.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from krill.tokenizer.compare import Trial, train_ours, train_peer, vocabulary_beside
from real_text import text_corpus
from results import Results, again


def main() -> None:
    """A table for each size."""
    options = parsed()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        ours = {size: table(size, text_corpus(folder, size), options) for size in options.mb}
    small, large = min(ours), max(ours)
    if large > small:
        for (memory, threads), trial in ours[large].items():
            ratio = trial.peak / ours[small][memory, threads].peak
            print(f"{memory}, threads {threads}: {large / small:.1f}x the text, {ratio:.2f}x the peak")


def table(size: int, file: Path, options: argparse.Namespace) -> dict[tuple[str, int], Trial]:
    """All trainers on one file; returns our trials by budget and threads."""
    megabytes = file.stat().st_size / 1e6
    print(f"\n{megabytes:,.0f} MB of text, {options.vocab_size:,} tokens\n", flush=True)
    results = again("train_tokenizer")
    text = f"{size:,} MB"
    ours: dict[tuple[str, int], Trial] = {}
    for threads in options.threads:
        for memory in options.memory:
            trial = train_ours(file, options.vocab_size, threads, memory)
            ours[memory, threads] = trial
            first = next(iter(ours.values()))
            assert trial.tokens == first.tokens, "neither budget nor threads may change the merges"
            add(results, trial, first, memory, text=text, threads=threads, megabytes=megabytes)
        for name in options.peers:
            trial = train_peer(name, file, options.vocab_size, threads, python=options.peers_python)
            add(results, trial, first, "none", text=text, threads=threads, megabytes=megabytes)
    results.save()
    return ours


def add(
    results: Results, trial: Trial, ours: Trial, budget: str, *, text: str, threads: int, megabytes: float
) -> None:
    """One row, or why there is none."""
    if trial.fault is not None:
        print(f"{trial.name} {trial.version}, threads {threads}: {trial.fault}", flush=True)
        return
    if trial is not ours and budget == "none":
        results.versions[trial.name] = trial.version
    results.add(
        text=text,
        trainer="Krill" if budget != "none" else trial.name,
        budget=budget,
        threads=threads,
        seconds=trial.seconds,
        rate=megabytes / trial.seconds,
        peak=trial.peak / 1e6,
        vocabulary=vocabulary_beside(ours, trial),
    )


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    size = int(os.environ.get("BENCH_MB", "480"))
    parser.add_argument("--mb", type=int, nargs="+", default=[size], help="sizes of the corpus")
    parser.add_argument("--memory", nargs="+", default=["1GB", "256MB"], help="budgets of ours")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--vocab-size", type=int, default=32000)
    parser.add_argument("--peers", nargs="*", default=["gigabpe", "gigatoken", "rustbpe"])
    parser.add_argument("--peers-python", type=Path, default=os.environ.get("PEERS_PYTHON"))
    parser.add_argument("--folder", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
