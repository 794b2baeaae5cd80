"""A key that does not exist is refused with the one that was meant."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from krill.config import KrillConfig, load_config
from krill.config.aliases import FLAT_KEYS, MOVED_FROM_TOP
from krill.config.keys import Level, level_of, nearest, suggest
from krill.errors import ConfigError

ROOT = level_of(KrillConfig)
WITH_FLAT_KEYS = Level({**ROOT.keys, **dict.fromkeys(FLAT_KEYS)})
SECTIONS = {name: below for name, below in ROOT.keys.items() if below is not None}


def names_below(level: Level) -> set[str]:
    """The keys of a level and of all levels inside it."""
    inside = (names_below(below) for below in level.keys.values() if below is not None)
    return {*level.keys, *(name for names in inside for name in names)}


ALL_NAMES = names_below(WITH_FLAT_KEYS)


def fault_of(tree: dict[str, Any], *overrides: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load_config(tree, environ={}, overrides=overrides)
    return caught.value


@pytest.mark.parametrize(
    ("tree", "key", "hint"),
    [
        (
            {"preprocess": {"sequence_length": 5}},
            "preprocess.sequence_length",
            "did you mean `sequence_len`?",
        ),
        ({"prepared_path": "x"}, "prepared_path", "it belongs under `preprocess:`"),
        ({"text_column": "x"}, "text_column", "it belongs under `datasets:`"),
        ({"max_tokens": 5}, "max_tokens", "it belongs under `datasets:` or under `train:`"),
        ({"validation": 0}, "validation", "it belongs under `preprocess.split:`"),
        ({"train": {"memory": "1GB"}}, "train.memory", "it belongs at the top level"),
        ({"train": {"sequence_len": 5}}, "train.sequence_len", "it belongs under `preprocess:`"),
        (
            {"preprocess": {"dataset_prepared_path": "x"}},
            "preprocess.dataset_prepared_path",
            "did you mean `prepared_path`?",
        ),
        ({"Memory": "1GB"}, "Memory", "did you mean `memory`?"),
        ({"sequence_length": 5}, "sequence_length", "did you mean `sequence_len`?"),
        (
            {"datasets": [{"path": "a"}, {"txt_column": "b"}]},
            "datasets.1.txt_column",
            "did you mean `text_column`?",
        ),
        ({"learning_rte": 1}, "learning_rte", "did you mean `learning_rate`, which belongs under `train:`?"),
        ({"preprocess": {"split": {"xyz": 1}}}, "preprocess.split.xyz", "known keys here are `validation`"),
        (
            {5: 1},
            "5",
            "known keys here are `chat_template`, `chat_template_date`, `chat_template_kwargs`, `datasets`, "
            "`disk`, `engine`, `memory`, `preprocess`, `seed`, `spill_dir`, `threads`, `tokenizer`, `train`, "
            "`verify`",
        ),
    ],
)
def test_an_unknown_key_is_refused_with_the_one_that_was_meant(
    tree: dict[str, Any], key: str, hint: str
) -> None:
    fault = fault_of(tree)
    assert fault.message == f"unknown key `{key}` in the config"
    assert fault.hint == hint
    assert fault.exit_code == 2


@pytest.mark.parametrize(
    ("override", "hint"),
    [
        ("datasets.path=x", "did you mean `datasets.0.path`?"),
        ("memory.limit=5", "`memory` has no keys of its own"),
        ("preprocess.dedupe=none", "did you mean `dedup`?"),
    ],
)
def test_an_unknown_key_of_an_override_is_refused_in_the_same_way(override: str, hint: str) -> None:
    fault = fault_of({}, override)
    assert fault.message == f"unknown key `{override.partition('=')[0]}` in --set"
    assert fault.hint == hint


def test_all_unknown_keys_are_told_together() -> None:
    fault = fault_of({"prepared_path": "x", "preprocess": {"sequence_length": 5}})
    assert fault.message.splitlines() == [
        "2 keys of the config are unknown:",
        "  unknown key `prepared_path` in the config: it belongs under `preprocess:`",
        "  unknown key `preprocess.sequence_length` in the config: did you mean `sequence_len`?",
    ]


@st.composite
def misspelled(draw: st.DrawFn) -> tuple[str, str, str]:
    """A section, one of its keys, and that key with one letter changed, dropped or added."""
    section = draw(st.sampled_from(sorted(SECTIONS)))
    name = draw(st.sampled_from(sorted(SECTIONS[section].keys)))
    at = draw(st.integers(0, len(name) - 1))
    letter = draw(st.sampled_from("abcxyz_-"))
    cut = draw(st.sampled_from([(0, letter), (1, ""), (1, letter)]))
    return section, name, name[:at] + cut[1] + name[at + cut[0] :]


@given(misspelled())
def test_one_wrong_letter_still_finds_the_key_or_one_no_less_alike(case: tuple[str, str, str]) -> None:
    section, name, wrong = case
    if wrong in ALL_NAMES or len(name) < 4:
        return
    path: tuple[str | int, ...] = (section, 0, wrong) if SECTIONS[section].listed else (section, wrong)
    suggestion = suggest(path, WITH_FLAT_KEYS, MOVED_FROM_TOP)
    assert suggestion is not None
    assert suggestion.name in ALL_NAMES
    assert nearest(wrong, [name, suggestion.name]) == suggestion.name or suggestion.name == name


@given(st.text(max_size=30))
def test_any_name_is_refused_without_a_crash_and_only_known_names_are_suggested(name: str) -> None:
    suggestion = suggest((name,), WITH_FLAT_KEYS, MOVED_FROM_TOP)
    assert suggestion is None or suggestion.name in ALL_NAMES
    if name not in WITH_FLAT_KEYS.keys and name != "datatrove":
        assert fault_of({name: 1}).message == f"unknown key `{name}` in the config"


@given(st.text(max_size=20), st.lists(st.text(min_size=1, max_size=20), max_size=8))
def test_the_nearest_name_is_one_of_the_known_and_a_known_name_is_its_own(
    name: str, known: list[str]
) -> None:
    found = nearest(name, known)
    assert found is None or found in known
    if name and name in known:
        assert found is not None and found.lower() == name.lower()
