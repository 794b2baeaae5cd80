"""Pages extracted by Trafilatura in worker processes: the same bytes, whatever becomes of the processes."""

from __future__ import annotations

import json
from pathlib import Path

from conftest import run_bytes
from jobs import Job, check_error
from krill_process import KrillProcess
from web_crawl import Answer, article, crawl, page_of

pytest_plugins = ["job_fixtures"]

PAGES = 24
MEMORY = ("--memory", "512MB")


def make(job: Job, output: str = "out") -> None:
    """Pages of 60 kB and few elements, which Trafilatura is quick with, in units of some each."""
    answers = []
    for number in range(PAGES):
        lines = " ".join(article(number * 50 + part, paragraphs=10) for part in range(20))
        body = "<p>" + lines.replace("<p>", "").replace("</p>", "") + "</p>"
        answers.append(Answer(f"https://example.org/{number}", page_of(body, title=f"Nr {number}").encode()))
    (job.folder / "crawl.warc").write_bytes(crawl(answers, ""))
    job.read_from({"path": "crawl.warc", "columns": ["url", "title"]})
    job.config["datasets"][0]["extract"] = {"method": "trafilatura", "max_page_bytes": "2MB"}
    job.set(unit_bytes="300KB", max_document_bytes="200KB", output="both", prepared_path=output)
    job.save()


def budget_of(folder: Path) -> dict[str, int]:
    found: dict[str, int] = json.loads((folder / "krill-run.json").read_bytes())["budget"]
    return found


def test_processes_give_the_bytes_of_one_thread_also_after_a_kill(job: Job) -> None:
    make(job)
    assert job.preprocess("--quiet", "--threads", "1", *MEMORY).code == 0
    alone = run_bytes(job.output)
    assert job.manifest()["documents"]["kept"] == PAGES
    assert "processes_peak" not in budget_of(job.output)
    # Where there is no room for processes, this one extracts.
    make(job, "small")
    outcome = job.preprocess("--quiet", "--threads", "2", "--memory", "290MB")
    assert outcome.code == 0, outcome.err
    assert "processes_peak" not in budget_of(job.folder / "small")
    assert run_bytes(job.folder / "small") == alone
    make(job, "killed")
    run = KrillProcess(job.folder, "preprocess", "config.yaml", "--threads", "2", *MEMORY)
    records = job.folder / ".killed.krill" / "stages" / "scan"
    run.wait_until(lambda: any(records.glob("*.json")))
    run.kill()
    done = {path: path.stat().st_mtime_ns for path in records.glob("*.json")}
    assert job.preprocess("--quiet", "--threads", "2", *MEMORY).code == 0
    assert done
    assert run_bytes(job.folder / "killed") == alone
    budget = budget_of(job.folder / "killed")
    assert 0 < budget["processes_peak"] < budget["measured_peak"] <= budget["limit"]
    assert budget["tree_pss"] <= budget["limit"]


def test_an_option_of_another_library_is_told(job: Job) -> None:
    make(job)
    job.config["datasets"][0]["extract"]["links"] = True
    check_error(job.preprocess(), 2, "`links` is an option of `resiliparse`", hint="")
