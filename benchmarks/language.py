"""Which language each document is in: Krill beside py3langid's own code, one core.

Both classify the same documents, grown from the sample, each in a process of its own; Krill takes them in
batches of a megabyte, as a run does. MB/s is over the classification alone, with the model loaded. What the
model takes is the growth of VmRSS by loading it. Both must find the same languages.

    python benchmarks/language.py --mb 100
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import psutil

from clean_text import one_core
from real_text import grow_jsonl
from results import Results, again

BATCH_BYTES = 10**6


def main() -> None:
    """The table; or, in a process that this one has started, one of the two."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=100)
    parser.add_argument("--once", choices=("krill", "py3langid"))
    parser.add_argument("--corpus", type=Path)
    options = parser.parse_args()
    if options.once:
        print(json.dumps(krill(options.corpus) if options.once == "krill" else py3langid(options.corpus)))
        return
    with tempfile.TemporaryDirectory() as folder:
        corpus = grow_jsonl(Path(folder) / "corpus.jsonl", options.mb * 10**6)
        results = again("language", "py3langid")
        found = {name: report(results, name, corpus) for name in ("krill", "py3langid")}
    assert found["krill"]["languages"] == found["py3langid"]["languages"], "both must find the same languages"
    results.save()
    print(f"ratio {found['py3langid']['seconds'] / found['krill']['seconds']:.1f}x")


def report(results: Results, name: str, corpus: Path) -> dict[str, Any]:
    """One row, and what the process found."""
    outcome = one_core([sys.executable, __file__, "--once", name, "--corpus", corpus])
    assert outcome.code == 0, outcome.err
    found: dict[str, Any] = outcome.result
    rate = found["bytes"] / found["seconds"] / 1e6
    size, held = found["bytes"] / 1e6, found["held"] / 1e6
    program = "Krill" if name == "krill" else name
    results.add(program=program, rate=rate, held=held, megabytes=size, seconds_to_load=found["load"])
    return found


def resident_bytes() -> int:
    """VmRSS of this process."""
    return int(psutil.Process().memory_info().rss)


def batches(corpus: Path) -> Iterator[list[str]]:
    """The documents, about a megabyte at a time."""
    texts: list[str] = []
    size = 0
    with corpus.open("rb") as lines:
        for line in lines:
            texts.append(orjson.loads(line)["text"])
            size += len(line)
            if size >= BATCH_BYTES:
                yield texts
                texts, size = [], 0
    if texts:
        yield texts


def krill(corpus: Path) -> dict[str, Any]:
    """Our model, batch by batch."""
    import pyarrow as pa

    from krill.corpus.buffers import text_buffers
    from krill.text.language_model import load

    before = resident_bytes()
    begun = time.perf_counter()
    model = load()
    loaded, held = time.perf_counter() - begun, resident_bytes() - before
    languages, size, seconds = hashlib.sha256(), 0, 0.0
    for texts in batches(corpus):
        offsets, data = text_buffers(pa.array(texts, pa.large_string()))
        begun = time.perf_counter()
        numbers, _ = model.native.classify(offsets, data)
        seconds += time.perf_counter() - begun
        size += int(offsets[-1])
        languages.update(" ".join(model.languages[number] for number in numbers).encode())
    return {
        "bytes": size,
        "seconds": seconds,
        "load": loaded,
        "held": held,
        "languages": languages.hexdigest(),
    }


def py3langid(corpus: Path) -> dict[str, Any]:
    """Its own code, document by document."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    before = resident_bytes()
    begun = time.perf_counter()
    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    loaded, held = time.perf_counter() - begun, resident_bytes() - before
    languages, size, seconds = hashlib.sha256(), 0, 0.0
    for texts in batches(corpus):
        begun = time.perf_counter()
        found = [identifier.classify(text) for text in texts]
        seconds += time.perf_counter() - begun
        size += sum(len(text.encode()) for text in texts)
        languages.update(" ".join(language for language, _ in found).encode())
    return {
        "bytes": size,
        "seconds": seconds,
        "load": loaded,
        "held": held,
        "languages": languages.hexdigest(),
    }


if __name__ == "__main__":
    main()
