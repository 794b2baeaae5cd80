"""Crawls over HTTP and pages that attack: a clear error or a counted reason, inside the budget."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from jobs import Job, check_error
from krill.corpus import DatasetSource, open_corpus
from krill.errors import InputError
from web_crawl import Answer, compressed, crawl, page_of, response_record, simple_answers, warc_record
from web_site import Served, serving

pytest_plugins = ["job_fixtures"]

LIMITS = {"unit_bytes": 32_000_000, "max_document_bytes": 4_000_000, "pages": True}
BINARY = {"Content-Type": "application/octet-stream"}


def urls_at(host: str, listed: str = "warc.paths.gz") -> list[str]:
    source = DatasetSource(f"http://{host}", paths_file=f"http://{host}/{listed}", columns=("url",))
    corpus = open_corpus([source], **LIMITS)
    return [
        url
        for _, blocks in corpus.walk(lambda _: None)
        for block in blocks
        for url in block.documents().batch.column("url").to_pylist()
    ]


def site(names: bytes, **files: Served) -> dict[str, Served]:
    """A list of files, a crawl, and other answers by name."""
    good = Served(crawl(simple_answers(5)), headers=BINARY)
    listed = Served(gzip.compress(names), headers=BINARY)
    return {
        "/warc.paths.gz": listed,
        "/a/0.warc.gz": good,
        **{f"/{name}": each for name, each in files.items()},
    }


def test_a_list_over_http_names_crawls_over_http() -> None:
    with serving(site(b"a/0.warc.gz\na/0.warc.gz\n")) as host:
        assert urls_at(host) == 2 * [answer.url for answer in simple_answers(5)]


@pytest.mark.parametrize(
    ("served", "fact"),
    [
        (Served(b"", 403), "answers `403 Forbidden`"),
        (Served(b"", 404), "no such file"),
        (Served(b"", 500), "answers `500 Internal Server Error`, 5 times in"),
        (Served(b"", 503), "answers `503 Service Unavailable`, 5 times in"),
        (Served(b"", 302, {"Location": "/bad"}), "redirects for ever"),
    ],
)
def test_answers_that_are_no_file_are_named(
    served: Served, fact: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("krill.corpus.remote.FIRST_WAIT", 0.01)
    with serving(site(b"a/0.warc.gz\nbad\n", bad=served)) as host, pytest.raises(InputError) as caught:
        urls_at(host)
    assert fact in caught.value.message
    assert caught.value.hint
    if served.status >= 500:
        assert "trying again in" in caplog.text


def run(job: Job, content: bytes, *, skip: bool = True) -> dict[str, int]:
    """What was dropped of a crawl, one page of which is always kept."""
    good = response_record(
        Answer("https://example.org/good", page_of("<p>" + "good words " * 40 + "</p>").encode())
    )
    job.write("input.warc.gz", content + gzip.compress(good))
    job.read_from("input.warc.gz")
    job.config["memory"] = "512MB"
    job.set(on_error="skip" if skip else "fail", min_length=10, unit_bytes="32MB")
    outcome = job.preprocess("--json")
    assert outcome.code == 0, outcome.err
    assert outcome.peak <= 512 * 10**6
    documents = json.loads(outcome.out)["documents"]
    assert documents["kept"] == 1
    return dict(documents["dropped"])


def page(body: bytes, **answer: str) -> bytes:
    return gzip.compress(response_record(Answer("https://example.org/bad", body, **answer)), 1)


ATTACKS = {
    "a page of 100 MB": (page(b"<p>words</p>" * 8_400_000), {"page_too_large": 1}),
    "a bomb in a record": (
        gzip.compress(warc_record("resource", bytes(200_000_000), content_type="text/html"), 1),
        {"page_too_large": 1},
    ),
    "100,000 levels": (page(b"<div>" * 100_000), {"page_too_complex": 1}),
    "100,000 levels of misnested elements": (page(b"<b><p></b>" * 100_000), {"page_too_complex": 1}),
    "a url that is none": (
        compressed([response_record(Answer("\x1b[31m not a url \xff", b"<p>short</p>"))], ".gz"),
        {"too_short": 1},
    ),
    "half a record": (gzip.compress(response_record(simple_answers(1)[0])[:500]), {"warc_length": 1}),
    "no crawl at all": (gzip.compress(b"just some text\n" * 1000), {"warc_header": 1}),
    "empty members": (gzip.compress(b"", 1, mtime=0) * 100_000, {}),
    "bytes that look like members": (b"\x1f\x8b\x08\x00" * 100_000, {"warc_corrupt": 1}),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_is_counted_and_the_page_behind_it_is_kept(job: Job, attack: str) -> None:
    content, dropped = ATTACKS[attack]
    assert run(job, content) == dropped


def test_a_cut_crawl_stops_the_run_with_the_place_unless_it_may_be_skipped(job: Job) -> None:
    job.write("input.warc.gz", crawl(simple_answers(5))[:-100])
    job.read_from("input.warc.gz")
    job.config["memory"] = "512MB"
    outcome = job.preprocess()
    check_error(
        outcome, 3, "`input.warc.gz`, the record at byte", "the file ends inside of it", hint="on_error: skip"
    )


def test_another_verb_refuses_a_crawl(krill: object, tmp_path: Path) -> None:
    (tmp_path / "input.warc.gz").write_bytes(crawl(simple_answers(2)))
    command = ("tokenizer", "train", "--input", "input.warc.gz", "--vocab-size", "300", "--output", "t")
    outcome = krill(*command, cwd=tmp_path)  # type: ignore[operator]
    assert outcome.code == 3
    assert "holds web pages, whose text only `krill preprocess` extracts" in outcome.err
