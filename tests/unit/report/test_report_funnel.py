"""The funnel stands in the order in which documents meet the filters, and adds up."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from krill.config import KrillConfig
from krill.pipeline.summary import REASONS_BY_STAGES, deciding_key, document_counts
from krill.report.figures import Figures
from krill.report.funnel import rule_of
from krill.report.page import write_report
from krill.text.build import REASONS
from report_runs import make_dataset, sentence

WHOLE = "{} It is one of the many that have been seen by the ships of the company in the last years."
# The first document that is dropped breaks the last filter.
DOCUMENTS = [
    *(WHOLE.format(sentence(number)) * 2 for number in range(8)),
    "A secret { in curly brackets. It has to be long enough for all of the rules. And one more here.",
    *("Words that nobody should read, of whales and the sea and of ships. " * number for number in (2, 3)),
    "short",
    WHOLE.format(sentence(0)) * 2,
]
FILTERS = [{"blocklist": {"patterns": ["nobody should read"]}}, {"c4": {"min_num_sentences": 0}}]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("funnel")
    made = make_dataset(folder, documents=DOCUMENTS, filters=FILTERS)
    write_report([str(made)], folder / "report.html", memory="8GB")
    return (folder / "report.html").read_text(encoding="utf-8")


def rows_of(page: str, caption: str) -> list[list[str]]:
    table = re.search(rf"<caption>{caption}</caption>.*?</table>", page, re.DOTALL)
    assert table is not None
    rows = re.findall(r"<tr><td.*?</tr>", table[0])
    return [[html.unescape(cell) for cell in re.findall(r"<td[^>]*>([^<]*)</td>", row)] for row in rows]


def test_reasons_stand_in_the_order_of_the_filters_with_what_is_left_after_each(page: str) -> None:
    assert rows_of(page, "From documents read to documents kept") == [
        ["read", "13", "", "100.0%", ""],
        ["fewer than min_chars characters", "-1", "7.7%", "92.3%", "min_chars: 50"],
        ["a pattern of a block list was found", "-2", "15.4%", "76.9%", ""],
        ["C4: a curly bracket", "-1", "7.7%", "69.2%", "c4.filter_curly_bracket: true"],
        ["duplicates", "-1", "7.7%", "61.5%", 'dedup.method: "exact"'],
        ["kept", "8", "61.5%", "61.5%", ""],
    ]


@pytest.mark.parametrize("reason", sorted({**REASONS, **REASONS_BY_STAGES}))
def test_every_key_that_decides_is_one_of_the_config(reason: str) -> None:
    filters = [{name: {}} for name in ("gopher_quality", "gopher_repetition", "c4", "fineweb", "language")]
    config = KrillConfig.model_validate({"preprocess": {"filters": filters}}).model_dump(mode="json")
    key = deciding_key(reason)
    if key is not None:
        section, _, name = key.rpartition(".")
        inside = config["preprocess"]
        for one in inside["filters"]:
            inside = one if one["name"] == section else inside
        assert name in (inside[section] if section == "dedup" else inside), key
    elif reason.startswith(("gopher_", "c4_", "fineweb_")):
        assert reason in ("gopher_empty", "fineweb_empty")


def test_thresholds_for_words_in_a_row_are_those_of_their_number() -> None:
    filters = [{"name": "gopher_repetition", "top_n_grams": [[2, 0.2], [3, 0.18]]}]
    once, twice = (Figures({"preprocess": {"filters": filters * times}}) for times in (1, 2))
    assert rule_of("gopher_top_3_gram", once) == "gopher_repetition.top_n_grams: [3,0.18]"
    assert rule_of("gopher_top_4_gram", once) == "gopher_repetition.top_n_grams: [[2,0.2],[3,0.18]]"
    assert rule_of("gopher_top_3_gram", twice) == ""
    assert rule_of("gopher_top_3_gram", Figures({"preprocess": {"filters": 7}})) == ""
    assert rule_of("malformed", once) == ""


def test_the_overview_has_the_filters_in_few_lines(page: str) -> None:
    rows = rows_of(page, "Where documents went, step by step")
    assert [row[0] for row in rows] == [
        "read",
        "fewer than min_chars characters",
        "a pattern of a block list was found",
        "C4",
        "duplicates",
        "kept",
    ]


def test_examples_stand_in_the_same_order(page: str) -> None:
    summaries = re.findall(r"<summary>([^<]*? of \d+ documents?)</summary>", page)
    assert summaries == [
        "fewer than min_chars characters: 1 of 1 document",
        "a pattern of a block list was found: 2 of 2 documents",
        "C4: a curly bracket: 1 of 1 document",
    ]


def test_what_each_source_lost_stands_side_by_side(tmp_path: Path) -> None:
    import krill

    for name, texts in (("first", DOCUMENTS[:4]), ("second", DOCUMENTS[8:])):
        make_dataset(tmp_path / name, documents=texts)
    config = {
        "datasets": [{"path": str(tmp_path / name / "documents.jsonl")} for name in ("first", "second")],
        "tokenizer": {"builtin": "bytes"},
        "preprocess": {
            "prepared_path": str(tmp_path / "both"),
            "sequence_len": 64,
            "min_chars": 50,
            "min_length": 0,
            "filters": FILTERS,
        },
    }
    krill.preprocess(config, memory="400MB")
    write_report([str(tmp_path / "both")], tmp_path / "report.html", memory="8GB")
    rows = rows_of((tmp_path / "report.html").read_text(), "Share of each source that was dropped, by reason")
    assert rows == [
        ["fewer than min_chars characters", "-", "20.0%"],
        ["a pattern of a block list was found", "-", "40.0%"],
        ["C4: a curly bracket", "-", "20.0%"],
        ["duplicates", "-", "20.0%"],
        ["kept", "100.0%", "0.0%"],
    ]


def test_a_report_says_which_languages_the_filter_dropped(tmp_path: Path) -> None:
    german = "Die Wale fressen Krill im kalten Ozean, und der Krill frisst Plankton, das dort schwebt."
    texts = [WHOLE.format(sentence(number)) for number in range(6)] + [f"{german} {n}" for n in range(3)]
    made = make_dataset(tmp_path, documents=texts, filters=[{"language": {"allow": ["en"]}}])
    write_report([str(made)], tmp_path / "report.html", memory="8GB", samples=False)
    page = (tmp_path / "report.html").read_text()
    assert rows_of(page, "Dropped by the filter of languages, by language") == [["de", "3"]]


def test_counts_that_no_step_names_stand_behind_those_that_one_does() -> None:
    counts = {
        "duplicate": 1,
        "step:mine": 2,
        "language:de": 3,
        "language": 3,
        "too_short": 4,
        "malformed": 5,
        "records": 6,
    }
    steps = ["not_text", "too_short", "language"]
    assert list(document_counts(counts, 10, steps)["dropped"]) == [
        "malformed",
        "too_short",
        "language",
        "step:mine",
        "duplicate",
    ]
