"""Scores of fastText models: Krill's beside fasttext-predict's, in turns, on one core.

Both score the same documents with the same files, whose weights are random: one as classifiers of quality
have it (words and pairs of words, 100 numbers each), one as models of languages have it (parts of words of 2
to 4 characters, 16 numbers each, 176 labels), two with all that fastText knows (parts of 1 to 5 characters,
three words), of 16 and of 100 numbers. Prints MB/s of text by processor time, the best of some rounds, and
whether all scores are equal to the last bit. fasttext-predict has the module's name of fastText itself, so it
is looked for in a folder of its own:

    pip install --no-deps --target build/fasttext-predict fasttext-predict
    python benchmarks/fasttext_scores.py --peer build/fasttext-predict
"""

from __future__ import annotations

import argparse
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from krill.corpus.buffers import text_buffers
from krill.text.fasttext import FastTextModel
from real_text import real_texts

LONGEST = 4000  # characters of a document
MODELS = {
    "quality": {"dim": 100, "ngrams": 2, "bucket": 500_000, "minn": 0, "maxn": 0, "labels": 2},
    "language": {"dim": 16, "ngrams": 1, "bucket": 1_000_000, "minn": 2, "maxn": 4, "labels": 176},
    "all, 16": {"dim": 16, "ngrams": 3, "bucket": 1_000_000, "minn": 1, "maxn": 5, "labels": 10},
    "all, 100": {"dim": 100, "ngrams": 3, "bucket": 500_000, "minn": 1, "maxn": 5, "labels": 10},
}


def write_model(path: Path, words: list[str], **shape: int) -> None:
    """A model with random weights, in the form of fastText's version 12."""
    dim, bucket, labels = shape["dim"], shape["bucket"], shape["labels"]
    head = (793712314, 12, dim, 5, 1, 1, 5, shape["ngrams"], 3, 3, bucket, shape["minn"], shape["maxn"], 100)
    entries = [(word, 0) for word in words] + [(f"__label__{number}", 1) for number in range(labels)]
    chance = np.random.default_rng(1)
    with path.open("wb") as file:
        file.write(struct.pack("<14id", *head, 1e-4))
        file.write(struct.pack("<3i2q", len(entries), len(words), labels, 1, -1))
        for word, kind in entries:
            file.write(word.encode() + b"\0" + struct.pack("<qb", 1, kind))
        for rows in (len(words) + bucket, labels):
            file.write(b"\0" + struct.pack("<2q", rows, dim))
            file.write(chance.normal(0, 0.3, (rows, dim)).astype("<f4").tobytes())


def best(rounds: int, *works: Callable[[], Any]) -> list[tuple[float, Any]]:
    """Of each the least processor time in rounds that take turns, and what it returned."""
    times: list[list[float]] = [[] for _ in works]
    results: list[Any] = [None] * len(works)
    for _ in range(rounds):
        for number, work in enumerate(works):
            begin = time.process_time()
            results[number] = work()
            times[number].append(time.process_time() - begin)
    return [(min(taken), result) for taken, result in zip(times, results, strict=True)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", help="folder with fasttext-predict; without it, the installed fasttext")
    parser.add_argument("--documents", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.peer:
        sys.path.insert(0, arguments.peer)
    from fasttext.FastText import _FastText

    texts = [text[:LONGEST].replace("\n", " ") for text in islice(real_texts(), arguments.documents)]
    size = sum(len(text.encode()) for text in texts) / 1e6
    columns = text_buffers(pa.array(texts, pa.large_string()))
    counts = Counter(word for text in texts for word in text.split())
    words = ["</s>", *(word for word, _ in counts.most_common(20_000))]
    print(
        f"{len(texts):,} documents, {size:.1f} MB\n\n| model | fastText | Krill | times | equal |\n"
        + "| --- " * 5
        + "|"
    )
    with tempfile.TemporaryDirectory() as folder:
        for name, shape in MODELS.items():
            path = Path(folder, f"{name}.bin")
            write_model(path, words, **shape)
            peer, ours = _FastText(str(path)), FastTextModel.load(str(path))
            wanted = np.arange(len(ours.labels), dtype=np.int32)
            (theirs_s, theirs), (ours_s, (scores, _, _)) = best(
                arguments.rounds,
                lambda peer=peer: [peer.f.predict(text + "\n", -1, 0.0, "strict") for text in texts],
                lambda ours=ours, wanted=wanted: ours.native.score(*columns, wanted, False),
            )
            rows = scores.reshape(len(texts), -1)
            equal = all(
                {label: np.float32(score) for score, label in said}
                == {f"__label__{label}": score for label, score in zip(ours.labels, row, strict=True)}
                for said, row in zip(theirs, rows, strict=True)
            )
            print(f"| {name} | {size / theirs_s:.1f} MB/s | {size / ours_s:.1f} MB/s"
                  f" | {theirs_s / ours_s:.2f} | {equal} |")  # fmt: skip
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
