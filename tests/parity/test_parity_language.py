"""The language filter gives py3langid's own answers: the language of every document, and its score.

py3langid adds in 32 bits, which moves its scores by some ten-thousandths, differently with each BLAS. So
scores are held to its formula in 64 bits, from its own tables, and more loosely to what it says itself.
"""

from __future__ import annotations

import gzip
import math
import random
import sysconfig
from itertools import islice
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pytest
from py3langid.langid import MODEL_FILE, LanguageIdentifier, visit_counts

from krill.corpus.buffers import text_buffers
from krill.text.language_model import load


@pytest.fixture(scope="module")
def peer() -> LanguageIdentifier:
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def ours(texts: list[str]) -> tuple[list[str], list[float]]:
    model = load()
    languages, scores = model.native.classify(*text_buffers(pa.array(texts, pa.large_string())))
    return [model.languages[language] for language in languages], scores.tolist()


def exact_score(peer: LanguageIdentifier, text: str) -> float:
    """py3langid's formula, but in 64 bits."""
    encoded = peer._encode(text)
    visits = visit_counts(peer.tk_nextmove, peer._rowbase, peer.tk_output, encoded)
    scores = np.zeros(len(peer.nb_classes))
    if visits:
        counts = np.fromiter(visits.values(), np.float32, len(visits))
        scores += np.log1p(counts).astype(np.float64) @ peer.nb_ptc[list(visits)].astype(np.float64)
        scores += peer.nb_pc
    scores = np.exp((scores - scores.max()) / math.sqrt(len(encoded) or 1))
    scores /= scores.sum()
    for first, other in peer._alias_pairs:
        scores[first] += scores[other]
        scores[other] = 0
    return float(scores.max())


def check(peer: LanguageIdentifier, texts: list[str], every: int) -> None:
    """All languages and scores, and each so-manieth score exactly."""
    languages, scores = ours(texts)
    expected = [peer.classify(text) for text in texts]
    assert languages == [language for language, _ in expected]
    assert scores == pytest.approx([score for _, score in expected], abs=1e-3)
    assert scores[::every] == pytest.approx([exact_score(peer, text) for text in texts[::every]], abs=1e-6)


@pytest.mark.parametrize("part", [20, pytest.param(1, marks=pytest.mark.soak)])
def test_documents_of_the_sample_have_the_same_language(
    peer: LanguageIdentifier, sample: Path, part: int
) -> None:
    with gzip.open(sample) as lines:
        texts = [orjson.loads(line)["text"] for line in islice(lines, 0, None, part)]
    check(peer, texts, every=10)


def test_source_code_has_the_same_language(peer: LanguageIdentifier) -> None:
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))[::10]
    check(peer, [file.read_text("utf-8", "ignore")[:20_000] for file in files], every=1)


def test_random_text_has_the_same_language(peer: LanguageIdentifier) -> None:
    random.seed(4)
    alphabets = [
        "abcdefghij .",
        "абвгдежзи ",
        "漢字仮名交じり文。",
        "กขฃคฅฆ ",
        "ABC ΔΣÄÖ",
        "e\u0301\u0323o\u0302n ",
    ]
    alphabets.append("".join(map(chr, range(0x20, 0x2000))))
    texts = [
        "".join(random.choices(alphabet, k=random.choice([0, 1, 3, 20, 255, 256, 257, 1000])))
        for alphabet in alphabets
        for _ in range(40)
    ]
    check(peer, texts, every=1)


@pytest.mark.parametrize("text", ["", " ", "\u0301", "12345", "A", "ß", "\U0001f600", "\0"])
def test_texts_without_words_have_the_same_language(peer: LanguageIdentifier, text: str) -> None:
    check(peer, [text], every=1)
