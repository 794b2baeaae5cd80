"""Trafilatura gives the texts that it gives when it is run directly, here and in a process of its own."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import pytest
import trafilatura
from resiliparse.parse.html import HTMLTree

from krill.config import DatasetConfig
from krill.config.extract import ExtractConfig
from krill.corpus import DatasetSource, Documents, open_corpus
from krill.corpus.readers import Limits
from krill.errors import ConfigError, InputError
from krill.pipeline.web_input import page_settings
from krill.text.extract import ExtractPages
from krill.text.extractors import (
    WORK,
    decode_answer,
    encode_request,
    extractor_of,
    versions_of,
    work_settings,
)
from krill.text.page_limits import RESILIPARSE, TRAFILATURA, TRAFILATURA_FAST
from krill.text.page_watch import PageWatch
from krill.threads.processes import WorkerProcesses
from web_crawl import Answer, article, compressed, page_of, response_record
from web_site import PAGES, site_pages
from worst_pages import KINDS, framed

LIMITS = Limits(32_000_000, 4_000_000)
COMMENTS = (
    '<div id="comments"><div class="comment"><p>A comment of a reader, as long as others.</p></div></div>'
)
RICH = (
    f"<h1>A title</h1>{article(1)}<h2>More <em>of it</em></h2><ul><li>one</li><li>two</li></ul>"
    '<table><tr><td>a cell</td><td>another</td></tr></table><p>with <a href="https://a.org/b">a link</a>'
    ' and <img src="https://a.org/c.png" alt="a picture"> in it</p>'
    f'<div class="note"><p>{"noted " * 30}</p></div>'
)
OPTIONS = (
    {},
    {"fast": True},
    {"favor_precision": True, "include_comments": False},
    {"favor_recall": True, "include_tables": False},
    {"include_links": True, "include_formatting": True, "include_images": True},
    {"prune_xpath": ("//div[@class='note']", "//table")},
)


def pages() -> list[str]:
    """Articles, traps and shapes of every kind."""
    site = [served.body.decode("utf-8", "replace") for served in site_pages().values()]
    few = [page for page in site[:3] + site[PAGES:] if len(page) < 20_000]
    made = [framed(kind(40)) for name, kind in KINDS.items() if "levels" not in name][::4]
    return [page_of(RICH + COMMENTS), page_of(article(2)), *few, *made, " ", "no tags", "<a"]


def direct(page: str, options: dict[str, object]) -> str:
    """What a user of the library writes; `fast` had another name before version 2."""
    given = dict(options)
    if "fast" in given and version("trafilatura") < "2":
        given["no_fallback"] = given.pop("fast")
    if "prune_xpath" in given:
        given["prune_xpath"] = list(given["prune_xpath"])  # type: ignore[call-overload]
    return trafilatura.extract(page, **given) or ""


@pytest.mark.parametrize("options", OPTIONS)
def test_texts_are_those_of_trafilatura(options: dict[str, object]) -> None:
    extract = extractor_of(ExtractConfig(method="trafilatura", **options), titles=False)
    some = pages()
    found = [extract(page) for page in some]
    assert [text for text, _ in found] == [direct(page, options) for page in some]
    assert sum(len(text) > 20 for text, _ in found) > 20


def test_options_do_what_they_say() -> None:
    page = page_of(RICH + COMMENTS)

    def text(**options: object) -> str:
        return extractor_of(ExtractConfig(method="trafilatura", **options), titles=False)(page)[0]

    assert "a cell" in text() and "a cell" not in text(include_tables=False)
    assert "noted" in text() and "noted" not in text(prune_xpath=["//div[@class='note']"])
    assert "(https://a.org/b)" in text(include_links=True) and "a.org/b" not in text()
    assert "## More" in text(include_formatting=True) and "## More" not in text()


def test_the_title_is_that_of_the_page_whichever_library_reads_it() -> None:
    extract = extractor_of(ExtractConfig(method="trafilatura"), titles=True)
    for title in ("Déjà &lt;vu&gt;", "two\n lines", "", "a<b>c"):
        page = page_of(article(3), title=title)
        assert extract(page)[1] == (HTMLTree.parse(page).title or "")


def step_for(folder: Path, answers: list[Answer], **extract: object) -> tuple[ExtractPages, list[Documents]]:
    """The step, and the blocks of a crawl of these answers."""
    path = folder / "crawl.warc"
    path.write_bytes(compressed(map(response_record, answers), ""))
    config = DatasetConfig(path=str(path), columns=("url", "title"), extract=extract)
    source = DatasetSource(str(path), columns=("url", "title"))
    corpus = open_corpus([source], unit_bytes=32_000_000, max_document_bytes=4_000_000, pages=True)
    step = ExtractPages([page_settings(config)], corpus.files, LIMITS)
    return step, [block.documents() for _, blocks in corpus.walk(lambda _: None) for block in blocks]


@contextmanager
def processes(step: ExtractPages, watch: PageWatch | None = None) -> Iterator[ExtractPages]:
    settings = work_settings([(source.config, source.titles) for source in step.settings])
    workers = WorkerProcesses(WORK, settings, 1, 300_000_000, None)
    moved = ExtractPages(step.settings, step.files, step.limits, watch or PageWatch(), processes=workers)
    try:
        yield moved
    finally:
        moved.release()


def test_a_process_gives_the_texts_titles_and_counts_of_this_one(tmp_path: Path) -> None:
    answers = [
        Answer(f"https://a/{n}", page.encode(), content_type="text/html") for n, page in enumerate(pages())
    ]
    step, blocks = step_for(tmp_path, answers, method="trafilatura", oversize_page="strip")
    here = [step.apply(block) for block in blocks]
    with processes(step) as moved:
        there = [moved.apply(block) for block in blocks]
        assert moved.processes is not None and moved.processes.held_bytes() > 50_000_000
    assert [(found.batch, found.counts) for found in there] == [(found.batch, found.counts) for found in here]
    assert sum(found.batch.num_rows + found.counts.get("mislabelled", 0) for found in here) == len(answers)
    assert step.fingerprint() == versions_of({"trafilatura"})


def test_a_page_that_a_process_takes_too_long_for_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    step, blocks = step_for(
        tmp_path, [Answer("https://a/slow", page_of(RICH * 40).encode())], method="trafilatura"
    )
    with (
        processes(step, PageWatch(0.02)) as moved,
        pytest.raises(InputError, match="`https://a/slow`") as caught,
    ):
        moved.apply(blocks[0])
    assert "skip_urls" in (caught.value.hint or "")
    assert "https://a/slow" in caplog.text


def test_a_process_that_is_lost_in_a_page_is_replaced(tmp_path: Path) -> None:
    step, blocks = step_for(tmp_path, [Answer("https://a/0", page_of(RICH).encode())], method="trafilatura")
    with processes(step) as moved:
        assert moved.processes is not None
        first = moved.apply(blocks[0]).batch
        (running,) = moved.processes._running
        os.kill(running.id, signal.SIGKILL)
        time.sleep(0.05)
        assert moved.apply(blocks[0]).batch == first


def test_what_a_library_can_not_use_is_told_before_anything_is_read() -> None:
    with pytest.raises(ConfigError, match=r"`extract\.prune_xpath` can't be used: `//a\[`"):
        extractor_of(ExtractConfig(method="trafilatura", prune_xpath=["//a["]), titles=False)
    with pytest.raises(ValueError, match=r"`links` is an option of `resiliparse`"):
        ExtractConfig(method="trafilatura", links=True)
    with pytest.raises(ValueError, match=r"`fast` or `prune_xpath` is an option of `trafilatura`"):
        ExtractConfig(fast=True, prune_xpath=["//a"])


@pytest.mark.parametrize(
    ("options", "limits"), [({}, TRAFILATURA), ({"fast": True}, TRAFILATURA_FAST)], ids=["all", "fast"]
)
def test_pages_are_held_to_the_limits_of_their_library(
    tmp_path: Path, options: dict[str, bool], limits: object
) -> None:
    elements = "<p>text</p>" * (limits.tags + 1)  # type: ignore[attr-defined]
    traps = [
        elements,
        "<div>" * 251 + "text",
        "<textarea/>" + elements,
        f'<p class="{"a " * 700_000}">text</p>',
        "<p>" + "some text " * 450_000,
        f"<p {' '.join(f'a{n}=1' for n in range(30))}>text</p>" * 3_000,
    ]
    answers = [Answer(f"https://a/{n}", page_of(trap).encode()) for n, trap in enumerate(traps)]
    step, blocks = step_for(tmp_path, answers, method="trafilatura", **options)
    found = [step.apply(block) for block in blocks]
    assert sum(block.counts["page_too_complex"] for block in found) == len(traps)
    assert all(block.batch.num_rows == 0 for block in found)
    assert all(RESILIPARSE.held_bytes(page_of(trap).encode()) is not None for trap in traps)


def test_requests_and_answers_are_bytes() -> None:
    assert encode_request(258, b"<p>")[:4] == b"\x02\x01\x00\x00"
    assert decode_answer(b"\x02\0\0\0tiand text") == (b"and text", b"ti")
