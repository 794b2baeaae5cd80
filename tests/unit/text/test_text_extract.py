"""Pages become text: their charset, their title, what is beyond the limits, and what is skipped."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from resiliparse.extract.html2text import extract_plain_text

from krill.config import DatasetConfig
from krill.config.extract import ExtractConfig
from krill.corpus import DatasetSource, Documents, concat, open_corpus
from krill.corpus.readers import Limits
from krill.errors import ConfigError, InputError
from krill.pipeline.web_input import page_settings
from krill.text.charset import decode_page
from krill.text.extract import ExtractPages
from krill.text.page_limits import RESILIPARSE
from krill.text.page_watch import PageWatch
from web_crawl import Answer, article, compressed, page_of, response_record, simple_answers

LIMITS = Limits(32_000_000, 4_000_000)


def extracted(
    folder: Path,
    answers: list[Answer],
    *,
    columns: tuple[str, ...] = ("url",),
    limits: Limits = LIMITS,
    watch: PageWatch | None = None,
    **dataset: Any,
) -> Documents:
    """What is left of a crawl of these answers."""
    path = folder / "crawl.warc"
    path.write_bytes(compressed(map(response_record, answers), ""))
    config = DatasetConfig(path=str(path), columns=columns, **dataset)
    corpus = open_corpus(
        [DatasetSource(str(path), columns=columns)],
        unit_bytes=32_000_000,
        max_document_bytes=4_000_000,
        pages=True,
    )
    step = ExtractPages([page_settings(config)], corpus.files, limits, watch or PageWatch())
    found = [
        step.apply(Documents(read.batch, read.counts, ()))
        for _, blocks in corpus.walk(lambda _: None)
        for read in (block.documents() for block in blocks)
    ]
    return replace(concat(found), rejected=tuple(rows for each in found for rows in each.rejected or ()))


def page(body: str, url: str = "https://example.org/0", **answer: Any) -> Answer:
    return Answer(url, page_of(body).encode(), **answer)


def test_menus_scripts_and_footers_are_left_out(tmp_path: Path) -> None:
    found = extracted(tmp_path, [page("<h1>Rivers</h1><p>They flow &amp; carry.</p>")])
    assert found.batch["text"].to_pylist() == ["Rivers\n\nThey flow & carry."]
    assert found.batch.schema.names == ["text", "position", "url"]


def test_texts_are_those_of_resiliparse(tmp_path: Path) -> None:
    answers = simple_answers(30)
    options = {"alt_texts": True, "links": True, "main_content": False}
    found = extracted(tmp_path, answers, extract=options)
    wanted = ExtractConfig(**options).options()
    del wanted["skip_elements"]
    assert found.batch["text"].to_pylist() == [
        extract_plain_text(answer.body.decode(), **wanted) for answer in answers
    ]
    assert found.counts == {"records": 30}


def test_titles_are_a_column(tmp_path: Path) -> None:
    titled = Answer("https://example.org/0", page_of("<p>text</p>", title="Déjà &lt;vu&gt;").encode())
    found = extracted(tmp_path, [titled, page("<p>other</p>")], columns=("title", "date"))
    assert found.batch["title"].to_pylist() == ["Déjà <vu>", "A page"]
    assert found.batch.schema.names == ["text", "position", "date", "title"]


def test_elements_can_be_left_out_by_selectors(tmp_path: Path) -> None:
    body = page('<p>kept</p><div class="note"><p>gone</p></div>')
    found = extracted(tmp_path, [body], extract={"skip_elements": ["div.note"]})
    assert found.batch["text"].to_pylist() == ["kept"]
    with pytest.raises(ConfigError, match=r"`extract\.skip_elements` can't be used"):
        page_settings(DatasetConfig(path="a", extract={"skip_elements": ["div["]}))


def test_plain_text_stays_as_it_is(tmp_path: Path) -> None:
    answer = Answer("https://example.org/0", b"a < b\n\n  and <p>", content_type="text/plain")
    assert extracted(tmp_path, [answer]).batch["text"].to_pylist() == ["a < b\n\n  and <p>"]


RUSSIAN = "Привет, мир! Это страница на русском языке, с несколькими предложениями."
JAPANESE = "これは日本語のページです。文字コードを調べます。"


@pytest.mark.parametrize(
    ("body", "stated", "text"),
    [
        ("héllo".encode(), "utf-8", "héllo"),
        ("héllo".encode(), "", "héllo"),
        ("h€llo".encode("cp1252"), "iso-8859-1", "h€llo"),
        ("h€llo".encode("cp1252"), "latin-1", "h€llo"),
        (RUSSIAN.encode("cp1251"), "windows-1251", RUSSIAN),
        (RUSSIAN.encode("koi8-r"), "KOI8-R", RUSSIAN),
        (b'<meta charset="windows-1251">' + RUSSIAN.encode("cp1251"), "", RUSSIAN),
        (
            b'<meta http-equiv=x content="text/html; charset=shift_jis">' + JAPANESE.encode("sjis"),
            "",
            JAPANESE,
        ),
        (RUSSIAN.encode("cp1251"), "", RUSSIAN),
        (JAPANESE.encode("euc_jp"), "", JAPANESE),
        (RUSSIAN.encode("cp1251"), "utf-8", RUSSIAN),  # the server is wrong
        (RUSSIAN.encode(), "no-such-charset", RUSSIAN),
        (RUSSIAN.encode(), "punycode", RUSSIAN),
        (b"\xef\xbb\xbf" + RUSSIAN.encode(), "latin-1", RUSSIAN),
        (RUSSIAN.encode("utf-16"), "", RUSSIAN),
        (RUSSIAN.encode("utf-16-le"), "utf-16", RUSSIAN),
        (b"a" * 5000 + b"\xff" + b"b" * 5000, "utf-8", "a" * 5000 + "\ufffd" + "b" * 5000),
    ],
)
def test_the_charset_is_the_servers_then_the_pages_then_what_the_bytes_look_like(
    body: bytes, stated: str, text: str
) -> None:
    found, is_utf8 = decode_page(body, stated, html=True)
    assert text in found
    assert not is_utf8 or found.encode() == body


TRAPS = {
    "elements": "<p>text</p>" * (RESILIPARSE.tags + 1),
    "levels": "<div>" * (RESILIPARSE.depth + 1) + "text",
    "many levels": "<div>" * 100_000 + "text",
    "levels behind end tags that end nothing": "<div></x>" * (RESILIPARSE.depth + 1) + "text",
    "levels times elements": "<div>" * 400 + "<p>text</p>" * 50_000,
    "elements with attributes": f"<p {' '.join(f'a{n}=1' for n in range(30))}>text</p>" * 7_000,
    "attributes": "<p " + " ".join(f"a{n}=1" for n in range(20_000)) + ">text",
    "options": "<select>" + "<option>text" * 20_000,
    "groups of options": "<optgroup>" * 20_000 + "text",
    "groups of options behind a list": "<select><b><select><optgroup><option>"
    + "<optgroup><option>" * 20_000
    + "text",
    "levels of SVG": "<svg>" + "<area>" * 20_000 + "text",
    "opened again": ("".join(f"<font color={n}>" for n in range(300)) + "<p>text" * 300) * 20,
    "comments": "<?a>" * (RESILIPARSE.tags + 1) + "text",
    "body": "".join(f"<body a{n}=1>" for n in range(20_000)) + "text",
}


@pytest.mark.parametrize("trap", TRAPS)
def test_pages_beyond_the_limits_are_dropped_or_stripped_and_counted(tmp_path: Path, trap: str) -> None:
    answers = [page("<p>before</p>", "https://a/0"), page(TRAPS[trap], "https://a/1"), page("<p>after</p>")]
    found = extracted(tmp_path, answers)
    assert found.batch["text"].to_pylist() == ["before", "after"]
    assert found.counts == {"records": 3, "page_too_complex": 1}
    assert found.rejected is not None
    assert [row["reason"] for rows in found.rejected for row in rows.to_pylist()] == ["page_too_complex"]
    assert found.rejected[0].schema.names == ["text", "position", "url", "reason"]
    found = extracted(tmp_path, answers, extract={"oversize_page": "strip"})
    assert len(found.batch["text"]) == 3
    assert "text" in found.batch["text"][1].as_py()
    assert "<" not in found.batch["text"][1].as_py()
    assert found.counts == {"records": 3, "page_stripped": 1}


def test_a_stripped_page_has_its_entities_and_none_of_its_scripts(tmp_path: Path) -> None:
    body = "<p>fish &amp; chips &eacute;</p><style>p {}</style>" + "<i>.</i>" * (RESILIPARSE.tags + 1)
    found = extracted(tmp_path, [page(body)], extract={"oversize_page": "strip"})
    text = found.batch["text"][0].as_py()
    assert "fish & chips é" in text
    assert "not text" not in text and "p {}" not in text


def test_urls_to_skip_are_left_out_before_their_pages_are_read(tmp_path: Path) -> None:
    answers = [page("<p>kept</p>", "https://a/0"), page("<div>" * 100_000, "https://a/1")]
    found = extracted(tmp_path, answers, skip_urls=["https://a/1", "https://a/other"])
    assert found.batch["url"].to_pylist() == ["https://a/0"]
    assert found.counts == {"records": 2, "url_skipped": 1}


def test_texts_above_the_limit_of_documents_are_split_as_everywhere(tmp_path: Path) -> None:
    answers = [page(article(1, paragraphs=20))]
    whole = extracted(tmp_path, answers)
    split = extracted(tmp_path, answers, limits=Limits(32_000_000, 1000))
    texts = split.batch["text"].to_pylist()
    assert len(texts) > 3 and all(len(text) <= 1000 for text in texts)
    assert "".join("".join(texts).split()) == "".join(whole.batch["text"][0].as_py().split())
    assert split.counts == {"records": 1, "oversize_split": 1}
    dropped = extracted(tmp_path, answers, limits=Limits(32_000_000, 1000, drop_oversize=True))
    assert (dropped.batch.num_rows, dropped.counts) == (0, {"records": 1, "oversize": 1})


def test_documents_that_are_no_pages_pass(tmp_path: Path) -> None:
    columns = [pa.array(["<p>a</p>"], pa.large_string()), pa.array([0], pa.uint64())]
    documents = Documents(pa.RecordBatch.from_arrays(columns, ["text", "position"]))
    settings = [page_settings(DatasetConfig(path="a"))]
    assert ExtractPages(settings, [], LIMITS).apply(documents) is documents


def test_a_page_that_takes_too_long_stops_the_run_by_its_address(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    watch = PageWatch(0.05)
    with pytest.raises(InputError, match=r"the page `https://a/slow` was not found in") as caught:  # noqa: SIM117
        with watch.page("https://a/slow"):
            begun = time.thread_time()
            while time.thread_time() - begun < 0.3:
                pass
    assert "skip_urls" in (caught.value.hint or "")
    assert "https://a/slow" in caplog.text
