"""Pages of a crawl are those that FastWARC and warcio give, their texts those of Resiliparse's own calls."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from fastwarc.warc import ArchiveIterator, WarcRecordType
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.encoding import bytes_to_str, detect_encoding
from warcio.archiveiterator import ArchiveIterator as WarcioIterator

import krill
from krill.corpus import DatasetSource, open_corpus
from web_crawl import crawl, simple_answers
from web_site import crawled, serving, site_pages

LIMITS = {"unit_bytes": 1_000_000, "max_document_bytes": 500_000}


@pytest.fixture(scope="module")
def crawl_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pages of the test's site that are pages, with requests and other records of `crawl` behind them."""
    pages = {
        path: page for path, page in site_pages().items() if path.startswith(("/articles", "/http", "/meta"))
    }
    with serving(pages) as host:
        records = list(crawled(host, pages))
    path = tmp_path_factory.mktemp("crawl") / "crawl.warc.gz"
    path.write_bytes(b"".join(map(gzip.compress, records)) + crawl(simple_answers(30, "other.org")))
    return path


def pages_of(path: Path) -> list[tuple[str, bytes]]:
    corpus = open_corpus([DatasetSource(str(path), columns=("url",))], **LIMITS, pages=True)
    found = []
    for _, blocks in corpus.walk(lambda _: None):
        for block in blocks:
            batch = block.documents().batch
            bodies = batch.column("text").cast("large_binary").to_pylist()
            found += zip(batch.column("url").to_pylist(), bodies, strict=True)
    return found


def test_pages_are_those_of_fastwarc_and_warcio(crawl_file: Path) -> None:
    found = pages_of(crawl_file)
    with crawl_file.open("rb") as stream:
        records = ArchiveIterator(stream, record_types=WarcRecordType.response, parse_http=True)
        assert [(record.headers["WARC-Target-URI"], record.reader.read()) for record in records] == found
    with crawl_file.open("rb") as stream:
        responses = [
            (record.rec_headers["WARC-Target-URI"], record.content_stream().read())
            for record in WarcioIterator(stream)
            if record.rec_type == "response"
        ]
        assert responses == found


def test_texts_are_those_of_a_bare_loop(crawl_file: Path, tmp_path: Path) -> None:
    config = {
        "datasets": [{"path": str(crawl_file), "columns": ["url"]}],
        "preprocess": {
            "prepared_path": str(tmp_path / "out"),
            "output": "text",
            "dedup": "none",
            "strip": False,
            "min_chars": 0,
        },
    }
    krill.preprocess(config, memory="400MB")
    rows = [
        row
        for path in sorted((tmp_path / "out").glob("text-*.parquet"))
        for row in pq.read_table(path).to_pylist()
    ]
    expected = []
    with crawl_file.open("rb") as stream:
        for record in ArchiveIterator(stream, record_types=WarcRecordType.response, parse_http=True):
            body = record.reader.read()
            page = bytes_to_str(body, record.http_charset or detect_encoding(body, from_html_meta=True))
            text = extract_plain_text(
                page,
                preserve_formatting=True,
                main_content=True,
                list_bullets=True,
                alt_texts=False,
                comments=False,
            )
            expected.append({"text": text, "url": record.headers["WARC-Target-URI"]})
    assert rows == expected
