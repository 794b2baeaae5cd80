"""A crawl of a small site, from WARC files to rows: what is kept and why the rest is not, and the same bytes
with any threads, budgets, kills and shares."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from conftest import run_bytes
from jobs import Job
from krill_process import KrillProcess
from web_crawl import crawl, simple_answers
from web_site import CHARSETS, PAGES, site_pages, write_crawl

pytest_plugins = ["job_fixtures"]

EXAMPLE = Path(__file__).parents[2] / "examples" / "web.yaml"
DROPPED = {
    "page_too_large": 1,
    "http_status": 3,
    "content_type": 1,
    "mislabelled": 1,
    "url_skipped": 1,
    "page_too_complex": 2,
    "url_hard_blacklisted": 1,
}


def read_texts(output: Path) -> list[dict[str, Any]]:
    return [row for path in sorted(output.glob("text-*.parquet")) for row in pq.read_table(path).to_pylist()]


def test_the_example_makes_rows_of_a_crawl(job: Job) -> None:
    write_crawl(job.folder)
    job.config = yaml.safe_load(EXAMPLE.read_text())
    job.config["preprocess"].update(
        prepared_path="out", dedup="none", filters=job.config["preprocess"]["filters"][:1]
    )
    outcome = job.preprocess("--json")
    assert outcome.code == 0, outcome.err
    facts = json.loads(outcome.out)
    assert facts["documents"]["dropped"] == DROPPED
    assert facts["documents"]["read"] == len(site_pages())
    rows = read_texts(job.output)
    assert [row["url"] for row in rows[:3]] == [f"https://example.org/articles/{n}" for n in range(3)]
    assert rows[0]["title"] == "Article 0"
    by_url = {row["url"]: row["text"] for row in rows}
    assert len(by_url) == len(site_pages()) - sum(DROPPED.values())
    assert len([url for url in by_url if "/articles/" in url]) == PAGES - 1
    for charset, text in CHARSETS.items():
        assert text in by_url[f"https://example.org/meta/{charset}"]
        assert by_url[f"https://example.org/http/{charset}"] == by_url[f"https://example.org/meta/{charset}"]
    assert not any("not text" in text or "About us" in text or "Imprint" in text for text in by_url.values())


def web_job(job: Job, pages: int = 400) -> None:
    """Units of some pages each."""
    for number in range(2):
        (job.folder / f"{number}.warc.gz").write_bytes(crawl(simple_answers(pages, f"host{number}.org")))
    job.read_from({"path": "*.warc.gz", "columns": ["url", "title"]})
    job.set(
        unit_bytes="100KB",
        max_document_bytes="20KB",
        output="both",
        min_length=10,
        filters=[{"url": {"patterns": [r"/articles/1\d$"]}}],
    )
    job.config["datasets"][0]["extract"] = {"max_page_bytes": "1MB"}


def made_by(job: Job, *options: str) -> dict[str, bytes]:
    outcome = job.preprocess("--overwrite", *options)
    assert outcome.code == 0, outcome.err
    return run_bytes(job.output)


def test_threads_and_budgets_change_no_byte(job: Job) -> None:
    web_job(job)
    expected = made_by(job, "--threads", "1")
    assert made_by(job, "--threads", "2", "--memory", "1GB") == expected
    assert len(read_texts(job.output)) == 390  # of two hosts with the same pages, without ten of them


def test_a_killed_run_goes_on_where_it_was(job: Job) -> None:
    web_job(job)
    expected = made_by(job)
    job.config["preprocess"]["prepared_path"] = "again"
    job.save()
    done: dict[str, int] = {}
    for _ in range(2):
        run = KrillProcess(job.folder, "preprocess", "config.yaml", "--threads", "1")
        wanted = len(done) + 2
        run.wait_until(lambda: len(committed_units(job)) >= wanted)  # noqa: B023  called at once
        run.kill()
        now = committed_units(job)
        assert {name: now[name] for name in done} == done  # nothing was done twice
        done = now
    assert job.preprocess("--threads", "2").code == 0
    assert run_bytes(job.folder / "again") == expected


def committed_units(job: Job) -> dict[str, int]:
    """The records of scanned units, each with when it was written."""
    records = (job.folder / ".again.krill" / "stages" / "scan").glob("*.json")
    return {path.name: path.stat().st_mtime_ns for path in records}


def test_shares_of_the_work_make_the_same_bytes(job: Job) -> None:
    web_job(job, 200)
    expected = made_by(job)
    job.config["preprocess"]["prepared_path"] = "shared"
    job.save()
    shares = [KrillProcess(job.folder, "preprocess", "config.yaml", "--task", f"{n}/2") for n in (1, 2)]
    for share in shares:
        assert share.wait() == 0, share.output
    assert job.preprocess("--task", "finish").code == 0
    assert run_bytes(job.folder / "shared") == expected


def test_a_list_of_files_says_what_is_read_and_in_which_order(job: Job) -> None:
    web_job(job, 20)
    (job.folder / "some.paths.gz").write_bytes(gzip.compress(b"1.warc.gz\n0.warc.gz\n"))
    job.read_from({"path": ".", "paths_file": "some.paths.gz", "columns": ["url"]})
    job.set(dedup="none", filters=[])
    job.config["memory"] = "400MB"
    assert job.preprocess().code == 0
    hosts = [row["url"].split("/")[2] for row in read_texts(job.output)]
    assert hosts == ["host1.org"] * 20 + ["host0.org"] * 20


@pytest.mark.parametrize(
    ("line", "fact"),
    [
        ("../0.warc.gz", "line 2: `../0.warc.gz` is not the name of a file below `path:`"),
        ("/etc/passwd", "line 2: `/etc/passwd` is not the name"),
        ("s3://bucket/a.warc.gz", "line 2: `s3://bucket/a.warc.gz` is not the name"),
        ("none.warc.gz", "no such file: `./none.warc.gz`"),
    ],
)
def test_a_list_that_names_other_files_is_refused(job: Job, line: str, fact: str) -> None:
    web_job(job, 2)
    job.write("some.paths", f"1.warc.gz\n{line}\n".encode())
    job.read_from({"path": ".", "paths_file": "some.paths"})
    outcome = job.preprocess()
    assert outcome.code == 3
    assert fact in outcome.err
    assert "hint: " in outcome.err
