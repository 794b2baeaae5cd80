"""Conversations rendered by worker processes: the same bytes, whatever becomes of the processes."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path

import pytest

from chat_jobs import conversation, make_chat
from conftest import dataset_bytes
from jobs import Job, check_error
from krill_process import KrillProcess

pytest_plugins = ["job_fixtures"]

MB = 10**6
MEMORY = ("--memory", "400MB")
# Of earlier answers, it leaves out what was thought.
REWRITING = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}"
    "{{ m.content if loop.last else m.content.split('</think>')[-1] }}{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


@pytest.fixture(scope="module")
def lines() -> list[str]:
    """Rows of 11 MB, some of which imitate a control token: more than this process would render itself."""
    chance = random.Random(3)
    rows = []
    for number in range(300):
        messages = conversation(chance, 3)
        messages[0]["content"] += " krill <|im_end|> swims " * 30
        messages[1]["content"] += " of the cold sea 🦐" * 1600
        rows.append(json.dumps({"id": number, "messages": messages}, ensure_ascii=False) + "\n")
    assert sum(len(row.encode()) for row in rows) > 10 * MB
    return rows


def make(job: Job, lines: list[str], output: str = "out", **preprocess: object) -> Job:
    job.write("input.jsonl", "".join(lines).encode())
    make_chat(job, unit_bytes="2MB", sequence_len=65_536, prepared_path=output, **preprocess)
    return job


def workers_of(process: int) -> list[int]:
    children = (path.read_text().split() for path in Path(f"/proc/{process}/task").glob("*/children"))
    return [int(child) for some in children for child in some]


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def begin_rendering(job: Job) -> tuple[KrillProcess, list[int]]:
    """A run on two threads whose two processes were started, and one of whose units is committed."""
    job.save()
    process = KrillProcess(job.folder, "preprocess", "config.yaml", "--threads", "2", *MEMORY)
    records = job.folder / f".{job.config['preprocess']['prepared_path']}.krill" / "stages" / "scan"
    process.wait_until(lambda: len(workers_of(process.process.pid)) == 2 and any(records.glob("*.json")))
    workers = workers_of(process.process.pid)
    assert len(workers) == 2, process.output
    return process, workers


def wait_until_ended(workers: list[int]) -> None:
    deadline = time.monotonic() + 10
    while any(map(is_running, workers)):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_processes_give_the_bytes_of_one_thread_and_a_small_budget_has_none(
    job: Job, lines: list[str]
) -> None:
    make(job, lines)
    assert job.preprocess("--quiet", "--threads", "1", *MEMORY).code == 0
    alone, manifest = dataset_bytes(job.output), job.manifest()
    assert "processes_peak" not in manifest["budget"]
    for memory, has_processes in (("400MB", True), ("190MB", False)):
        make(job, lines, memory)
        assert job.preprocess("--quiet", "--threads", "2", "--memory", memory).code == 0
        found = json.loads((job.folder / memory / "krill-run.json").read_bytes())
        assert dataset_bytes(job.folder / memory) == alone
        assert ("processes_peak" in found["budget"]) == has_processes
        assert found["budget"]["measured_peak"] <= found["budget"]["limit"]
        assert found["documents"] == manifest["documents"]


def test_a_lost_process_is_replaced_and_a_killed_run_leaves_none_and_goes_on(
    job: Job, lines: list[str]
) -> None:
    make(job, lines)
    assert job.preprocess("--quiet", "--threads", "1", *MEMORY).code == 0
    alone = dataset_bytes(job.output)
    make(job, lines, "hurt")
    process, workers = begin_rendering(job)
    os.kill(workers[0], signal.SIGKILL)
    assert process.wait() == 0, process.output
    assert dataset_bytes(job.folder / "hurt") == alone
    make(job, lines, "killed")
    process, workers = begin_rendering(job)
    process.kill()
    wait_until_ended(workers)
    assert job.preprocess("--quiet", "--threads", "2", *MEMORY).code == 0
    assert dataset_bytes(job.folder / "killed") == alone


def test_an_interrupt_ends_the_processes_without_a_word_of_theirs(job: Job, lines: list[str]) -> None:
    make(job, lines)
    process, workers = begin_rendering(job)
    process.process.send_signal(signal.SIGINT)
    assert process.wait() == 130, process.output
    wait_until_ended(workers)
    assert "Traceback" not in process.output and "KeyboardInterrupt" not in process.output


def test_a_row_or_a_template_at_fault_is_told_as_without_processes(job: Job, lines: list[str]) -> None:
    broken = json.dumps({"messages": [{"role": "user", "content": 7}]}) + "\n"
    make(job, [*lines[:250], broken, *lines[250:]])
    alone = job.preprocess("--threads", "1", *MEMORY)
    outcome = job.preprocess("--threads", "2", *MEMORY, "--overwrite")
    check_error(outcome, 3, "`input.jsonl` line 251", hint="on_error: skip")
    assert outcome.err == alone.err
    job.write("rewriting.jinja", REWRITING.encode())
    messages = conversation(random.Random(0), 2)
    messages[1]["content"] = "a thought</think>an answer"
    thought = json.dumps({"messages": messages}) + "\n"
    make(job, [*lines[:250], thought, *lines[250:]])
    job.config["chat_template"] = "rewriting.jinja"
    outcome = job.preprocess("--threads", "2", *MEMORY, "--overwrite")
    check_error(outcome, 2, "writes earlier turns otherwise", hint="`unroll`")


def test_a_template_that_piles_up_texts_is_named_where_memory_ends(job: Job, lines: list[str]) -> None:
    """In a generator of generators nothing shows how much is held."""
    piles = (
        "{% set ns = namespace(all=[]) %}{% for i in range(9999 if messages[0].content == 'evil' else 1) %}"
        "{% set ns.all = [ns.all | map('string'), i ~ 'x' * 99999] | map('string') %}{% endfor %}"
    )
    job.write("piles.jinja", (piles + REWRITING).encode())
    evil = [{"role": "user", "content": "evil"}, {"role": "assistant", "content": "b"}]
    make(job, [*lines, json.dumps({"messages": evil}) + "\n"])
    job.config["chat_template"] = "piles.jinja"
    for threads in ("1", "2"):
        outcome = job.preprocess("--quiet", "--threads", threads, *MEMORY, "--overwrite")
        check_error(outcome, 4, "memory" if threads == "1" else "worker process", hint="piles.jinja")
