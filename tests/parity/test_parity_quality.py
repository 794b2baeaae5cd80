"""Given our words and sentences, datatrove's quality filters decide the same and measure the same."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from word_traits import SYMBOLS, TERMINAL

from krill.config.filters import C4, FineWeb, GopherQuality, GopherRepetition
from krill.corpus.documents import Documents
from krill.text.quality import quality_step
from krill.text.words import split_sentences, split_words

datatrove = pytest.importorskip("datatrove")

from datatrove.data import Document  # noqa: E402
from datatrove.pipeline import filters as peers  # noqa: E402
from datatrove.pipeline.filters import gopher_repetition_filter as repetition  # noqa: E402
from datatrove.utils.text import PUNCTUATION_SET, TERMINAL_PUNCTUATION  # noqa: E402
from datatrove.utils.word_tokenizers import WordTokenizer  # noqa: E402


class OurWords(WordTokenizer):
    """Krill's splitter as datatrove takes one: pass an instance as `language`."""

    def word_tokenize(self, text: str) -> list[str]:
        return split_words(text)

    def sent_tokenize(self, text: str) -> list[str]:
        return [sentence.strip() for sentence in split_sentences(text)]

    def span_tokenize(self, text: str) -> list[tuple[int, int]]:
        ends = np.cumsum([len(sentence) for sentence in split_sentences(text)]).tolist()
        return list(zip([0, *ends[:-1]], ends, strict=True))


OURS = OurWords()
# Sections, datatrove's filters, and what stands before its reasons.
CASES: dict[str, tuple[Any, Callable[..., Any], dict[str, Any], str]] = {
    "gopher_quality": (GopherQuality(), peers.GopherQualityFilter, {}, ""),
    "gopher_quality, loose": (
        GopherQuality(max_non_alpha_words_ratio=0.4, min_doc_words=None, min_stop_words=5),
        peers.GopherQualityFilter,
        {"max_non_alpha_words_ratio": 0.4, "min_doc_words": None, "min_stop_words": 5},
        "",
    ),
    "gopher_repetition": (GopherRepetition(), peers.GopherRepetitionFilter, {}, "gopher_"),
    "c4": (C4(), peers.C4QualityFilter, {}, "c4_"),
    "c4, as FineWeb": (
        C4(filter_no_terminal_punct=False),
        peers.C4QualityFilter,
        {"filter_no_terminal_punct": False},
        "c4_",
    ),
    "c4, by sentence": (
        C4(split_paragraph=False, filter_curly_bracket=False),
        peers.C4QualityFilter,
        {"split_paragraph": False, "filter_curly_bracket": False},
        "c4_",
    ),
    "fineweb": (FineWeb(), peers.FineWebQualityFilter, {}, "fineweb_"),
}


def some_texts(sample: Path, step: int) -> list[str]:
    with gzip.open(sample) as file:
        return [orjson.loads(line)["text"] for line in islice(file, 0, None, step)]


def documents_of(texts: list[str]) -> Documents:
    columns = [pa.array(texts, pa.large_string()), pa.array(range(len(texts)), pa.uint64())]
    return Documents(pa.RecordBatch.from_arrays(columns, ["text", "position"]), {}, ())


def decisions(texts: list[str], section: Any) -> Iterator[tuple[str | None, str]]:
    """The reason, if any, and the text that is left, of each."""
    result = quality_step([section], statistics=False).apply(documents_of(texts))
    assert result.rejected is not None
    reasons = {row["position"]: row["reason"] for batch in result.rejected for row in batch.to_pylist()}
    kept = dict(zip(result.batch["position"].to_pylist(), result.batch["text"].to_pylist(), strict=True))
    for row, text in enumerate(texts):
        yield reasons.get(row), kept.get(row, text)


def assert_same_decisions(texts: list[str], case: str) -> None:
    section, peer, options, prefix = CASES[case]
    theirs = peer(**options, language=OURS)
    for text, (reason, left) in zip(texts, decisions(texts, section), strict=True):
        document = Document(text=text, id="")
        verdict = theirs.filter(document)
        assert reason == (None if verdict is True else prefix + verdict[1]), text[:200]
        assert left == document.text


def assert_same_values(texts: list[str]) -> None:
    """Thresholds that drop nothing, so that there are values of every document."""
    quality = GopherQuality(
        min_doc_words=None,
        max_doc_words=None,
        min_avg_word_length=1e-9,
        max_avg_word_length=1e9,
        max_symbol_word_ratio=0,
        max_bullet_lines_ratio=0,
        max_ellipsis_lines_ratio=0,
        max_non_alpha_words_ratio=0,
        min_stop_words=0,
    )
    never = [(n, 1.0) for n in (2, 3, 4)], [(n, 1.0) for n in range(5, 11)]
    grams = GopherRepetition(
        dup_line_frac=0,
        dup_para_frac=0,
        dup_line_char_frac=0,
        dup_para_char_frac=0,
        top_n_grams=never[0],
        dup_n_grams=never[1],
    )
    lines = FineWeb(line_punct_thr=0, short_line_thr=1, char_duplicates_ratio=1, new_line_ratio=1e9)
    batch = quality_step([quality, grams, lines], statistics=True).apply(documents_of(texts)).batch
    assert batch.num_rows == len(texts)
    measured = batch.drop_columns(["text", "position"]).to_pylist()
    for text, found in zip(texts, measured, strict=True):
        assert found == {**quality_values(text), **repetition_values(text), **line_values(text)}, text[:200]


def quality_values(text: str) -> dict[str, float]:
    """What datatrove's GopherQualityFilter computes on the way to its decision."""
    words = split_words(text)
    lines = text.splitlines()
    real = [len(word) for word in words if any(c not in PUNCTUATION_SET for c in word)]
    return {
        "gopher_words": len(real),
        "gopher_mean_word_length": np.mean(real),
        "gopher_hash_ratio": text.count("#") / len(words),
        "gopher_ellipsis_ratio": (text.count("...") + text.count("…")) / len(words),
        "gopher_bullet_lines": sum(s.lstrip().startswith(("•", "-")) for s in lines) / len(lines),
        "gopher_ellipsis_lines": sum(s.rstrip().endswith(("...", "…")) for s in lines) / len(lines),
        "gopher_alpha_words": sum(any(c.isalpha() for c in word) for word in words) / len(words),
        "gopher_stop_words": len(peers.GopherQualityFilter().stop_words & set(words)),
    }


def repetition_values(text: str) -> dict[str, float]:
    """The same for GopherRepetitionFilter, by its own functions."""
    theirs = peers.GopherRepetitionFilter()
    words = split_words(text)
    paragraphs = theirs.paragraph_exp.split(text.strip())
    lines = theirs._line_splitter.split(text)
    repeated = repetition.find_duplicates(paragraphs), repetition.find_duplicates(lines)
    return {
        "gopher_dup_paragraphs": repeated[0][0] / len(paragraphs),
        "gopher_dup_paragraph_chars": repeated[0][1] / len(text),
        "gopher_dup_lines": repeated[1][0] / len(lines),
        "gopher_dup_line_chars": repeated[1][1] / len(text),
        **{f"gopher_top_{n}_gram": top_share(text, words, n) for n in (2, 3, 4)},
        **{
            f"gopher_dup_{n}_grams": repetition.find_all_duplicate(words, n) / len(text) for n in range(5, 11)
        },
    }


def top_share(text: str, words: list[str], n: int) -> float:
    grams = repetition.get_n_grams(words, n)
    return repetition.find_top_duplicate(grams) / len(text) if grams else 0


def line_values(text: str) -> dict[str, float]:
    """The same for FineWebQualityFilter."""
    lines = [line for line in text.split("\n") if line.strip() != ""]
    return {
        "fineweb_line_punct_ratio": sum(s.endswith(tuple(TERMINAL_PUNCTUATION)) for s in lines) / len(lines),
        "fineweb_short_line_ratio": sum(len(line) <= 30 for line in lines) / len(lines),
        "fineweb_char_dup_ratio": repetition.find_duplicates(lines)[1] / len(text.replace("\n", "")),
        "fineweb_list_ratio": text.count("\n") / len(split_words(text)),
    }


def test_our_sets_of_characters_are_theirs() -> None:
    assert TERMINAL == TERMINAL_PUNCTUATION
    assert SYMBOLS == PUNCTUATION_SET


@pytest.mark.parametrize("case", CASES)
def test_datatrove_decides_the_same_on_some_documents(case: str, sample: Path) -> None:
    assert_same_decisions(some_texts(sample, 60), case)


def test_datatrove_measures_the_same_on_some_documents(sample: Path) -> None:
    assert_same_values(some_texts(sample, 40))


@pytest.mark.soak
@pytest.mark.parametrize("case", CASES)
def test_datatrove_decides_the_same_on_every_document(case: str, sample: Path) -> None:
    assert_same_decisions(some_texts(sample, 1), case)


@pytest.mark.soak
def test_datatrove_measures_the_same_on_every_document(sample: Path) -> None:
    assert_same_values(some_texts(sample, 1))


def test_our_words_are_those_of_spacy_but_for_a_few(sample: Path) -> None:
    spacy = pytest.importorskip("spacy").blank("en")
    total = differ = 0
    with spacy.memory_zone():  # one for all: it remembers the words that it has seen
        for text in some_texts(sample, 100):
            theirs = word_places([word for token in spacy(text) if (word := token.text.strip())])
            total += len(theirs)
            differ += len(theirs - word_places(split_words(text)))
    assert total > 40_000
    assert differ < total / 1000


def word_places(words: list[str]) -> set[tuple[int, int]]:
    """Where words begin and end, spaces not counted."""
    ends = np.cumsum([len(word) for word in words]).tolist()
    return set(zip([0, *ends[:-1]], ends, strict=True))
