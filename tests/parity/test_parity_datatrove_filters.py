"""`Filters` in the place of datatrove's own: the same documents, texts, reasons, metadata and statistics."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest

pytest.importorskip("datatrove")

from datatrove.data import Document
from datatrove.pipeline import filters as peers
from datatrove.utils.word_tokenizers import WordTokenizer

from krill.datatrove import Filters
from krill.text.words import split_sentences, split_words
from real_text import real_texts


class OurWords(WordTokenizer):
    """Krill's splitter, as datatrove takes one: what is compared are the rules."""

    def word_tokenize(self, text: str) -> list[str]:
        return split_words(text)

    def sent_tokenize(self, text: str) -> list[str]:
        return [sentence.strip() for sentence in split_sentences(text)]

    def span_tokenize(self, text: str) -> list[tuple[int, int]]:
        ends = np.cumsum([len(sentence) for sentence in split_sentences(text)]).tolist()
        return list(zip([0, *ends[:-1]], ends, strict=True))


class Written:
    """A writer that keeps what filters exclude."""

    def __init__(self) -> None:
        self.documents: list[tuple[str, str, dict[str, Any]]] = []

    def __enter__(self) -> Written:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def write(self, document: Document, rank: int) -> None:
        self.documents.append((document.id, document.text, dict(document.metadata)))


SENTENCE = "This is the sentence that we have to judge with care. "
TEXTS = [
    "I am too small...",
    "I am " * 40,
    "interconnection " * 60,
    "# comment " * 60,
    "... comment " * 60,
    "the ./!*?<><> apple <?////> orange  ++ interconnection !<>??? have" * 20,
    "I am your father.\n" * 4,
    "I am your father.\n\n" * 4,
    "I am groot.\n\nYou are a wizard.\n\nI am your father.\n\n" + f"{'x' * 30}.\n\n" * 2,
    "I am groot.\nYou are a wizard.\nI am your father.\n" + f"{'x' * 40}.\n" * 2,
    "I am Frank, I am Frank, I am Frank",
    "I am Frank, you are Jhon. I am Frank. I am Frank you are Jhon",
    (SENTENCE + "\n") * 6 + "Some lorem ipsum dolor sit amet.",
    (SENTENCE + "\n") * 6 + "A line of { code.",
    "This site uses cookies for tracking.\nAnother valid line here today.\nPlease enable javascript now.",
    f"{SENTENCE}\nshort.\nno end\n{'y' * 1200} has a long word here.\n{SENTENCE * 5}",
    "- one\n- two\n• three",
    "One line ends so。\nAnother one ends so!\nAnd a third ends so؟",
    "\n".join(["a"] * 50),
    "\n \n",
]

# What is passed to both sides; where Krill's words for it are other ones, both.
CASES: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "gopher_quality": ("gopher_quality", peers.GopherQualityFilter, {}),
    "gopher_quality, rules off": (
        "gopher_quality",
        peers.GopherQualityFilter,
        {
            "min_doc_words": None,
            "min_avg_word_length": 0,
            "max_avg_word_length": None,
            "min_stop_words": None,
        },
    ),
    "gopher_quality, ratios off": (
        "gopher_quality",
        peers.GopherQualityFilter,
        {
            "min_doc_words": 2,
            "max_symbol_word_ratio": None,
            "max_bullet_lines_ratio": 0,
            "max_ellipsis_lines_ratio": None,
            "max_non_alpha_words_ratio": None,
        },
    ),
    "gopher_quality, a ratio above one": (
        "gopher_quality",
        peers.GopherQualityFilter,
        {"min_doc_words": 2, "max_symbol_word_ratio": 1.5},
    ),
    "gopher_repetition": ("gopher_repetition", peers.GopherRepetitionFilter, {}),
    "gopher_repetition, rules off": (
        "gopher_repetition",
        peers.GopherRepetitionFilter,
        {"dup_line_frac": None, "dup_para_frac": 0, "dup_line_char_frac": 0, "dup_para_char_frac": None},
    ),
    "c4": ("c4", peers.C4QualityFilter, {}),
    "c4, rules off": (
        "c4",
        peers.C4QualityFilter,
        {"min_num_sentences": -1, "min_words_per_line": -1, "max_word_length": -1},
    ),
    "c4, sentences": ("c4", peers.C4QualityFilter, {"split_paragraph": False, "max_word_length": 30}),
    "fineweb": ("fineweb", peers.FineWebQualityFilter, {}),
    "fineweb, stops": (
        "fineweb",
        peers.FineWebQualityFilter,
        {"stop_chars": (".", "today", "。"), "line_punct_thr": 0.3, "new_line_ratio": 0},
    ),
}


def run(step: Any, documents: list[Document]) -> tuple[list[Any], dict[str, int]]:
    kept = [(document.id, document.text, dict(document.metadata)) for document in step.run(iter(documents))]
    return kept, {name: stat.total for name, stat in step.stats.stats.items()}


@pytest.mark.parametrize("case", CASES)
def test_documents_reasons_and_statistics_are_those_of_datatroves_filter(case: str) -> None:
    name, peer, options = CASES[case]
    texts = [*TEXTS, *(text[:4000] for text in islice(real_texts(), 0, 3000, 25))]
    if name == "gopher_quality":
        texts = [text for text in texts if text.strip()]  # where datatrove divides by zero
    results = []
    for make in (
        lambda writer: peer(**options, exclusion_writer=writer, language=OurWords()),
        lambda writer: Filters({name: options}, exclusion_writer=writer, batch_bytes="20kB"),
    ):
        writer = Written()
        documents = [
            Document(text=text, id=str(number), metadata={"url": f"u{number}"})
            for number, text in enumerate(texts)
        ]
        results.append((*run(make(writer), documents), writer.documents))
    (their_kept, their_counts, their_excluded), (our_kept, our_counts, our_excluded) = results
    assert our_kept == their_kept
    assert our_excluded == their_excluded
    assert our_counts == their_counts
    assert their_kept or "rules off" not in case


def test_one_document_is_judged_as_by_datatroves_filter() -> None:
    for name, peer, options in CASES.values():
        theirs, ours = peer(**options, language=OurWords()), Filters({name: options})
        for text in TEXTS:
            if name == "gopher_quality" and not text.strip():
                continue
            documents = [Document(text=text, id="x") for _ in range(2)]
            assert ours.filter(documents[0]) == theirs.filter(documents[1]), (name, options, text)
            assert documents[0].text == documents[1].text
