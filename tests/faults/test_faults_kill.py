"""Runs that are killed or interrupted at any moment, and continued, also with another
budget and other threads, end with the same bytes as a run that was left alone, and do nothing twice."""

from __future__ import annotations

import copy
import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from conftest import run_bytes
from jobs import Job, check_error, document, json_lines
from krill.storage.run import LAYOUT, PUT_INTO_PLACE
from krill_process import KrillProcess
from real_text import grow_jsonl

EVERYWHERE = Path(__file__).parents[1] / "interrupt_everywhere.py"
pytest_plugins = ["job_fixtures"]

SOAK = pytest.mark.soak
# Budgets and threads change from one process of a run to the next.
ATTEMPTS = (("256MB", "2"), ("1GB", "1"), ("256MB", "1"), ("1GB", "2"))
MANY_UNITS = {
    "unit_bytes": "1500KB",
    "max_document_bytes": "500KB",
    "shard_size": "3MB",
    "sequence_len": 1024,
}


@dataclass
class Case:
    """A job, and what an uninterrupted run of it makes."""

    config: dict[str, Any]
    expected: dict[str, bytes]
    seconds: float
    """That the uninterrupted run worked, after it had started."""

    def job(self, folder: Path) -> Job:
        job = Job(folder, krill=None)
        job.config = copy.deepcopy(self.config)
        job.save()
        return job


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    return grow_jsonl(tmp_path_factory.mktemp("corpus") / "12mb.jsonl", 12_000_000)


def make_case(folder: Path, path: Path, **preprocess: Any) -> Case:
    job = Job(folder, krill=None)
    job.read_from(str(path))
    job.set(**{**MANY_UNITS, **preprocess})
    job.save()
    run = start(job)
    run.wait_until_begun()
    begun = time.monotonic()
    assert run.wait() == 0, run.output
    return Case(job.config, run_bytes(job.output), time.monotonic() - begun)


@pytest.fixture(scope="module")
def tokens(corpus, tmp_path_factory) -> Case:
    """Ranged reading: units are read twice, once for their hashes and once for good."""
    return make_case(tmp_path_factory.mktemp("tokens"), corpus)


@pytest.fixture(scope="module")
def both(corpus, tmp_path_factory) -> Case:
    """A file that can only be read from its beginning: the scan spills what the other stages read."""
    folder = tmp_path_factory.mktemp("both")
    path = folder / "corpus.jsonl.gz"
    with corpus.open("rb") as source:
        path.write_bytes(gzip.compress(source.read(4_000_000).rpartition(b"\n")[0], 1))
    sizes = {"unit_bytes": "750KB", "max_document_bytes": "300KB", "shard_size": "1500KB"}
    return make_case(folder, path, **sizes, output="both")


@pytest.fixture(scope="module")
def everything(corpus, tmp_path_factory) -> Case:
    """Filters, near-duplicates, splits, fitted and shuffled rows, rejected documents: all stages."""
    folder = tmp_path_factory.mktemp("everything")
    path = folder / "corpus.jsonl"
    with corpus.open("rb") as source:
        path.write_bytes(source.read(1_200_000).rpartition(b"\n")[0])
    return make_case(
        folder,
        path,
        unit_bytes="300KB",
        max_document_bytes="250KB",
        shard_size="700KB",
        output="both",
        filters=[
            "gopher_repetition",
            {"gopher_quality": {"min_stop_words": 0, "max_non_alpha_words_ratio": 0.0}},
        ],
        statistics=True,
        rejected=True,
        dedup={"method": "minhash", "clusters": True, "verify": 0.8},
        packing="bfd",
        split={"validation": 0.1},
        shuffle=True,
    )


def start(job: Job, *arguments: str, verb: str = "preprocess", fresh: bool = False) -> KrillProcess:
    """`krill preprocess` (or `run`) on the job's config."""
    return KrillProcess(job.folder, verb, "config.yaml", *arguments, fresh=fresh)


def committed(job: Job) -> dict[str, tuple[int, int]]:
    """Every file of every committed unit, as it lies on disk: a file that is written again is another one."""
    found = {}
    for record in job.work.glob("stages/*/*.json"):
        for path in record.parent.glob(f"{record.stem}.*"):
            status = path.stat()
            found[str(path.relative_to(job.work))] = status.st_ino, status.st_mtime_ns
    return found


def survive(case: Case, folder: Path, kills: int, chance: random.Random) -> None:
    """Kill runs at so many moments and let them go on; each that ends must have made the same bytes."""
    attempts = reused = 0
    while kills > 0 or (not reused and attempts < 50):  # on a busy machine, nothing may be committed at first
        job = case.job(folder)
        while True:
            memory, threads = ATTEMPTS[attempts % len(ATTEMPTS)]
            attempts += 1
            before = {} if job.output.exists() else committed(job)  # else it was killed while it tidied up
            run = start(job, "--memory", memory, "--threads", threads)
            if not run.kill_after(chance.uniform(0, case.seconds * 0.6)):
                break
            kills -= 1
            if not job.output.exists():
                assert before.items() <= committed(job).items()
                reused += len(before)
        assert run.wait() == 0, run.output
        published = PUT_INTO_PLACE in run.output  # it was killed when all that was left was to rename
        if before:
            assert published or "continuing an earlier run of this command" in run.output
            reused += len(before)
        if any(name.startswith("stages/resolve/") for name in before):
            assert published or "scan: 0 B in" in run.output
        assert run_bytes(job.output) == case.expected
        assert not job.work.exists()
        shutil.rmtree(job.output)
    assert reused > 0


@pytest.mark.parametrize(("name", "kills"), [("tokens", 4), ("both", 4), ("everything", 6)])
def test_runs_killed_at_random_moments_end_with_the_same_bytes(name, kills, request, tmp_path):
    survive(request.getfixturevalue(name), tmp_path, kills, random.Random(name))


@pytest.mark.soak
@pytest.mark.parametrize("name", ["tokens", "both", "everything"])
def test_runs_killed_at_hundreds_of_moments_end_with_the_same_bytes(name, request, tmp_path):
    survive(request.getfixturevalue(name), tmp_path, 300, random.Random())


def test_a_run_killed_late_reads_nothing_again(tokens, tmp_path):
    job = tokens.job(tmp_path)
    run = start(job)
    run.wait_until(lambda: any(job.work.glob("stages/pack/*.json")))
    run.kill()
    packed = {path.name: path.stat().st_ino for path in job.work.glob("dataset/*.arrow")}
    done = len(list(job.work.glob("stages/pack/*.json")))
    assert done >= 1
    resumed = start(job)
    assert resumed.wait() == 0, resumed.output
    assert "continuing an earlier run of this command" in resumed.output
    assert "scan: 0 B in" in resumed.output
    assert "encode: 0 B in" in resumed.output
    kept = {path.name: path.stat().st_ino for path in job.output.glob("*.arrow")}
    assert len(packed.items() & kept.items()) >= done
    assert run_bytes(job.output) == tokens.expected


@pytest.mark.parametrize(
    ("interrupt", "stage"),
    [
        pytest.param(signal.SIGINT, "scan", id="ctrl-c-scan"),
        pytest.param(signal.SIGTERM, "encode", id="sigterm-encode"),
        pytest.param(signal.SIGINT, "pack", id="ctrl-c-pack"),
        pytest.param(signal.SIGTERM, "scan", id="sigterm-scan", marks=SOAK),
        pytest.param(signal.SIGINT, "encode", id="ctrl-c-encode", marks=SOAK),
        pytest.param(signal.SIGTERM, "pack", id="sigterm-pack", marks=SOAK),
    ],
)
def test_an_interrupted_run_stops_at_once_and_can_be_continued(tokens, tmp_path, interrupt, stage):
    job = tokens.job(tmp_path)
    run = start(job, "--threads", "1")
    run.wait_until(lambda: any(job.work.glob(f"stages/{stage}/*.json")))
    run.process.send_signal(interrupt)
    sent = time.monotonic()
    assert run.wait() == 130, run.output
    assert time.monotonic() - sent < 3
    assert run.output.endswith(
        "error: interrupted: what was done is kept\nhint: run the same command to continue\n"
    )
    assert "Traceback" not in run.output
    assert not job.output.exists()
    assert not list(job.work.rglob("*.krill-tmp"))
    before = committed(job)
    assert before
    resumed = start(job)
    assert resumed.wait() == 0, resumed.output
    assert "continuing an earlier run of this command" in resumed.output
    assert run_bytes(job.output) == tokens.expected
    assert not job.work.exists()


@pytest.mark.parametrize("whole_group", [True, False], ids=["ctrl-c", "sigterm"])
def test_an_interrupted_krill_run_stops_its_step(tokens, tmp_path, whole_group):
    job = tokens.job(tmp_path)
    run = start(job, verb="run")
    run.wait_until(lambda: any(job.work.glob("stages/scan/*.json")))
    if whole_group:  # a terminal sends it to both
        os.killpg(run.process.pid, signal.SIGINT)
    else:
        run.process.send_signal(signal.SIGTERM)
    assert run.wait() == 130, run.output
    assert "Traceback" not in run.output
    assert "error: interrupted: what was done is kept\n" in run.output
    # Its step is `krill preprocess`, which goes on with it as well.
    resumed = start(job, verb="run" if whole_group else "preprocess")
    assert resumed.wait() == 0, resumed.output
    assert "continuing an earlier run of this command" in resumed.output
    assert run_bytes(job.output) == tokens.expected


def test_a_second_interrupt_does_not_disturb_the_first(tokens, tmp_path):
    job = tokens.job(tmp_path)
    run = start(job)
    run.wait_until(lambda: any(job.work.glob("stages/scan/*.json")))
    for _ in range(20):
        run.process.send_signal(signal.SIGINT)
        time.sleep(0.002)
    assert run.wait() == 130, run.output
    assert "Traceback" not in run.output
    assert run.output.endswith("hint: run the same command to continue\n")
    assert not list(job.work.rglob("*.krill-tmp"))


@pytest.mark.parametrize(
    ("interrupt", "moments"),
    [(signal.SIGINT, (0.0, 0.05, 0.1, 0.2)), (signal.SIGTERM, (0.0, 0.1))],
    ids=["ctrl-c", "sigterm"],
)
def test_an_interrupt_while_the_command_loads_is_no_fault(tokens, tmp_path, interrupt, moments):
    job = tokens.job(tmp_path)
    for moment in moments:
        run = start(job, fresh=True)
        # What Python itself takes to start is out of our hands; it does not catch SIGTERM, the command does.
        run.wait_until(lambda run=run: catches(run.process.pid, signal.SIGTERM))
        time.sleep(moment)
        run.process.send_signal(interrupt)
        assert run.wait() == 130, run.output
        assert "Traceback" not in run.output


@pytest.mark.parametrize(
    ("stride", "where"),
    [(4, "/krill/cli/"), (1000, "/"), pytest.param(20, "/", marks=pytest.mark.soak)],
)
def test_an_interrupt_at_any_line_of_loading_is_no_fault(tokens, tmp_path, stride, where):
    job = tokens.job(tmp_path)
    command = [sys.executable, EVERYWHERE, str(stride), where, "preprocess", "config.yaml"]
    done = subprocess.run(
        command, cwd=job.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1800
    )
    assert done.returncode == 0, done.stdout
    assert int(done.stdout.split(" interrupts, 0 faults")[0].split()[-1]) > 20


def catches(pid: int, number: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    caught = int(status.partition("SigCgt:")[2].split()[0], 16)
    return bool(caught >> (number - 1) & 1)


# After the end.


@pytest.fixture
def small(job) -> Job:
    """A finished job of a moment."""
    job.write("input.jsonl", json_lines(map(document, range(100))))
    outcome = job.preprocess()
    assert outcome.code == 0, outcome.err
    return job


def times(folder: Path) -> dict[str, tuple[int, int]]:
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in [folder, *folder.iterdir()]}


def test_the_same_command_on_a_finished_run_says_so_and_does_nothing(small):
    before = times(small.output)
    outcome = small.preprocess("--memory", "1GB", "--threads", "1")
    assert outcome.code == 0
    assert "nothing to do: out is finished" in outcome.out
    assert times(small.output) == before
    assert not small.work.exists()
    assert small.preprocess("--json").result["status"] == "finished"


def test_a_changed_config_is_refused_with_both_values(small):
    before = times(small.output)
    small.set(sequence_len=32, min_chars=10)
    outcome = small.preprocess()
    check_error(
        outcome,
        2,
        "the output `out` was made differently",
        "preprocess.sequence_len: `64` -> `32`",
        "preprocess.min_chars: `100` -> `10`",
        hint="start anew with --overwrite",
    )
    assert times(small.output) == before
    assert not small.work.exists()


def test_a_changed_input_is_refused_by_name(small):
    before = times(small.output)
    small.write("input.jsonl", json_lines(map(document, range(1, 101))))
    outcome = small.preprocess()
    check_error(outcome, 2, "the output `out` was made differently: input `input.jsonl`", hint="--overwrite")
    assert times(small.output) == before


def test_a_changed_input_of_an_unfinished_run_is_refused_by_name(tokens, corpus, tmp_path):
    job = tokens.job(tmp_path)
    path = tmp_path / "corpus.jsonl"
    os.link(corpus, path)
    job.read_from("corpus.jsonl")
    job.save()
    run = start(job)
    run.wait_until(lambda: any(job.work.glob("stages/scan/*.json")))
    run.kill()
    path.unlink()
    grow_jsonl(path, 1_000_000)
    refused = start(job)
    assert refused.wait() == 2
    assert "an unfinished run for `out` was made differently: input `corpus.jsonl`" in refused.output


@pytest.mark.parametrize("layout", [None, 1, 99])
def test_an_unfinished_run_of_another_layout_is_refused_and_never_continued(tokens, tmp_path, layout):
    job = tokens.job(tmp_path)
    run = start(job)
    run.wait_until(lambda: any(job.work.glob("stages/scan/*.json")))
    run.kill()
    path = job.work / "run.json"
    begun = json.loads(path.read_bytes())
    assert begun.pop("layout") == LAYOUT
    path.write_text(json.dumps(begun if layout is None else {**begun, "layout": layout}))
    before = committed(job)
    refused = start(job)
    assert refused.wait() == 2
    said = f"its files have the layout `{layout or 1}`, and this version continues only those of layout"
    assert said in refused.output
    assert "finish it with the version that began it, or start anew with --overwrite" in refused.output
    assert committed(job) == before != {}
    again = start(job, "--overwrite")
    assert again.wait() == 0, again.output
    assert run_bytes(job.output) == tokens.expected


def test_overwriting_starts_anew_and_keeps_the_old_output_until_the_end(tokens, tmp_path, finished, krill):
    job = tokens.job(tmp_path)
    shutil.copytree(finished, job.output)
    old = times(job.output)
    run = start(job, "--overwrite")
    run.wait_until(lambda: any(job.work.glob("stages/encode/*.json")))
    run.kill()
    assert times(job.output) == old
    valid = krill("validate", job.output)
    assert valid.code == 0, valid.err
    resumed = start(job)  # without --overwrite: it goes on with what was begun
    assert resumed.wait() == 0, resumed.output
    assert "continuing an earlier run of this command" in resumed.output
    assert "scan: 0 B in" in resumed.output
    assert run_bytes(job.output) == tokens.expected
    assert not job.work.exists()
