"""Reports of runs that were killed."""

from __future__ import annotations

import html
import json
import re
import signal

from jobs import Job, document, json_lines
from krill_process import KrillProcess

pytest_plugins = ["job_fixtures"]


def test_a_killed_run_says_how_far_it_came_and_goes_on_afterwards(job: Job) -> None:
    job.write("input.jsonl", json_lines(document(number) for number in range(4000)))
    job.set(unit_bytes="64KB", max_document_bytes="8KB")
    job.save()
    running = KrillProcess(job.folder, "preprocess", "config.yaml", "--quiet")
    running.wait_until(lambda: any((job.work / "stages" / "scan").glob("*.json")))
    running.process.send_signal(signal.SIGSTOP)  # however long the report takes, the run is at work
    at_work = job.run("report", "out", "--output", "at-work.html")
    running.kill()
    assert at_work.code == 0, at_work.err

    made = job.run("report", "out", "--json")
    assert made.code == 0, made.err
    assert made.result["runs"] == [{"path": "out", "command": "preprocess", "state": "unfinished"}]
    page = html.unescape((job.folder / "report.html").read_text())
    committed = len(list((job.work / "stages" / "scan").glob("*.json")))
    assert re.search(rf"This run is not finished.*?scan {committed}\b", page)
    assert "Memory over time</figcaption>" in page or "had not kept any of it yet" in page

    ended = job.preprocess("--json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["continued"] is True
