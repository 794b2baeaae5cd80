"""Flags of every verb: the last of several counts, and numbers fit 64 bits."""

from __future__ import annotations

import pytest

from jobs import check_error, document, json_lines

pytest_plugins = ["job_fixtures"]

HUGE = "9" * 30


def test_the_last_of_repeated_flags_counts(rerun):
    rerun.write("input.jsonl", json_lines(map(document, range(100, 120))))
    rerun.save()
    shown = rerun.run("inspect", "out", "--samples", 5, "--samples", 1)
    assert shown.code == 0, shown.err
    assert shown.out.count("\nrow ") == 1
    again = rerun.preprocess(
        "--memory", "1MB", "--memory", "256MB", "--overwrite", "--overwrite", "--json", "--json"
    )
    assert again.code == 0, again.err
    assert again.result["budget"]["limit"] == 256_000_000
    trained = rerun.run(
        *("tokenizer", "train", "--input", "input.jsonl", "--output", "t", "--output", "u", "--json"),
        *("--vocab-size", 300, "--vocab-size", 270),
    )
    assert trained.code == 0, trained.err
    assert trained.result["vocab_size"] == 270
    assert trained.result["output"] == "u"
    exported = rerun.run(
        "export", "out", "--to", "bin", "--to", "jsonl", "--output", "x", "--output", "y", "-q"
    )
    assert exported.code == 0, exported.err
    assert (rerun.folder / "y" / "train.jsonl").is_file()


def test_flags_that_take_several_values_add_up(job):
    for name in ("a.txt", "b.txt"):
        job.write(name, f"some words of {name}\n".encode() * 50)
    command = ("tokenizer", "train", "--input", "a.txt", "--input", "b.txt", "--output", "t", "--json")
    trained = job.run(*command, "--vocab-size", 270)
    assert trained.result["input_bytes"] == 2 * 50 * 20


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["inspect", "out", "--samples", HUGE], "--samples"),
        (["estimate", "config.yaml", "--workers", HUGE], "--workers"),
        (["tokenizer", "train", "--input=x", "--output=y", "--min-frequency", HUGE], "--min-frequency"),
        (["qa", "prepare", "x", "--tokenizer=t", "--output=o", "--doc-stride", HUGE], "--doc-stride"),
        (["qa", "train", "x", "--tokenizer=t", "--output-dir=o", "--epochs", HUGE], "--epochs"),
        (["train", "--dataset-id=x", "--epochs", HUGE], "--epochs"),
        (["preprocess", "config.yaml", "--task=1/2", "--wait=nan"], "--wait"),
        (["generate", "model", "--prompt=x", "--temperature=inf"], "--temperature"),
    ],
)
def test_numbers_that_nothing_can_hold_are_refused_by_name(job, command, name):
    check_error(job.run(*command), 2, name, hint="--help` lists the options")


@pytest.mark.parametrize("size", [HUGE, 2**63 - 1])
@pytest.mark.parametrize("name", ["hidden", "layers", "memory_tokens"])
def test_a_reader_larger_than_any_budget_is_refused_at_once(job, name, size):
    flag = f"--{name.replace('_', '-')}"
    refused = job.run("qa", "train", "x", "--tokenizer=t", "--output-dir=o", flag, size)
    check_error(refused, 2, f"`{name}` is `{size}`", hint="give a number up to 65536")


@pytest.mark.parametrize("size", [HUGE, "9" * 5000, "9" * 20 + "TB"])
def test_sizes_that_no_machine_has_are_refused(job, size):
    job.save()
    assert job.run("export", "out", "--to", "jsonl", "--memory", size).code == 2
    assert job.run("estimate", "config.yaml", "--memory", size).code == 2
