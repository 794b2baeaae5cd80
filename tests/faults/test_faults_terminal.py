"""Every verb with hostile data and names: nothing that a terminal obeys is printed, and no markup is."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import preloaded
from jobs import document, json_lines

pytest_plugins = ["job_fixtures"]

# A title, a colour, a C1 code, marks of direction, a line that is overwritten, a separator, Rich's markup.
EVIL = "\x1b]0;title\x07\x1b[31mred\x9b5m\u202eright\u2066left\u200f\u061c\x7f\rover\u2028[red]x[bold]"
SHOWN = "[red]x[bold]"
OBEYED = {
    *map(chr, range(0x20)),
    *map(chr, range(0x7F, 0xA0)),
    *"\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069",
} - {"\n", "\t"}
COLOURS = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def check(outcome, code: int, shows: str = SHOWN) -> None:
    """The command ended so, and what it printed can be shown; `shows` is in it as it stood in the data."""
    printed = outcome.out + outcome.err
    assert outcome.code == code, printed
    assert "Traceback" not in printed
    assert OBEYED.isdisjoint(printed), sorted(OBEYED & set(printed))
    assert shows in printed


@pytest.fixture
def hostile(job):
    """A corpus of hostile documents whose every name is hostile."""
    texts = [f"{EVIL} {document(at)}" for at in range(40)]
    job.write(f"{EVIL}.jsonl", json_lines([*texts, texts[0] + " almost"]))
    job.read_from(f"{EVIL}.jsonl")
    job.set(
        prepared_path=f"out {EVIL}",
        output="both",
        rejected=True,
        dedup={"method": "minhash", "clusters": True, "threshold": 0.5},
    )
    job.output = job.folder / f"out {EVIL}"
    job.save()
    return job


def test_preprocessing_and_looking_at_the_result(hostile):
    output = hostile.output.name
    check(hostile.run("estimate", "config.yaml"), 0, "input")
    check(hostile.preprocess(), 0)
    check(hostile.preprocess(), 0)  # it is finished, and says so with the name
    check(hostile.run("inspect", output, "--samples", 5), 0)
    check(hostile.run("inspect", output, "--duplicates"), 0)
    check(hostile.run("validate", output), 0)
    check(hostile.run("validate", output, "--json"), 0, "files")
    exported = hostile.run("export", output, "--to", "jsonl", "--text", "--output", f"to {EVIL}")
    check(exported, 0)
    check(hostile.run("preprocess", "config.yaml", "--set", "preprocess.sequence_len=99"), 2, "sequence_len")


def test_json_is_escaped_and_holds_the_same_text(hostile):
    hostile.preprocess("--quiet")
    outcome = hostile.run("inspect", hostile.output.name, "--json", "--samples", 3)
    check(outcome, 0)
    assert EVIL in outcome.result["text"]["samples"][0]["text"]
    assert outcome.result["path"] == hostile.output.name


def test_tokenizers(hostile):
    text = f"{EVIL}.jsonl"
    trained = hostile.run(
        *("tokenizer", "train", "--input", text, "--vocab-size", 400, "--output", f"t {EVIL}"),
        *("--special-tokens", EVIL),
    )
    check(trained, 0)
    for command in (
        ["encode", "--tokenizer", "missing " + EVIL, "x"],
        ["encode", "--tokenizer", f"t {EVIL}", "--input", "missing " + EVIL + ".txt"],
        ["decode", "--tokenizer", f"t {EVIL}", EVIL],
        ["compare", "--input", "missing " + EVIL],
    ):
        outcome = hostile.run("tokenizer", *command)
        check(outcome, outcome.code)
        assert outcome.code in (2, 3)


def test_decoded_text_is_data_in_a_pipe_and_escaped_on_a_terminal(hostile):
    hostile.run("tokenizer", "train", "--input", f"{EVIL}.jsonl", "--vocab-size", 400, "--output", "t", "-q")
    ids = hostile.run("tokenizer", "encode", "--tokenizer", "t", EVIL + "\n" + EVIL).out.split()
    command = ["tokenizer", "decode", "--tokenizer", "t", *ids]
    assert hostile.run(*command).out == f"{EVIL}\n{EVIL}\n"
    shown = on_terminal(hostile, command)
    assert OBEYED.isdisjoint(shown)
    assert shown.count(SHOWN) == 2
    assert shown.count("\n") == 2


@pytest.mark.parametrize(
    ("verb", "code"),
    [
        (["preprocess"], 2),
        (["run"], 2),
        (["estimate"], 2),
        (["train"], 2),
        (["train-tokenizer"], 2),
        (["inspect"], 3),
        (["validate"], 3),
        (["export", "--to=jsonl"], 3),
        (["generate", "--prompt=x"], 3),
        (["evaluate", "missing"], 3),
        (["qa", "prepare", "--tokenizer=missing", "--output=features"], 3),
        (["qa", "train", "--tokenizer=missing", "--output-dir=reader"], 3),
        (["qa", "evaluate", "missing"], 3),
        ([], 2),
        (["tokenizer"], 2),
        (["qa"], 2),
    ],
)
def test_an_error_shows_the_name_that_was_given(job, verb, code):
    if verb[:1] == ["evaluate"] or verb[:2] == ["qa", "evaluate"]:
        verb = [*verb[:-1], EVIL, verb[-1]]
    else:
        flags = [word for word in verb if word.startswith("--")]
        verb = [*(word for word in verb if word not in flags), EVIL, *flags]
    shows = "missing" if "prepare" in verb else SHOWN
    check(job.run(*verb), code, shows)


def test_errors_show_names_of_columns_keys_and_values(hostile):
    name = f"{EVIL}.jsonl"
    hostile.read_from({"path": name, "text_column": f"no {EVIL}"})
    check(hostile.preprocess(), 3)
    table = pa.table({EVIL: ["x"], "text": [1]})
    pq.write_table(table, hostile.folder / f"{EVIL}.parquet")
    hostile.read_from(f"{EVIL}.parquet")
    check(hostile.preprocess(), 3)
    hostile.read_from({"path": f"{EVIL}.parquet", "text_column": "no"})
    check(hostile.preprocess(), 3)  # names the columns that there are
    hostile.write(f"{EVIL}.csv", f'"{EVIL}",b\n1,2\n'.replace("\r", "").encode())
    hostile.read_from(f"{EVIL}.csv")
    check(hostile.preprocess(), 3)
    hostile.write(f"{EVIL}.json", b'{"text": 1')
    hostile.read_from(f"{EVIL}.json")
    check(hostile.preprocess(), 3)
    for change in (f"{EVIL}=1", f"preprocess.dedup={EVIL}", f"memory={EVIL}", EVIL):
        check(hostile.run("estimate", "config.yaml", "--set", change), 2)
    check(hostile.run("estimate", "config.yaml", env={"KRILL_MEMORY": EVIL}), 2)
    check(hostile.run("estimate", "config.yaml", f"--{EVIL}"), 2)
    check(hostile.run("inspect", "x", "--samples", EVIL), 2)


def test_questions(hostile):
    hostile.run(
        *("tokenizer", "train", "--input", f"{EVIL}.jsonl", "--vocab-size", 400, "--output", "t", "-q"),
        *("--special-tokens", "[CLS]", "[SEP]", "[PAD]"),
    )
    answers = {"text": [EVIL], "answer_start": [0]}
    rows = [{"id": EVIL + str(at), "question": EVIL, "context": EVIL, "answers": answers} for at in range(5)]
    hostile.write(f"{EVIL}.jsonl", b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    command = ("qa", "prepare", f"{EVIL}.jsonl", "--tokenizer", "t", "--output", f"features {EVIL}")
    check(hostile.run(*command), 0)
    hostile.write(f"{EVIL}.jsonl", json.dumps({"id": EVIL, "question": 1}).encode())
    shutil.rmtree(hostile.folder / f"features {EVIL}")
    check(hostile.run(*command), 3)


def on_terminal(job, command) -> str:
    """What a command prints on a terminal, without the colours and cursor moves that are Rich's own."""
    ours, theirs = pty.openpty()
    env = {"TERM": "xterm", "COLUMNS": "400"}
    run = preloaded.launch(command, cwd=job.folder, out=theirs, err=theirs, env=env)
    os.close(theirs)
    printed = b""
    with suppress(OSError):  # reading ends with an error here
        while chunk := os.read(ours, 1 << 16):
            printed += chunk
    os.close(ours)
    assert run.wait(60) == 0, printed
    return COLOURS.sub("", printed.decode()).replace("\r\n", "\n").replace("\r", "")


def test_a_terminal_gets_only_the_colours_that_are_ours(hostile):
    output = hostile.output.name
    for command in (["preprocess", "config.yaml"], ["inspect", output], ["validate", "config.yaml"]):
        shown = on_terminal(hostile, command)
        assert OBEYED.isdisjoint(shown), sorted(OBEYED & set(shown))
        assert SHOWN in shown
        assert "\\x1b]0;title\\x07\\x1b[31mred" in shown
