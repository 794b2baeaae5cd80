"""`preprocess.filters`: every spelling, presets, and what is wrong with an entry."""

from __future__ import annotations

from typing import Any

import pytest

from krill.config import canonical_yaml, load_config
from krill.config.filters import C4, FineWeb, GopherQuality, GopherRepetition, Language, UserStep
from krill.errors import ConfigError


def filters(entries: Any) -> tuple[Any, ...]:
    return load_config({"preprocess": {"filters": entries}}, environ={}).preprocess.filters


@pytest.mark.parametrize(
    "entry",
    ["gopher_quality", {"gopher_quality": None}, {"gopher_quality": {}}, {"name": "gopher_quality"}],
)
def test_a_filter_may_be_named_in_several_ways(entry: Any) -> None:
    assert filters([entry]) == (GopherQuality(),)
    assert filters(entry) == (GopherQuality(),)


def test_thresholds_are_set_by_their_names() -> None:
    (found,) = filters([{"gopher_quality": {"min_doc_words": 20, "stop_words": ["der", "die"]}}])
    assert (found.min_doc_words, found.max_doc_words) == (20, 100_000)
    assert found.stop_words == ("der", "die")
    (found,) = filters([{"gopher_repetition": {"top_n_grams": [[2, 0.5]]}}])
    assert found.top_n_grams == ((2, 0.5),)


def test_a_preset_stands_for_several_filters_in_fineweb_s_order() -> None:
    assert filters(["web-en"]) == (
        Language(allow=("en",)),
        GopherRepetition(),
        GopherQuality(),
        C4(filter_no_terminal_punct=False),
        FineWeb(),
    )
    assert [entry.name for entry in filters(["web-any", "c4"])] == [
        "gopher_repetition",
        "gopher_quality",
        "fineweb",
        "c4",
    ]


def test_a_function_of_one_s_own_is_named_by_module_and_function() -> None:
    assert filters(["my.module:keep"]) == (UserStep(function="my.module:keep"),)


def test_filters_survive_being_written_and_read_again() -> None:
    config = load_config(
        {"preprocess": {"filters": ["web-en", "a:b", {"language": {"allow": ["de"]}}]}}, environ={}
    )
    import yaml

    assert load_config(yaml.safe_load(canonical_yaml(config)), environ={}) == config


@pytest.mark.parametrize(
    ("entries", "fact"),
    [
        (["gofer_quality"], "there is no filter `gofer_quality`; did you mean `gopher_quality`?"),
        ([{"gofer_quality": {}}], "did you mean `gopher_quality`?"),
        ([{"c4": {"min": 1}}], "`preprocess.filters.0.c4.min` is not a key of this section"),
        ([{"c4": 5}], "`c4` takes a section of keys, not `5`"),
        ([{"c4": {}, "fineweb": {}}], "an entry is a filter's name or `name: {its thresholds}`"),
        ([5], "an entry is a filter's name"),
        (5, "must be a list"),
        ([{"language": {"min_score": 2}}], "must be a number from 0 up to 1"),
        ([{"language": {"allow": []}}], "`preprocess.filters.0.language.allow`"),
        ([{"gopher_quality": {"stop_words": ["a", "a"]}}], "must not repeat `a`"),
        ([{"name": "step"}], "`preprocess.filters.0.step.function` is required"),
    ],
)
def test_what_is_wrong_with_an_entry_is_told(entries: Any, fact: str) -> None:
    with pytest.raises(ConfigError) as caught:
        filters(entries)
    assert fact in caught.value.message
