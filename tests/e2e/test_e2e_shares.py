"""`--task I/N`: several processes share a run without any scheduler, and make what one makes."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from jobs import Job, document, json_lines
from krill_process import KrillProcess

pytest_plugins = ["job_fixtures"]


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "krill-run.json"
    }


def large(job: Job, dedup: str) -> None:
    job.write("input.jsonl", json_lines(document(number - number % 3) for number in range(2000)))
    job.set(dedup=dedup, unit_bytes="64KB", max_document_bytes="8KB", shard_size="64KB", packing="bfd")


def start(job: Job, task: str, *more: str) -> KrillProcess:
    return KrillProcess(job.folder, "preprocess", "config.yaml", "--task", task, *more)


@pytest.mark.parametrize("dedup", ["exact", "minhash"])
def test_shares_that_run_at_once_make_what_one_process_makes(job: Job, dedup: str) -> None:
    large(job, dedup)
    alone = job.preprocess()
    assert alone.code == 0
    expected = contents(job.output)
    job.config["preprocess"]["prepared_path"] = "shared"
    job.save()
    shares = [start(job, f"{number}/3") for number in (1, 2, 3)]
    for share in shares:
        assert share.wait() == 0, share.output
        assert "--task finish" in share.output
    assert not (job.folder / "shared").exists()
    assert job.preprocess("--task", "finish").code == 0
    assert contents(job.folder / "shared") == expected
    assert not (job.folder / ".shared.krill").exists()


def test_a_share_that_nobody_helps_says_so_and_what_it_did_is_kept(job: Job) -> None:
    large(job, "exact")
    job.save()
    share = start(job, "2/3", "--wait", "0")
    assert share.wait() == 5
    assert "task 2/3 waits for" in share.output
    assert "`--task finish` does all the rest here" in share.output
    records = list((job.work / "stages" / "scan").glob("*.json"))
    assert records
    before = {path.name: path.stat().st_mtime_ns for path in records}
    kept = job.folder / "kept"
    kept.mkdir()
    for path in records:  # a run that is published leaves no stages: keep the records in sight
        (kept / path.name).hardlink_to(path)
    assert job.preprocess("--task", "finish").code == 0
    assert {path.name: path.stat().st_mtime_ns for path in kept.iterdir()} == before
    assert job.output.is_dir()


@pytest.mark.parametrize("task", ["0/3", "4/3", "three", "1/0", "-1/3"])
def test_a_wrong_share_is_refused(job: Job, task: str) -> None:
    large(job, "none")
    outcome = job.preprocess(f"--task={task}")
    assert outcome.code == 2
    assert f"--task is `{task}`, which is not a share of the work" in outcome.err


def test_a_share_does_not_start_anew(job: Job) -> None:
    large(job, "none")
    outcome = job.preprocess("--task", "1/2", "--overwrite")
    assert outcome.code == 2
    assert "--overwrite starts a run anew, and task 1/2 is a part of one" in outcome.err


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--wait", "5"), "--wait is given, and no share of the work that could wait"),
        (("--address", "auto"), "--address is given, and no engine that has one"),
        (("--workers", "2"), "--workers is given, and no engine that has one"),
    ],
)
def test_a_flag_that_would_change_nothing_is_refused(job: Job, flags: tuple[str, str], words: str) -> None:
    large(job, "none")
    outcome = job.preprocess(*flags)
    assert outcome.code == 2
    assert words in outcome.err


def test_a_share_leaves_alone_what_another_one_is_writing(job: Job) -> None:
    large(job, "none")
    job.save()
    assert start(job, "1/2", "--wait", "0").wait() == 5
    work = job.output.with_name(f".{job.output.name}.krill")
    written = work / "dataset" / ".data-00000.arrow.0123abcd.krill-tmp"
    written.write_bytes(b"half of a shard")
    assert start(job, "1/1").wait() == 0
    assert written.exists()
    assert job.preprocess("--task", "finish").code == 0
    assert not list(job.output.rglob("*.krill-tmp"))
