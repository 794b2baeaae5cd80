"""Bad input, what is asked for: a budget that is too small ends with 4 before anything is read, a
config or command that can't be understood with 2, naming the key and the nearest known one."""

from __future__ import annotations

import re

import pytest
from tokenizers import Tokenizer, models

from jobs import check_error, check_refused, document, json_lines

pytest_plugins = ["job_fixtures"]

DOCUMENTS = json_lines(document(number) for number in range(20))


# The budget.


def test_a_budget_that_is_too_small_is_refused_before_the_input_is_looked_at(rerun):
    rerun.read_from("absent.jsonl")  # to look at it would end with 3
    rerun.config["memory"] = "60MB"
    check_refused(
        rerun,
        4,
        "the budget is too small: the plan needs",
        "given 60.0 MB",
        "blocks being encoded",
        hint="MB would do; or set preprocess.",
    )


def test_the_budget_that_the_refusal_names_is_enough(job):
    job.write("input.jsonl", DOCUMENTS)
    refused = job.preprocess("--memory", "60MB")
    (enough,) = re.findall(r"--memory (\d+MB) would do", refused.err)
    outcome = job.preprocess("--memory", enough)
    assert outcome.code == 0, outcome.err
    assert outcome.peak <= int(enough[:-2]) * 10**6


@pytest.mark.parametrize("memory", ["lots", "0MB", "-1GB"])
def test_a_budget_that_is_no_size_is_refused(job, memory):
    job.write("input.jsonl", DOCUMENTS)
    outcome = job.preprocess(f"--memory={memory}")
    check_error(outcome, 2, f"`memory` is `{memory}`: must be", hint="")


# The config.


def test_an_unknown_key_is_refused_with_the_nearest_name(rerun):
    rerun.write("input.jsonl", DOCUMENTS)
    rerun.set(sequence_length=128)
    check_refused(
        rerun,
        2,
        "unknown key `preprocess.sequence_length` in config.yaml:",
        hint="did you mean `sequence_len`?",
    )


def test_all_unknown_keys_are_told_at_once(rerun):
    rerun.config["memmory"] = "1GB"
    rerun.set(min_char=10)
    check_refused(rerun, 2, "2 keys of the config are unknown", "`memory`", "`min_chars`", hint="")


def test_a_value_that_cannot_be_used_is_refused_with_its_line(rerun):
    rerun.set(sequence_len="many")
    check_refused(rerun, 2, "`preprocess.sequence_len` is `many`", "(config.yaml:", hint="")


def test_a_config_without_a_tokenizer_is_refused(rerun):
    rerun.write("input.jsonl", DOCUMENTS)
    del rerun.config["tokenizer"]
    check_refused(rerun, 2, "`tokenizer` is missing from the config", hint="set `tokenizer.path`")


def test_a_config_without_datasets_is_refused(rerun):
    del rerun.config["datasets"]
    check_refused(rerun, 2, "`datasets` is missing from the config", hint="- path: data/*.jsonl")


def test_a_tokenizer_that_is_not_there_is_named(rerun):
    rerun.write("input.jsonl", DOCUMENTS)
    rerun.config["tokenizer"] = {"path": "nowhere"}
    check_refused(rerun, 3, "no tokenizer at `nowhere`", hint="`tokenizer.path`")


def test_a_file_that_is_no_tokenizer_is_named(rerun):
    rerun.write("input.jsonl", DOCUMENTS)
    rerun.write("tokenizer.json", b'{"model": "unheard of"}')
    rerun.config |= {"memory": "1GB", "tokenizer": {"path": "tokenizer.json"}}
    check_refused(rerun, 3, "`tokenizer.json` is not a tokenizer", hint="`tokenizer.path`")


def test_a_type_that_cannot_hold_the_vocabulary_is_refused(rerun):
    """Ids above 65,535 would be folded into others without a word."""
    rerun.write("input.jsonl", DOCUMENTS)
    tokenizer = Tokenizer(models.WordLevel({"<unk>": 0, "document": 70_000}, unk_token="<unk>"))
    tokenizer.save(str(rerun.folder / "tokenizer.json"))
    rerun.config |= {"memory": "1GB", "tokenizer": {"path": "tokenizer.json"}}
    rerun.set(token_dtype="uint16")
    check_refused(
        rerun,
        2,
        "`preprocess.token_dtype` is `uint16`, which can't hold the tokenizer's 70,001 ids",
        hint="set it to `auto` or `uint32`",
    )


def test_a_missing_config_is_named(job):
    outcome = job.run("preprocess", "absent.yaml")
    check_error(outcome, 2, "config `absent.yaml` does not exist", hint="give the path of a YAML file")
    assert job.files() == {}


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (b"memory: 1GB\n  threads: 2\n", "config.yaml:2:"),
        (b"datasets: [\n", "config.yaml:2:1"),
        (b"memory: 1GB\nmemory: 2GB\n", "the key `memory` appears twice"),
    ],
)
def test_a_config_that_is_not_yaml_is_refused_with_its_line(job, content, fact):
    job.write("config.yaml", content)
    outcome = job.run("preprocess", "config.yaml")
    check_error(outcome, 2, fact, hint="fix that line")
    assert job.files() == {}


def test_a_config_that_is_a_list_is_refused(job):
    job.write("config.yaml", b"- memory\n")
    outcome = job.run("preprocess", "config.yaml")
    check_error(outcome, 2, "config.yaml holds a list, not a config", hint="`memory: 1GB`")


# The command.


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        (["preprocess", "config.yaml", "--memry", "1GB"], "--memry"),
        (["preprocess"], "config"),
        (["preproces", "config.yaml"], "preproces"),
        (["preprocess", "config.yaml", "--memory"], "--memory"),
        (["preprocess", "config.yaml", "another.yaml"], "another.yaml"),
    ],
)
def test_a_command_that_cannot_be_understood_is_refused(job, arguments, fact):
    outcome = job.run(*arguments)
    check_error(outcome, 2, hint="--help")
    assert fact in outcome.err.splitlines()[0].lower()
    assert job.files() == {}


def test_an_override_without_a_value_is_refused(job):
    job.save()
    outcome = job.run("preprocess", "config.yaml", "--set", "memory")
    check_error(outcome, 2, "memory", hint="")


def test_an_unknown_key_of_the_environment_is_refused(job):
    outcome = job.preprocess(env={"KRILL_PREPROCESS__SEQUENCE_LENGTH": "128"})
    check_error(outcome, 2, "KRILL_PREPROCESS__SEQUENCE_LENGTH", hint="`KRILL_PREPROCESS__SEQUENCE_LEN`")
