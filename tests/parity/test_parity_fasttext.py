"""Scores are fastText's own, bit for bit: of models that it trains here, of every loss, quantised or not."""

from __future__ import annotations

import random
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from krill.corpus.buffers import text_buffers
from krill.text.fasttext import FastTextModel
from peers import peer

fasttext = peer("fasttext")

ODD = [
    "",
    "  ",
    "</s>",
    "a </s> b",
    "__label__hq x",
    "__label__zz y",
    "é" * 50,
    "x\ty\x00z\rw",
    "日本語 größe",
]
# With fewer threads, some of its releases leave a part of the weights as memory had them.
THREADS = 11
MODELS: dict[str, dict[str, Any]] = {
    "words": {"dim": 16},
    "pairs": {"dim": 20, "wordNgrams": 2, "bucket": 5000},
    "characters": {"dim": 16, "minn": 2, "maxn": 4, "bucket": 5000},
    "both": {"dim": 25, "wordNgrams": 3, "minn": 1, "maxn": 5, "bucket": 5000},
    "one-vs-all": {"dim": 10, "wordNgrams": 2, "maxn": 3, "bucket": 2000, "loss": "ova"},
    "negative-sampling": {"dim": 10, "maxn": 3, "bucket": 2000, "loss": "ns"},
    "hierarchical": {"dim": 10, "wordNgrams": 2, "bucket": 2000, "loss": "hs"},
}
QUANTISED: dict[str, dict[str, Any]] = {
    "words": {},
    "pairs": {"qnorm": True, "cutoff": 600},
    "characters": {"cutoff": 600, "dsub": 3},
    "both": {"cutoff": 600, "qnorm": True, "retrain": True},
}


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    chance = random.Random(1)
    sources = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))[:12]
    words = [word for path in sources for word in path.read_text(errors="ignore").split()]
    words += ["größe", "naïve", "日本語", "текст"] * 40
    path = tmp_path_factory.mktemp("fasttext") / "train.txt"
    with path.open("w") as file:
        for _ in range(400):
            begin = chance.randrange(len(words) - 40)
            text = " ".join(words[begin : begin + chance.randint(1, 40)])
            file.write(f"__label__{chance.choice(['hq', 'lq', 'mid', 'é', 'rare'])} {text}\n")
    return path


def _models(lines: Path, name: str) -> Iterator[Path]:
    options = {"epoch": 2, "lr": 0.05, "thread": THREADS, "verbose": 0, **MODELS[name]}
    trained = fasttext.train_supervised(str(lines), **options)
    plain = lines.with_name(f"{name}.bin")
    trained.save_model(str(plain))
    yield plain
    if name in QUANTISED:
        trained.quantize(input=str(lines), thread=THREADS, **QUANTISED[name])
        small = lines.with_name(f"{name}.ftz")
        trained.save_model(str(small))
        yield small


@pytest.mark.parametrize("name", MODELS)
def test_scores_are_equal_to_the_last_bit(lines: Path, name: str) -> None:
    texts = [*(line.partition(" ")[2].rstrip("\n") for line in lines.open()), *ODD][
        :: 4 if name == "both" else 2
    ]
    for path in _models(lines, name):
        model = fasttext.load_model(str(path))
        ours = FastTextModel.load(str(path))
        wanted = np.arange(len(ours.labels), dtype=np.int32)
        scores, _, _ = ours.native.score(*text_buffers(pa.array(texts, pa.large_string())), wanted, False)
        for text, row in zip(texts, scores.reshape(len(texts), -1), strict=True):
            # `predict` itself fails with NumPy 2 in some builds; this is what it calls.
            said = {label: score for score, label in model.f.predict(f"{text}\n", -1, 0.0, "strict")}
            expected = np.array([said.get(f"__label__{label}", 0.0) for label in ours.labels], np.float32)
            assert row.tobytes() == expected.tobytes(), (path.name, text)
