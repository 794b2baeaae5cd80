"""`Clean` and `Filters` inside datatrove decide as Krill's own steps do, whatever the batches are."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("datatrove")

from datatrove.data import Document
from datatrove.pipeline.filters.base_filter import BaseFilter
from datatrove_samples import Collected, documents_of, some_documents, totals

from krill.config import load_config
from krill.corpus.documents import Documents
from krill.datatrove import Clean, Filters
from krill.datatrove.batches import as_batch, in_batches
from krill.errors import ConfigError, InputError
from krill.text.build import filter_steps
from properties import tried

# Loose enough for technical prose.
FILTERS: list[Any] = [
    {"gopher_quality": {"max_non_alpha_words_ratio": 0.4, "min_stop_words": 0}},
    {"c4": {"filter_no_terminal_punct": False, "filter_curly_bracket": False}},
]


def by_krill(texts: list[str], filters: list[Any]) -> dict[int, str]:
    """The texts that are left, by their places."""
    settings = load_config({"preprocess": {"filters": filters, "min_chars": 0}}).preprocess
    columns = [pa.array(texts, pa.large_string()), pa.array(range(len(texts)), pa.uint64())]
    result = Documents(pa.RecordBatch.from_arrays(columns, ["text", "position"]))
    for step in filter_steps(settings):
        result = step.apply(result)
    batch = result.batch
    return dict(zip(batch["position"].to_pylist(), batch["text"].to_pylist(), strict=True))


@pytest.mark.parametrize("batch_bytes", [1, "40kB", "100MB"])
def test_documents_that_survive_are_those_of_krills_own_filters(batch_bytes: Any) -> None:
    documents = some_documents(200, step=7)
    expected = by_krill([document.text for document in documents], FILTERS)
    step = Filters(*FILTERS, batch_bytes=batch_bytes)
    kept = {int(document.id): document.text for document in step.run(iter(documents))}
    assert 20 < len(kept) < 200
    assert kept == expected
    counted = totals(step)
    assert counted["total"] == 200
    assert counted["forwarded"] == len(kept)
    assert counted["dropped"] == 200 - len(kept)
    assert sum(counted[name] for name in counted if name.startswith("dropped_")) == 200 - len(kept)


def test_what_is_dropped_goes_to_the_exclusion_writer_with_its_reason() -> None:
    writer = Collected()
    documents = documents_of(["too short", "lorem ipsum " * 20])
    step = Filters({"gopher_quality": {"min_doc_words": 5}}, "c4", exclusion_writer=writer)  # type: ignore[arg-type]
    assert list(step.run(iter(documents), rank=3)) == []
    assert writer.written == [("0", "gopher_short_doc", 3), ("1", "gopher_enough_stop_words", 3)]
    assert writer.closed


def test_cleaning_strips_removes_lone_surrogates_and_drops_what_is_short() -> None:
    step = Clean(min_chars=3)
    kept = list(step.run(iter(documents_of(["  abc\n", "a\ud800bc", "ab", "\u00e4\u00f6\u00fc"]))))
    assert [(document.id, document.text) for document in kept] == [("0", "abc"), ("1", "abc"), ("3", "äöü")]
    assert totals(step)["dropped_too_short"] == 1


def test_filters_take_lone_surrogates_for_nothing() -> None:
    kept = list(Filters("repeated_lines").run(iter(documents_of(["one\ntwo\ud800\none\n"]))))
    assert [document.text for document in kept] == ["one\ntwo\n"]


def test_metadata_and_ids_pass_a_filter_unchanged() -> None:
    document = Document(text="a b", id="x/7", metadata={"url": "u"})
    (kept,) = Filters(
        {"gopher_quality": {"min_doc_words": 0, "min_avg_word_length": 0.5, "min_stop_words": 0}}
    ).run(iter([document]))
    assert (kept.id, kept.metadata) == ("x/7", {"url": "u"})


ENGLISH = ("The weather was fine and we walked to the sea. " * 5).strip()
GERMAN = ("Das Wetter war schön, wir gingen ans Meer. " * 5).strip()


def test_the_language_and_its_score_are_metadata_of_every_document() -> None:
    writer = Collected()
    documents = documents_of([ENGLISH, GERMAN])
    documents[0].metadata["language"] = "?"
    step = Filters({"language": {"allow": ["de"]}}, "fineweb", exclusion_writer=writer)  # type: ignore[arg-type]
    kept = list(step.run(iter(documents)))
    assert [document.id for document in kept] == ["1"]
    assert [document.metadata["language"] for document in documents] == ["en", "de"]
    scores = [document.metadata["language_score"] for document in documents]
    assert all(type(score) is float and 0.65 < score <= 1 for score in scores)
    # datatrove's filter has no reason for another language, and counts none.
    assert writer.written == [("0", None, 0)]
    assert {name: count for name, count in totals(step).items() if name.startswith("dropped")} == {
        "dropped": 1
    }


def test_languages_are_named_as_by_datatroves_filter() -> None:
    def kept(**options: Any) -> list[str]:
        documents = documents_of([ENGLISH, GERMAN, "12 34"])
        return [document.id for document in Filters({"language": options}).run(iter(documents))]

    assert kept(languages="de", language_threshold=0.5) == ["1"]
    assert kept(languages=["de", "en"]) == ["0", "1"]
    assert kept(languages=None) == ["0", "1"]
    assert kept(languages=["de"], label_only=True) == ["0", "1", "2"]
    with pytest.raises(ConfigError, match="must name at least one language"):
        kept(languages=[])


def test_a_filter_is_one_of_datatroves_and_can_be_copied_after_it_was_used() -> None:
    step = Filters("fineweb", {"language": {"allow": ["en"]}})
    assert isinstance(step, BaseFilter)
    german, boilerplate = documents_of([GERMAN, "menu\nhome\nabout"])
    assert step.filter(german) is False
    assert step.filter(boilerplate) == (False, "line_punct_ratio")
    assert step.filter(documents_of([ENGLISH])[0]) is True
    for copied in (copy.deepcopy(step), pickle.loads(pickle.dumps(step))):
        assert copied.filter_batch(documents_of([ENGLISH, GERMAN])) == [True, False]


def test_columns_of_a_step_of_ones_own_are_metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_steps.py").write_text(
        "import pyarrow as pa\n"
        "import pyarrow.compute as pc\n"
        "def letters(batch):\n"
        "    return batch.append_column('letters', pc.utf8_length(batch['text']).cast(pa.int32()))\n"
        "def two(batch):\n"
        "    return pc.equal(batch['letters'], 2)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    documents = documents_of(["ab", "abc"])
    step = Filters("own_steps:letters", "own_steps:two")
    assert [document.id for document in step.run(iter(documents))] == ["0"]
    assert [document.metadata for document in documents] == [{"letters": 2}, {"letters": 3}]
    assert totals(step)["dropped_step:two"] == 1


def test_an_unknown_filter_is_refused_when_the_step_is_made() -> None:
    with pytest.raises(ConfigError, match="there is no filter `gopher`"):
        Filters("gopher")
    with pytest.raises(ConfigError, match="names no filter"):
        Filters()


def test_a_text_that_is_no_string_is_named() -> None:
    with pytest.raises(InputError, match="document `0` is of the type `int`"):
        list(Filters("fineweb").run(iter(documents_of([7]))))  # type: ignore[list-item]


@tried(50)
@given(st.lists(st.text(max_size=50)), st.integers(1, 2000))
def test_batches_hold_all_documents_in_order_and_end_at_their_bound(texts: list[str], most: int) -> None:
    documents = documents_of(texts)
    batches = list(in_batches(documents, most))
    assert [document for batch in batches for document in batch] == documents
    assert all(len(batch) == 1 or sum(len(d.text) for d in batch[:-1]) < most for batch in batches)


@tried(50)
@given(st.lists(st.text(st.characters(codec=None), max_size=20)))
def test_a_batch_has_the_texts_of_its_documents_as_bytes(texts: list[str]) -> None:
    column = as_batch(documents_of(texts)).column("text").cast(pa.large_binary()).to_pylist()
    assert column == [text.encode("utf-8", "surrogatepass") for text in texts]


def test_documents_may_come_as_an_array_of_numpys() -> None:
    documents = some_documents(40, step=7)
    array = np.empty(len(documents), dtype=object)
    array[:] = documents
    assert [len(batch) for batch in in_batches(array, 10**9)] == [40]
    assert list(in_batches(None, 10**9)) == []
    for step in (Clean, lambda: Filters(*FILTERS)):
        by_array = [document.id for document in step().run(array)]
        assert by_array == [document.id for document in step().run(iter(some_documents(40, step=7)))]
        assert by_array
        assert list(step().run(None)) == []
