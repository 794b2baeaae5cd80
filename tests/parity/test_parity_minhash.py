"""MinHash beside brute force and beside datatrove's, on real text."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pytest
from near_duplicates import similar_pairs, with_near_duplicates

from krill.dedup import CLUSTER_RECORD, MinHash, Verify, dedup_minhash
from krill.dedup.tables import GROUP_TABLES
from oracles.dedup import fold_character, reference_words

Clusters = Callable[[float | None], np.ndarray]


@pytest.fixture(scope="module")
def texts(sample: Path) -> list[str]:
    """1,500 real documents of ten-odd languages."""
    with gzip.open(sample) as file:
        return [orjson.loads(line)["text"] for line in islice(file, 0, None, 4)]


@pytest.fixture(scope="module")
def documents(texts: list[str]) -> list[str]:
    """And changed copies of 700."""
    return with_near_duplicates(texts, 700)


@pytest.fixture(scope="module")
def pairs(documents: list[str]) -> dict[tuple[int, int], float]:
    return similar_pairs(documents, 5, 0.3)


@pytest.fixture(scope="module")
def clusters(documents: list[str], tmp_path_factory: pytest.TempPathFactory) -> Clusters:
    """The cluster of each document, verified by a threshold or not."""
    folder = tmp_path_factory.mktemp("minhash")
    column = pa.array(documents, pa.large_string())
    MinHash().bands_of(column).tofile(folder / "bands")

    def find(threshold: float | None) -> np.ndarray:
        dedup_minhash(
            [folder / "bands"],
            [folder / "keep"],
            bands=14,
            share=GROUP_TABLES.min_share,
            spill=folder / "spill",
            threads=2,
            verify=None if threshold is None else Verify(threshold, lambda _: iter([column])),
            cluster_files=[folder / "clusters"],
        )
        return np.fromfile(folder / "clusters", CLUSTER_RECORD)["cluster"].astype(np.int64)

    return find


@pytest.mark.parametrize("threshold", [None, 0.7, 0.8])
def test_pairs_of_brute_force_are_found(
    pairs: dict[tuple[int, int], float], clusters: Clusters, threshold: float | None
) -> None:
    cluster = clusters(threshold)
    near = [pair for pair, share in pairs.items() if share >= 0.8]
    assert len(near) > 300
    found = sum(cluster[one] == cluster[other] for one, other in near)
    assert found >= 0.95 * len(near)


@pytest.mark.parametrize("threshold", [0.7, 0.8, 0.9])
def test_what_is_dropped_after_verification_truly_has_a_near_duplicate(
    pairs: dict[tuple[int, int], float], clusters: Clusters, threshold: float
) -> None:
    cluster = clusters(threshold)
    dropped = np.flatnonzero(cluster != np.arange(len(cluster))).tolist()
    similar = {document for pair, share in pairs.items() if share >= threshold for document in pair}
    true = [pairs.get((int(cluster[document]), document), 0.0) >= threshold for document in dropped]
    assert len(dropped) > 200
    assert set(dropped) <= similar
    assert sum(true) >= 0.95 * len(dropped)


def test_bands_find_pairs_as_often_as_their_curve_says(
    documents: list[str], pairs: dict[tuple[int, int], float]
) -> None:
    bands = MinHash().bands_of(pa.array(documents, pa.large_string()))
    found = [bool((bands[one] == bands[other]).any()) for one, other in pairs]
    chance = np.array([1 - (1 - share**8) ** 14 for share in pairs.values()])
    spread = float(np.sqrt((chance * (1 - chance)).sum()))
    assert abs(sum(found) - chance.sum()) < 3 * spread


def test_words_are_datatroves_but_for_what_it_does_not_take_for_punctuation(documents: list[str]) -> None:
    text = pytest.importorskip("datatrove.utils.text")

    fold = cache(fold_character)

    def alike(simplified: str) -> list[str]:
        """Datatrove's result with all punctuation, symbols and invisible characters treated as ours are."""
        return "".join(map(fold, simplified)).split()

    for document in documents[:120]:
        assert reference_words(document) == alike(text.simplify_text(document))


@pytest.mark.parametrize("part", [8, pytest.param(3, marks=pytest.mark.soak)])
def test_datatrove_finds_the_same_near_duplicates(texts: list[str], tmp_path: Path, part: int) -> None:
    """Its signatures and ours agree on pairs that are nearly equal and on pairs that are not alike."""
    minhash = pytest.importorskip("datatrove.pipeline.dedup.minhash")
    tokenizers = pytest.importorskip("datatrove.utils.word_tokenizers")

    class Whitespace(tokenizers.WordTokenizer):
        def word_tokenize(self, text: str) -> list[str]:
            return text.split()

        def sent_tokenize(self, text: str) -> list[str]:
            return [text]

        def span_tokenize(self, text: str) -> list[tuple[int, int]]:
            return [(0, len(text))]

    step = minhash.MinhashDedupSignature(str(tmp_path), language=Whitespace())
    some = [text for text in with_near_duplicates(texts[::part], 100) if len(text.split()) > 50]
    theirs = [[tuple(band) for band in step.get_signature(step.get_shingles(text))] for text in some]
    ours = MinHash().bands_of(pa.array(some, pa.large_string()))
    pairs = similar_pairs(some, 5, 0.0)
    sure = [(pair, share >= 0.95) for pair, share in pairs.items() if share >= 0.95 or share < 0.3]
    assert sum(near for _, near in sure) > 10
    for (one, other), near in sure:
        assert bool((ours[one] == ours[other]).any()) == near
        assert any(a == b for a, b in zip(theirs[one], theirs[other], strict=True)) == near
