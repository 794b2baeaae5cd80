"""Bad input, what is written: a read-only or full disk, a folder that is another's, two runs on
one folder. Each ends with 5, says why, and what was done before is kept or nothing is."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from typing import NamedTuple

import pytest

from conftest import KRILL, dataset_bytes
from jobs import Job, check_error, check_refused, document, json_lines
from krill_process import KrillProcess

pytest_plugins = ["job_fixtures"]

MANY = json_lines(document(number) for number in range(3000))


def can_mount() -> bool:
    """Whether this user may have a mount namespace of their own."""
    unshare = shutil.which("unshare")
    probe = [unshare, "-rm", "mount", "-t", "tmpfs", "none", "/mnt"]
    return unshare is not None and subprocess.run(probe, capture_output=True, check=False).returncode == 0


needs_mount = pytest.mark.skipif(not can_mount(), reason="no mount namespaces for this user")


class Ended(NamedTuple):
    """How a script ended."""

    code: int
    out: str
    err: str


def with_mounts(job: Job, script: str) -> Ended:
    """Run a shell script in the job's folder, with mounts that nobody else sees; `$KRILL` is the command."""
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-ec", script],
        cwd=job.folder,
        env={**os.environ, "KRILL": str(KRILL)},
        capture_output=True,
        text=True,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


# Nowhere to write.


def test_a_file_in_the_place_of_a_folder_is_named(job):
    job.write("input.jsonl", MANY)
    job.write("blocker", b"a file")
    job.set(prepared_path="blocker/out")
    check_refused(
        job, 5, "`blocker/.out.krill`", "a part of the path is a file", hint="choose another folder"
    )


def test_a_folder_that_cannot_be_made_is_named(job):
    job.write("input.jsonl", MANY)
    job.set(prepared_path="/proc/krill/out")
    check_refused(job, 5, "cannot write `/proc/krill/.out.krill`", hint="choose another")


def test_a_spill_folder_that_cannot_be_made_is_named(rerun):
    rerun.write("input.jsonl", MANY)
    rerun.config["spill_dir"] = "/proc/krill"
    check_refused(rerun, 5, "cannot write `/proc/krill/out.", hint="choose another")


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_without_permission_is_named(job):
    job.write("input.jsonl", MANY)
    (job.folder / "mine").mkdir(mode=0o555)
    job.set(prepared_path="mine/out")
    check_refused(job, 5, "`mine/.out.krill`: permission denied", hint="change the folder's permissions")


@needs_mount
def test_a_read_only_disk_is_named(rerun):
    rerun.write("input.jsonl", MANY)
    rerun.save()
    before = rerun.files()
    outcome = with_mounts(
        rerun,
        "mount --bind . . && mount -o remount,bind,ro . && cd . && $KRILL preprocess config.yaml --overwrite",
    )
    check_error(outcome, 5, "cannot write `.out.krill`: the file system is read-only", hint="choose a folder")
    assert rerun.files() == before


# No room.


def test_a_file_that_cannot_even_begin_leaves_nothing(rerun):
    rerun.write("input.jsonl", MANY)
    check_refused(rerun, 5, "run.json`: file size limit exceeded", hint="`ulimit -f`", file_limit=200)


def test_a_run_that_hits_a_limit_can_be_continued(job):
    job.write("input.jsonl", MANY)
    failed = job.preprocess(file_limit=300_000)
    check_error(failed, 5, "file size limit exceeded", hint="`ulimit -f`")
    assert not job.output.exists()
    assert not list(job.work.rglob("*.krill-tmp"))
    assert list(job.work.glob("stages/scan/*.json"))
    outcome = job.preprocess()
    assert outcome.code == 0, outcome.err
    assert "continuing an earlier run" in outcome.out
    assert job.manifest()["documents"]["kept"] == 3000
    assert not job.work.exists()


@needs_mount
def test_a_disk_that_is_clearly_too_small_is_refused_before_reading(rerun):
    rerun.write("input.jsonl", MANY)
    (rerun.folder / "disk").mkdir()
    rerun.set(prepared_path="disk/out")
    rerun.save()
    outcome = with_mounts(
        rerun,
        "mount -t tmpfs -o size=500k none disk; code=0; $KRILL preprocess config.yaml || code=$?;"
        " find disk -mindepth 1; exit $code",
    )
    check_error(outcome, 5, "the run will need about", "on disk, `disk/.out.krill/", hint="free some space")
    assert outcome.out.splitlines()[-1].startswith("Memory")  # nothing was found in `disk`


@needs_mount
def test_a_run_that_fills_the_disk_can_be_continued(job):
    job.write("input.jsonl", MANY)
    (job.folder / "disk").mkdir()
    job.set(prepared_path="disk/out")
    job.save()
    outcome = with_mounts(
        job,
        """mount -t tmpfs -o size=2300k none disk
        code=0; $KRILL preprocess config.yaml || code=$?
        find disk -name '*.krill-tmp' >&2
        test ! -e disk/out && test $code = 5
        mount -o remount,size=20m disk
        $KRILL preprocess config.yaml
        ls -A disk
        cp -r disk/out kept
        """,
    )
    check_error(outcome, 0, "no space left on the device", hint="free some space")
    assert ".krill-tmp" not in outcome.err
    assert "continuing an earlier run" in outcome.out
    assert outcome.out.splitlines()[-1] == "out"
    valid = job.run("validate", "kept")
    assert valid.code == 0, valid.err


def test_a_cap_on_disk_is_refused_before_reading(rerun):
    rerun.write("input.jsonl", MANY)
    rerun.config["disk"] = "100KB"
    check_refused(
        rerun,
        4,
        "the run would keep about",
        "on disk between its stages, --disk allows 100 kB",
        hint="--disk 1GB",
    )


# What is there already.


def test_a_folder_of_something_else_is_refused_and_untouched(job):
    job.write("input.jsonl", MANY)
    job.output.mkdir()
    job.write("out/thesis.txt", b"years of work")
    check_refused(
        job,
        5,
        "`out` is there already and is not a Krill output: nothing in it was touched",
        hint="choose another `preprocess.prepared_path`",
    )


def test_a_file_with_the_name_of_the_output_is_refused_and_untouched(job):
    job.write("input.jsonl", MANY)
    job.write("out", b"years of work")
    check_refused(job, 5, "`out` is there already and is not a Krill output", hint="choose another")


def test_an_empty_folder_is_used(job):
    job.write("input.jsonl", MANY)
    job.output.mkdir()
    assert job.preprocess().code == 0
    assert job.manifest()["documents"]["kept"] == 3000


def test_two_runs_on_one_folder_are_refused(job, grown):
    job.read_from(str(grown(16)))
    job.save()
    first = KrillProcess(job.folder, "preprocess", "config.yaml", "--quiet")
    try:
        first.wait_until(lambda: (job.work / "stages" / "scan").exists())
        first.process.send_signal(signal.SIGSTOP)  # so that it surely works while the second one starts
        second = job.preprocess()
        overwriting = job.preprocess("--overwrite")
        first.process.send_signal(signal.SIGCONT)
        assert first.wait() == 0, first.output
    finally:
        first.process.kill()
    for refused in (second, overwriting):
        writer = first.process.pid
        check_error(refused, 5, f"another run is writing `out` (process {writer})", hint="wait for it to end")
    assert job.manifest()["documents"]["kept"] > 1000
    assert not job.work.exists()


def test_runs_of_two_outputs_share_a_spill_folder(job):
    """Their stages must not mix, also if the outputs' own names are equal."""
    job.write("input.jsonl", MANY)
    job.config["spill_dir"] = "spill"
    outputs = []
    for number, folder in enumerate(("a", "b")):
        job.set(prepared_path=f"{folder}/out", min_chars=100 + number)
        failed = job.preprocess(file_limit=300_000)
        check_error(failed, 5, "file size limit exceeded", hint="`ulimit -f`")
    for number, folder in enumerate(("a", "b")):
        job.set(prepared_path=f"{folder}/out", min_chars=100 + number)
        outcome = job.preprocess()
        assert outcome.code == 0, outcome.err
        assert "continuing an earlier run" in outcome.out
        outputs.append(dataset_bytes(job.folder / folder / "out"))
    assert outputs[0] == outputs[1]
    assert not any((job.folder / "spill").iterdir())
