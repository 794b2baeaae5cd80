"""Gopher repetition, Gopher quality and FineWeb in a row: Krill beside datatrove, one core.

Both judge the same documents with default thresholds; a document that one filter drops does not reach the
next. datatrove splits words with spaCy, as its users run it; it takes the first `--peer-mb` of the text only.
Each has a process of its own on one core; MB/s is over the filters alone, models and text loaded before. The
last column says how many of the documents that both saw are kept.

    python benchmarks/quality_filters.py --mb 100
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from itertools import count

from measured import run_measured
from real_text import real_texts
from results import again

BATCH = 1_000_000  # bytes, as the reader makes them


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


def run_krill(megabytes: float, compared: int) -> dict[str, float]:
    """The step, on batches of a megabyte."""
    import pyarrow as pa

    from krill.config.filters import FineWeb, GopherQuality, GopherRepetition
    from krill.corpus.documents import Documents
    from krill.text.quality import quality_step

    step = quality_step([GopherRepetition(), GopherQuality(), FineWeb()], statistics=False)
    seconds = size = 0.0
    kept = 0
    pending: list[str] = []
    first = 0
    texts = list(documents(megabytes))
    for number, text in enumerate(texts):
        pending.append(text)
        if sum(map(len, pending)) < BATCH and number + 1 < len(texts):
            continue
        column = pa.array(pending, pa.large_string())
        positions = pa.array(range(first, first + len(pending)), pa.uint64())
        batch = pa.RecordBatch.from_arrays([column, positions], ["text", "position"])
        begun = time.perf_counter()
        result = step.apply(Documents(batch)).batch
        seconds += time.perf_counter() - begun
        size += sum(len(text.encode()) for text in pending)
        kept += sum(position < compared for position in result["position"].to_pylist())
        first += len(pending)
        pending = []
    return {"seconds": seconds, "megabytes": size / 1e6, "kept": kept}


def run_datatrove(megabytes: float) -> dict[str, float]:
    """The filters, one document after another."""
    from datatrove.data import Document
    from datatrove.pipeline.filters import FineWebQualityFilter, GopherQualityFilter, GopherRepetitionFilter

    filters = [GopherRepetitionFilter(), GopherQualityFilter(), FineWebQualityFilter()]
    texts = list(documents(megabytes))
    for peer in filters:
        peer.filter(Document(text="The first call loads what the filter needs. " * 20, id=""))
    begun = time.perf_counter()
    kept = sum(all(peer.filter(Document(text=text, id="")) is True for peer in filters) for text in texts)
    seconds = time.perf_counter() - begun
    return {"seconds": seconds, "megabytes": sum(len(text.encode()) for text in texts) / 1e6, "kept": kept}


def main() -> None:
    """The table; or, in a process that this one has started, one of the two."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mb", type=float, default=100)
    parser.add_argument("--peer-mb", type=float, default=5)
    parser.add_argument("--once", choices=["krill", "datatrove"])
    options = parser.parse_args()
    compared = sum(1 for _ in documents(options.peer_mb))
    if options.once:
        run = run_krill(options.mb, compared) if options.once == "krill" else run_datatrove(options.peer_mb)
        print(json.dumps(run))
        return
    results = again("quality_filters", "datatrove")
    rates = []
    for name in ("krill", "datatrove"):
        arguments = ["--once", name, "--mb", str(options.mb), "--peer-mb", str(options.peer_mb)]
        outcome = run_measured(["/usr/bin/env", "taskset", "-c", "0", sys.executable, __file__, *arguments])
        assert outcome.code == 0, outcome.err
        run = outcome.result
        rates.append(run["megabytes"] / run["seconds"])
        kept = f"{run['kept']:.0f} of {compared}"
        sizes = {"megabytes": run["megabytes"], "seconds": run["seconds"], "peak": outcome.peak / 1e6}
        results.add(program="Krill" if name == "krill" else name, rate=rates[-1], kept=kept, **sizes)
    results.save()
    print(f"{rates[0] / rates[1]:.0f}x as fast")


if __name__ == "__main__":
    main()
