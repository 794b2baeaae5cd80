"""Steps inside datatrove hold a batch, however many documents pass them."""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path

import pytest

from krill.tokenizer import train
from measured import run_measured
from real_text import real_texts

pytest.importorskip("datatrove")

PROGRAM = """
import sys
from datatrove.data import Document
from krill.datatrove import Clean, Filters, MinhashSignatures, Tokenize
from real_text import real_texts

texts = [text for text, _ in zip(real_texts(), range(int(sys.argv[2])))]

def documents():
    for turn in range(int(sys.argv[1])):
        for number, text in enumerate(texts):
            yield Document(text=f"{text} {turn}", id=str(number))

batch = {"batch_bytes": "200kB"}
print(sum(1 for _ in Filters("gopher_quality", "c4", **batch).run(Clean(**batch).run(documents()))))
MinhashSignatures("signatures", **batch).run(documents())
Tokenize("tokens", "tokenizer", **batch).run(documents())
"""


def test_ten_times_the_documents_take_the_same_memory(tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text("\n".join(islice(real_texts(), 100)))
    train([str(tmp_path / "corpus.txt")], vocab_size=1000, output=str(tmp_path / "tokenizer"))
    path = str(Path(__file__).resolve().parents[2] / "benchmarks")
    peaks = []
    for times, texts in ((1, 5), (1, 200), (10, 200)):
        command = [sys.executable, "-c", PROGRAM, str(times), str(texts)]
        outcome = run_measured(command, cwd=tmp_path, env={"PYTHONPATH": path}, timeout=120)
        assert outcome.code == 0, outcome.err
        peaks.append(outcome.peak)
    # Datatrove's own libraries are most of it, and not ours to bound: five documents have them all loaded.
    assert peaks[1] - peaks[0] < 8_000_000
    assert peaks[2] - peaks[1] < 10_000_000
