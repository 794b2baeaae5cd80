"""`implementation: datatrove`: its own filters decide, under Krill's names for the reasons."""

from __future__ import annotations

from importlib.metadata import version
from itertools import islice

import pyarrow as pa
import pytest

from krill.config import load_config
from krill.corpus.documents import Documents
from krill.errors import ConfigError
from krill.text.build import REASONS, filter_steps, fingerprints_of, step_needs
from peers import peer
from real_text import real_texts

pytest.importorskip("datatrove")

from datatrove.data import Document
from datatrove.pipeline import filters as peers

peer("spacy")

NAMES = {
    "gopher_quality": (peers.GopherQualityFilter, ""),
    "gopher_repetition": (peers.GopherRepetitionFilter, "gopher_"),
    "c4": (peers.C4QualityFilter, "c4_"),
    "fineweb": (peers.FineWebQualityFilter, "fineweb_"),
}


def applied(texts: list[str], filters: list[object]) -> Documents:
    settings = load_config({"preprocess": {"filters": filters, "min_chars": 0}}).preprocess
    columns = [pa.array(texts, pa.large_string()), pa.array(range(len(texts)), pa.uint64())]
    documents = Documents(pa.RecordBatch.from_arrays(columns, ["text", "position"]), {}, ())
    for step in filter_steps(settings):
        documents = step.apply(documents)
    return documents


@pytest.mark.parametrize("name", NAMES)
def test_decisions_texts_and_reasons_are_those_of_datatroves_filter(name: str) -> None:
    texts = [text[:2000] for text in islice(real_texts(), 0, 4000, 100)]
    result = applied(texts, [{name: {"implementation": "datatrove"}}])
    peer, prefix = NAMES[name]
    theirs = peer()
    kept, reasons = [], []
    for text in texts:
        document = Document(text=text, id="")
        verdict = theirs.filter(document)
        if verdict is True:
            kept.append(document.text)
        else:
            reasons.append(prefix + verdict[1])
    assert result.batch["text"].to_pylist() == kept
    assert result.rejected is not None
    assert [row["reason"] for rows in result.rejected for row in rows.to_pylist()] == reasons
    assert sum(result.counts.values()) == len(reasons)
    assert set(reasons) <= set(REASONS)


def test_thresholds_reach_it_and_krills_own_filters_stand_beside_it() -> None:
    filters = [
        {"gopher_quality": {"implementation": "datatrove", "min_doc_words": 3, "min_stop_words": 0}},
        {"gopher_quality": {"min_doc_words": 4, "min_stop_words": 0}},
    ]
    result = applied(["some two", "these are three", "here are four words"], filters)
    assert result.batch["text"].to_pylist() == ["here are four words"]
    assert result.counts == {"gopher_short_doc": 2}


def test_the_plan_counts_what_spacy_holds() -> None:
    settings = load_config({"preprocess": {"filters": [{"c4": {"implementation": "datatrove"}}]}}).preprocess
    (need,) = step_needs(settings, threads=2)
    assert need.name == "datatrove's filters"
    assert need.minimum == 300_000_000 + 64 * 4_000_000


def test_the_versions_of_those_who_judge_are_a_part_of_what_a_run_is() -> None:
    settings = load_config(
        {"preprocess": {"filters": [{"c4": {"implementation": "datatrove"}}, "c4"]}}
    ).preprocess
    (found,) = fingerprints_of(filter_steps(settings))
    assert found == f"datatrove {version('datatrove')}, spacy {version('spacy')}"


def test_only_filters_that_datatrove_has_take_an_implementation() -> None:
    with pytest.raises(ConfigError, match="implementation"):
        load_config({"preprocess": {"filters": [{"language": {"implementation": "datatrove"}}]}})
    with pytest.raises(ConfigError, match="implementation"):
        load_config({"preprocess": {"filters": [{"c4": {"implementation": "dolma"}}]}})
