"""Hostile values where a path or a name is wanted: an error with its code, and no command that waits."""

from __future__ import annotations

import os
import stat
import subprocess

import pytest

from conftest import KRILL
from jobs import check_error, document, json_lines

pytest_plugins = ["job_fixtures"]

LONG = "x/" * 2600


@pytest.fixture
def places(rerun):
    """A finished output and, beside it, everything that is not a file or a folder of ours."""
    rerun.write("input.jsonl", json_lines(map(document, range(100, 120))))
    rerun.save()
    rerun.write("file", b"x")
    (rerun.folder / "folder").mkdir()
    os.mkfifo(rerun.folder / "pipe")
    (rerun.folder / "loop").symlink_to("loop")
    os.mknod(rerun.folder / "socket", stat.S_IFSOCK | 0o600)
    return rerun


# Places that can't be written. No device of the machine is among them: a fault would put a file in its place.
TAKEN = ["pipe", "socket", "loop", "file", "file/x", "n" * 300, LONG]
# Only read: devices may be named here.
HOSTILE = [*TAKEN, "", "folder", "~nobody/x", "/dev/null", "/dev/full"]


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: value[:12])
def test_wherever_a_path_is_wanted(places, value):
    for command in (
        ["preprocess", value],
        ["estimate", value],
        ["inspect", value],
        ["inspect", value, "--duplicates"],
        ["validate", value],
        ["export", value, "--to", "jsonl"],
        ["tokenizer", "encode", "--tokenizer", value, "x"],
        ["tokenizer", "train", "--input", value, "--output", "t"],
        ["estimate", "config.yaml", "--set", f"datasets=[{{path: '{value}'}}]"],
        ["estimate", "config.yaml", "--set", "tokenizer.builtin=null", "--set", f"tokenizer.path={value}"],
    ):
        outcome = places.run(*command, timeout=20)
        # One byte of text is a corpus.
        allowed = (
            (0,) if value == "file" and ("train" in command or "datasets" in command[-1]) else (2, 3, 4, 5)
        )
        assert outcome.code in allowed, (command, outcome.err)
        assert "Traceback" not in outcome.err


@pytest.mark.parametrize("value", TAKEN, ids=lambda value: value[:12])
def test_wherever_something_is_written(places, value):
    for command in (
        ["export", "out", "--to", "jsonl", "--output", value],
        ["preprocess", "config.yaml", "--set", f"preprocess.prepared_path={value}"],
        ["tokenizer", "train", "--input", "input.jsonl", "--vocab-size", 270, "--output", value],
    ):
        outcome = places.run(*command, timeout=20)
        assert outcome.code in (2, 3, 5), (command, outcome.err)
        assert "Traceback" not in outcome.err
    assert (places.folder / "file").read_bytes() == b"x"


@pytest.mark.parametrize("name", ["pipe", "socket", "link"])
def test_a_pipe_or_a_device_is_never_replaced_by_a_file(places, name):
    """A rename would do it, also with `--overwrite`: a device of the system would be gone."""
    (places.folder / "link").symlink_to("pipe")
    assert (
        places.run("tokenizer", "train", "--input", "input.jsonl", "--vocab-size", 270, "--output", "t").code
        == 0
    )
    before = (places.folder / name).lstat()
    command = ("tokenizer", "encode", "--tokenizer", "t", "--input", "input.jsonl", "--output", name)
    for flags in ([], ["--overwrite"]):
        check_error(places.run(*command, *flags), 5, f"`{name}`", hint="choose another")
    after = (places.folder / name).lstat()
    assert (after.st_mode, after.st_ino) == (before.st_mode, before.st_ino)


def test_a_config_may_come_from_a_pipe_that_somebody_writes(places):
    line = f"{KRILL} estimate <(sleep 0.3; cat config.yaml) --json"
    ended = subprocess.run(["bash", "-c", line], cwd=places.folder, capture_output=True, timeout=60)
    assert ended.returncode == 0, ended.stderr


def test_a_config_is_not_read_from_a_device_or_without_end(places):
    check_error(places.run("preprocess", "/dev/zero"), 2, "config `/dev/zero` is not a file", hint="YAML")
    places.write("large.yaml", b"# " + b"x" * 2_000_000)
    check_error(places.run("preprocess", "large.yaml"), 2, "is larger than 1,000,000 bytes", hint="config")


def test_a_path_that_no_system_takes_is_refused_with_its_key(places):
    outcome = places.run("preprocess", "config.yaml", "--set", f"preprocess.prepared_path={LONG}")
    check_error_without_hint(outcome, 2, "`preprocess.prepared_path` is `x/x/", "at most 4,095 bytes (--set)")


def check_error_without_hint(outcome, code, *facts) -> None:
    assert outcome.code == code, outcome.err
    for fact in facts:
        assert fact in outcome.err


@pytest.mark.parametrize(
    "arguments",
    [
        b"preprocess c\xff.yaml",
        b"export out --to jsonl --output o\xff",
        b"estimate config.yaml --set x=\xff",
        b"\xff",
    ],
)
def test_arguments_that_are_not_utf8_are_refused_by_every_verb(places, arguments):
    ended = subprocess.run([KRILL, *arguments.split()], cwd=places.folder, capture_output=True, timeout=60)
    assert ended.returncode == 2
    assert b"is not UTF-8" in ended.stderr
    assert b"\\udcff" in ended.stderr
