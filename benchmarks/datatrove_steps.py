"""Krill's steps and datatrove's own for the same job, in the same pipeline, one core.

Each run has a process of its own, pinned to a core: a LocalPipelineExecutor of one task that reads JSON lines
with datatrove's reader, so that making `Document`s counts, and then filters, signs or tokenises them. The
last run of a job has Krill's reader as well. datatrove's steps take the first `--peer-mb` of the text only.
Seconds are those of the clock, and beside them the core's own (CPU time), from the first step's call to the
executor's end, models loaded on the way; starting Python and the executor are not in them. `reading` has no
steps but the reader: it is what no step can save.

    python benchmarks/datatrove_steps.py --mb 100
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from measured import run_measured
from real_text import real_texts
from results import Results, again

VOCABULARY = 32_000
JOBS = ("reading", "filters", "minhash", "tokenise")
SHOWN = {
    "filters": "Gopher quality and repetition, C4, FineWeb",
    "minhash": "MinHash signatures",
    "tokenise": f"tokenise, {VOCABULARY:,} tokens",
    "krill": "Krill's step, datatrove's reader",
    "krill's reader too": "Krill's step and reader",
}


def documents(megabytes: float) -> Iterator[str]:
    """Real documents, again and again with a changed ending, until there is enough text."""
    texts = list(real_texts())
    left = megabytes * 1e6
    for turn in count():
        for text in texts:
            if left <= 0:
                return
            left -= len(text.encode())
            yield text if turn == 0 else f"{text} ({turn})"


def write_lines(path: Path, megabytes: float) -> float:
    """JSON lines of so much text; returns its megabytes."""
    size = 0
    path.parent.mkdir()
    with path.open("w", encoding="utf-8") as file:
        for number, text in enumerate(documents(megabytes)):
            size += len(text.encode())
            file.write(json.dumps({"id": str(number), "text": text}) + "\n")
    return size / 1e6


def datatrove_steps(job: str, work: Path) -> list[Any]:
    """datatrove's own steps for a job."""
    from datatrove.pipeline import filters
    from datatrove.pipeline.dedup import MinhashDedupSignature
    from datatrove.pipeline.tokens import DocumentTokenizer

    if job == "filters":
        return [
            filters.GopherRepetitionFilter(),
            filters.GopherQualityFilter(),
            filters.C4QualityFilter(filter_no_terminal_punct=False),
            filters.FineWebQualityFilter(),
        ]
    if job == "minhash":
        return [MinhashDedupSignature(str(work / "signatures"))]
    if job == "tokenise":
        tokenizer = str(work / "tokenizer" / "tokenizer.json")
        return [
            DocumentTokenizer(
                str(work / "tokens"),
                tokenizer,
                eos_token="<|endoftext|>",
                shuffle_documents=False,
                batch_size=1000,
            )
        ]
    return []


def krill_steps(job: str, work: Path) -> list[Any]:
    """Krill's."""
    from krill.datatrove import Filters, MinhashSignatures, Tokenize

    if job == "filters":
        c4 = {"c4": {"filter_no_terminal_punct": False}}
        return [Filters("gopher_repetition", "gopher_quality", c4, "fineweb")]
    if job == "minhash":
        return [MinhashSignatures(str(work / "signatures"))]
    if job == "tokenise":
        return [Tokenize(str(work / "tokens"), work / "tokenizer")]
    return []


def run_once(job: str, kind: str, data: Path, work: Path) -> None:
    """One executor, in this process."""
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.utils.logging import logger

    from krill.datatrove import KrillReader

    logger.remove()
    begun = busy = 0.0

    def begin(stream: Any, rank: int, world_size: int) -> Any:
        nonlocal begun, busy
        begun, busy = time.monotonic(), time.process_time()
        return stream

    reader = KrillReader(str(data)) if kind == "krill's reader too" else JsonlReader(str(data))
    steps = (datatrove_steps if kind == "datatrove" else krill_steps)(job, work)
    with tempfile.TemporaryDirectory() as logs:
        LocalPipelineExecutor([begin, reader, *steps], tasks=1, workers=1, logging_dir=logs).run()
        print(json.dumps({"seconds": time.monotonic() - begun, "cpu": time.process_time() - busy}))


def compare(results: Results, job: str, sizes: Mapping[str, float], work: Path) -> None:
    """A job by datatrove's steps, by Krill's, and by Krill's with its reader."""
    slowest = 0.0
    runs = [("datatrove", "small"), ("krill", "large"), ("krill's reader too", "large")]
    if job == "reading":
        runs = [("datatrove", "large"), ("krill's reader too", "large")]
    for kind, data in runs:
        arguments = ["--once", job, kind, str(work / data), str(work)]
        outcome = run_measured(["/usr/bin/env", "taskset", "-c", "0", sys.executable, __file__, *arguments])
        assert outcome.code == 0, outcome.err
        took = json.loads(outcome.out.splitlines()[-1])
        rate = sizes[data] / took["seconds"]
        slowest = slowest or rate
        row = {"job": SHOWN.get(job, job), "program": SHOWN.get(kind, kind), "rate": rate}
        if kind != "datatrove":
            row["times"] = rate / slowest
        results.add(**row, megabytes=sizes[data], **took, peak=outcome.peak / 1e6)


def main() -> None:
    """The table; or, in a process that this one has started, one run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mb", type=float, default=100)
    parser.add_argument("--peer-mb", type=float, default=5)
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=JOBS)
    parser.add_argument("--once", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        job, kind, data, work = options.once
        run_once(job, kind, Path(data), Path(work))
        return
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        sizes = {
            "small": write_lines(work / "small" / "text.jsonl", options.peer_mb),
            "large": write_lines(work / "large" / "text.jsonl", options.mb),
        }
        if "tokenise" in options.jobs:
            import krill.tokenizer

            krill.tokenizer.train(
                [str(work / "large")], vocab_size=VOCABULARY, output=str(work / "tokenizer")
            )
        results = again("datatrove_steps", "datatrove")
        for job in options.jobs:
            compare(results, job, sizes, work)
        results.save()


if __name__ == "__main__":
    main()
