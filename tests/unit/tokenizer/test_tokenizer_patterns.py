"""Patterns: their sections in a tokenizer.json, and which spellings of public models stand for which."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from tokenizers import Regex, Tokenizer, models
from tokenizers.pre_tokenizers import Split

from krill.errors import ConfigError
from krill.tokenizer.patterns import PATTERNS, check_pattern, pre_tokenizer, recognise

BYTES_ONLY = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
O200K_WITHOUT_SLASH = PATTERNS["o200k"].replace("[\\r\\n/]*", "[\\r\\n]*")

# As public tokenizer.json files write them, and tiktoken in several versions.
SPELLINGS = [
    ("gpt2", PATTERNS["gpt2"]),
    ("gpt2", r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"),
    ("gpt2", r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"),
    ("cl100k", PATTERNS["cl100k"]),
    ("llama3", PATTERNS["llama3"]),
    (
        "llama3",
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*"
        r"|\s*[\r\n]|\s+(?!\S)|\s+",
    ),
    (
        "llama3",
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    (
        "qwen2",
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    ("o200k", PATTERNS["o200k"]),
]


def section(
    regex: str, behavior: str = "Isolated", invert: bool = False, last: Any = BYTES_ONLY
) -> dict[str, Any]:
    split = {"type": "Split", "pattern": {"Regex": regex}, "behavior": behavior, "invert": invert}
    return {"type": "Sequence", "pretokenizers": [split, last]}


@pytest.mark.parametrize("pattern", [*PATTERNS, r"\w+|\W+"])
def test_a_section_is_what_the_library_itself_would_write(pattern: str) -> None:
    tokenizer = json.loads(Tokenizer(models.BPE()).to_str()) | {"pre_tokenizer": pre_tokenizer(pattern)}
    written = json.loads(Tokenizer.from_str(json.dumps(tokenizer)).to_str())
    assert written["pre_tokenizer"] == pre_tokenizer(pattern)


def test_gpt2_is_the_plain_byte_level_step_and_others_split_first() -> None:
    assert pre_tokenizer("gpt2") == BYTES_ONLY | {"use_regex": True}
    assert pre_tokenizer("qwen2") == section(PATTERNS["qwen2"])
    assert pre_tokenizer(r"\w+|\W+") == section(r"\w+|\W+")


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_section_is_recognised_as_the_pattern_it_was_made_for(pattern: str) -> None:
    assert recognise(pre_tokenizer(pattern)) == pattern


@pytest.mark.parametrize(("name", "regex"), SPELLINGS)
def test_spellings_of_public_models_are_recognised(name: str, regex: str) -> None:
    assert recognise(section(regex)) == name
    assert recognise(section(regex, "Removed", invert=True)) == name


@pytest.mark.parametrize(("name", "regex"), SPELLINGS)
def test_spellings_that_are_recognised_cut_text_alike(name: str, regex: str) -> None:
    known, spelled = Split(Regex(PATTERNS[name]), "isolated"), Split(Regex(regex), "isolated")
    for characters in itertools.product(" \n!'sS1é", repeat=4):
        text = "".join(characters) + "1234"
        assert spelled.pre_tokenize_str(text) == known.pre_tokenize_str(text)


@pytest.mark.parametrize(
    "other",
    [
        None,
        {"type": "Whitespace"},
        BYTES_ONLY,
        BYTES_ONLY | {"use_regex": True, "add_prefix_space": True},
        {"type": "Sequence", "pretokenizers": []},
        {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, BYTES_ONLY]},
        {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"String": " "}}, BYTES_ONLY]},
        section(PATTERNS["gpt2"], "Removed"),
        section(PATTERNS["gpt2"], "Contiguous"),
        section(PATTERNS["gpt2"], last=BYTES_ONLY | {"use_regex": True}),
        section(PATTERNS["gpt2"], last=BYTES_ONLY | {"add_prefix_space": True}),
        section(PATTERNS["gpt2"], last={"type": "Whitespace"}),
        section(O200K_WITHOUT_SLASH),
        section(PATTERNS["o200k"].replace("{1,3}", "")),
        section(PATTERNS["llama3"].replace("{1,3}", "{1,2}")),
        section(PATTERNS["cl100k"].replace("{1,3}+", "{1,3}")),
        section(r"\w+|\W+"),
    ],
)
def test_what_cuts_otherwise_is_not_recognised(other: Any) -> None:
    assert recognise(other) is None


def test_a_file_older_than_use_regex_is_gpt2() -> None:
    assert recognise({"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}) == "gpt2"


@pytest.mark.parametrize("pattern", [*PATTERNS, r"\w+|\W+", r" ?\p{L}+|."])
def test_names_and_regexes_pass_the_check(pattern: str) -> None:
    check_pattern(pattern)


@pytest.mark.parametrize("pattern", ["(", r"[^\s", r"\p{Foo}+"])
def test_a_regex_that_the_library_refuses_is_an_error_that_shows_it(pattern: str) -> None:
    with pytest.raises(ConfigError, match="is not a regex that the tokenizers library takes") as raised:
        check_pattern(pattern)
    assert f"`{pattern}`" in raised.value.message
    assert "Oniguruma error" in raised.value.message


@pytest.mark.parametrize("name", ["gpt4", "GPT2", "cl100k_base", ""])
def test_a_name_that_does_not_exist_is_not_taken_for_a_regex(name: str) -> None:
    with pytest.raises(ConfigError, match=f"no pattern is named `{name}`") as raised:
        check_pattern(name)
    assert raised.value.hint == "give one of `gpt2`, `cl100k`, `o200k`, `llama3`, `qwen2`, or a regex"
