"""Trainings that are killed or interrupted at any moment, and continued, also with another budget and other
threads, end with the same bytes as one that was left alone, and count nothing twice."""

from __future__ import annotations

import gzip
import json
import random
import shutil
import signal
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pytest

from conftest import dataset_bytes
from jobs import check_error
from krill_process import KrillProcess
from real_text import DOCUMENT_END, real_texts

# Budgets and threads change from one process of a training to the next.
ATTEMPTS = (("150MB", 2), ("1GB", 1), ("120MB", 1), ("300MB", 2))
CORPUS_BYTES = 8_000_000
UNIT_BYTES = 250_000
VOCAB_SIZE = 2_000

# `krill tokenizer train`, but with units of a quarter of a megabyte that are written down one by one, so that
# a run of a second has many places to be killed at. Says how many bytes it has counted itself.
SCRIPT = f"""
import sys
from dataclasses import replace
from pathlib import Path
from krill.corpus import DatasetSource
from krill.threads.progress import Silent
from krill.tokenizer import count as counting
from krill.tokenizer import text_blocks
from krill.tokenizer.options import TrainOptions
from krill.tokenizer.training import run_training

counting.UNIT_BYTES = {UNIT_BYTES}
text_blocks.CHUNK_BYTES = 50_000
count = counting.count
counting.count = lambda job: count(replace(job, unit_bytes={UNIT_BYTES}, block_bytes=50_000))

class Counted(Silent):
    stage, bytes, told_before = "", 0, False
    def begin(self, stage, total):
        self.stage = stage
    def advance(self, done):
        if self.stage == "count":
            self.bytes += done * self.told_before
            self.told_before = True

counted = Counted()
corpus, output, memory, threads = sys.argv[1:]
run_training(
    [DatasetSource(corpus)], TrainOptions(vocab_size={VOCAB_SIZE}), memory=memory, threads=int(threads),
    output=Path(output), overwrite=False, progress=counted, checkpoint_seconds=0,
)
print(counted.bytes)
"""


def state(folder: Path) -> dict:
    """What a training that is not finished has written down of its counting."""
    try:
        return json.loads((folder / ".out.krill" / "stages" / "count" / "counted.json").read_bytes())
    except FileNotFoundError:
        return {"units": {}, "bytes": 0}


@dataclass
class Case:
    """A corpus, and what a training makes of it that is left alone."""

    corpus: Path
    text_bytes: int
    expected: dict[str, bytes]
    seconds: float
    """That it worked, after it had begun."""

    def live(self, folder: Path, memory: str = "1GB", threads: int = 2) -> KrillProcess:
        return KrillProcess(folder, self.corpus, "out", memory, threads, script=SCRIPT)


def make_case(folder: Path, name: str) -> Case:
    text = DOCUMENT_END.join(islice(real_texts(), 4000)).encode()[:CORPUS_BYTES]
    corpus = folder / name
    corpus.write_bytes(gzip.compress(text, 1) if name.endswith("gz") else text)
    case = Case(corpus, len(text), {}, 0)
    running = case.live(folder)
    running.wait_until_begun()
    begun = time.monotonic()
    assert running.wait() == 0, running.output
    assert int(running.output) == len(text)
    return Case(corpus, len(text), dataset_bytes(folder / "out"), time.monotonic() - begun)


@pytest.fixture(scope="module")
def local(tmp_path_factory) -> Case:
    """Units are found by where they begin."""
    return make_case(tmp_path_factory.mktemp("local"), "corpus.txt")


@pytest.fixture(scope="module")
def streamed(tmp_path_factory) -> Case:
    """Units are found by reading what precedes them."""
    return make_case(tmp_path_factory.mktemp("streamed"), "corpus.txt.gz")


def survive(case: Case, folder: Path, kills: int, chance: random.Random) -> None:
    """Kill trainings at so many moments and let them go on; each that ends must have made the same bytes."""
    attempts = reused = 0
    while kills > 0:
        while True:
            memory, threads = ATTEMPTS[attempts % len(ATTEMPTS)]
            attempts += 1
            before = state(folder)
            published = (folder / "out").exists()  # then it was killed while it tidied up
            running = case.live(folder, memory, threads)
            # Now when some further units were written down, now at any moment from beginning to end.
            if attempts % 2:
                more = before["bytes"] + chance.randrange(8) * UNIT_BYTES
                running.wait_until(lambda more=more: state(folder)["bytes"] > more)
            if not running.kill_after(chance.uniform(0, case.seconds * (0.1 if attempts % 2 else 0.7))):
                break
            kills -= 1
            reused += before["bytes"]
            if not (folder / "out").exists():
                check_kept(before, state(folder))
        assert running.wait() == 0, running.output
        assert int(running.output) == (0 if published else case.text_bytes - before["bytes"])
        reused += before["bytes"]
        assert dataset_bytes(folder / "out") == case.expected
        assert not (folder / ".out.krill").exists()
        shutil.rmtree(folder / "out")
    assert reused > 0


def check_kept(before: dict, now: dict) -> None:
    """What was written down is not counted again; once all is counted, nothing but that is written down."""
    assert now["bytes"] >= before["bytes"]
    if "units" in now:
        assert before["units"].items() <= now["units"].items()


@pytest.mark.parametrize("name", ["local", "streamed"])
def test_trainings_killed_at_random_moments_end_with_the_same_bytes(name, request, tmp_path):
    survive(request.getfixturevalue(name), tmp_path, 3, random.Random(name))


@pytest.mark.soak
@pytest.mark.parametrize("name", ["local", "streamed"])
def test_trainings_killed_at_hundreds_of_moments_end_with_the_same_bytes(name, request, tmp_path):
    survive(request.getfixturevalue(name), tmp_path, 150, random.Random())


# ---- the command itself


def command(case: Case, *arguments: object) -> list[object]:
    train = ["tokenizer", "train", "--input", case.corpus, "--output", "out"]
    return [*train, "--vocab-size", VOCAB_SIZE, "--memory", "200MB", *arguments]


def counted(folder: Path) -> tuple[int, int]:
    """The file of word counts, as it lies on disk: one that is written again is another one."""
    status = (folder / ".out.krill" / "stages" / "count" / "word-counts").stat()
    return status.st_ino, status.st_mtime_ns


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_command_that_ended_while_merging_counts_nothing_again(local, tmp_path, end):
    running = KrillProcess(tmp_path, *command(local))
    running.wait_until(lambda: "word_counts" in state(tmp_path))
    running.process.send_signal(end)
    assert running.wait() == (-signal.SIGKILL if end == signal.SIGKILL else 130), running.output
    assert "Traceback" not in running.output
    if end != signal.SIGKILL:
        assert running.output.endswith(
            "interrupted: what was done is kept\nhint: run the same command to continue\n"
        )
    assert not (tmp_path / "out").exists()
    before = counted(tmp_path)
    resumed = KrillProcess(tmp_path, *command(local))
    resumed.wait_until_begun()
    assert counted(tmp_path) == before
    assert resumed.wait() == 0, resumed.output
    assert "continuing an earlier run of this command" in resumed.output
    assert dataset_bytes(tmp_path / "out") == local.expected
    assert not (tmp_path / ".out.krill").exists()


def test_a_command_that_was_interrupted_at_once_leaves_nothing(local, tmp_path):
    running = KrillProcess(tmp_path, *command(local))
    running.wait_until_begun()
    running.process.send_signal(signal.SIGINT)
    assert running.wait() == 130, running.output
    assert "Traceback" not in running.output
    if not state(tmp_path)["bytes"]:
        assert not any(tmp_path.iterdir())


def test_what_was_counted_and_then_damaged_is_refused(local, tmp_path):
    running = KrillProcess(tmp_path, *command(local))
    running.wait_until(lambda: "word_counts" in state(tmp_path))
    running.kill()
    word_counts = tmp_path / ".out.krill" / "stages" / "count" / "word-counts"
    word_counts.write_bytes(word_counts.read_bytes()[:-1])
    refused = KrillProcess(tmp_path, *command(local))
    assert refused.wait() == 5
    assert "word-counts` is damaged\nhint: start anew with --overwrite\n" in refused.output
    again = KrillProcess(tmp_path, *command(local, "--overwrite"))
    assert again.wait() == 0, again.output
    assert dataset_bytes(tmp_path / "out") == local.expected


def test_where_no_more_can_be_written_it_says_so(krill, local, tmp_path):
    outcome = krill(*command(local), cwd=tmp_path, file_limit=100_000)
    check_error(outcome, 5, "cannot write `.out.krill/stages/count/", "file size limit", hint="ulimit -f")
    assert not (tmp_path / "out").exists()
