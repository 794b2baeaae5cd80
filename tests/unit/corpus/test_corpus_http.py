"""A web server that fails: what may pass is tried again, what won't is told with the remedy."""

from __future__ import annotations

import gzip
import json
import logging
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from corpus_reading import batches, column, corpus_of, texts, write

from krill.corpus import DatasetSource, remote
from krill.corpus.remote_errors import shown_url
from krill.errors import InputError
from web_crawl import crawl, simple_answers, tarred, zipped

pytest.importorskip("aiohttp")

DOCUMENTS = [f"document {i} " * 40 for i in range(2000)]


class Server:
    """Answers each request by `behave`, which gets the handler, and keeps what was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None]] = []
        self.behave: Callable[[BaseHTTPRequestHandler], None] = lambda handler: handler.send_error(500)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.asked.append((self.command, self.headers.get("Range")))
                outer.behave(self)

            do_HEAD = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        self.thread = threading.Thread(target=self.http.serve_forever)
        self.thread.start()

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()

    def gets(self) -> list[str | None]:
        return [given for command, given in self.asked if command == "GET"]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(remote, "FIRST_WAIT", 0.01)
    started = Server()
    yield started
    started.close()


@pytest.fixture
def data(tmp_path: Path) -> bytes:
    return write(tmp_path, "jsonl", DOCUMENTS).read_bytes()


def give(
    handler: BaseHTTPRequestHandler,
    data: bytes,
    *,
    ranges: bool = True,
    stop_after: int | None = None,
    etag: str | None = '"one"',
    length: int | None = None,
) -> None:
    """The file, or the range asked for; `stop_after` closes the connection in the midst of the body."""
    first, status = 0, 200
    asked = handler.headers.get("Range")
    if ranges and asked:
        begin, _, end = asked.removeprefix("bytes=").partition("-")
        first, status = int(begin), 206
        data = data[: int(end) + 1] if end else data
    body = data[first:]
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(body) if length is None else length))
    if etag is not None:
        handler.send_header("ETag", etag)
    if status == 206:
        handler.send_header("Content-Range", f"bytes {first}-{len(data) - 1}/{len(data)}")
    handler.end_headers()
    if handler.command == "GET":
        handler.wfile.write(body[:stop_after])
        if stop_after:
            time.sleep(0.3)  # what has come is given to the reader before the connection ends
        handler.close_connection = stop_after is not None


def refuse(status: int, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def behave(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return behave


@pytest.mark.parametrize(
    ("status", "said", "hint"),
    [
        (401, "answers `401 Unauthorized`", "without a password"),
        (403, "answers `403 Forbidden`", "without a password"),
        (404, "no such file: .*: the server answers `404 Not Found`", "check the address"),
        (410, "no such file: .*: the server answers `410 Gone`", "check the address"),
        (418, "answers `418 I'm a Teapot`", "check the address"),
    ],
)
def test_a_refusal_is_told_and_not_asked_for_again(
    server: Server, status: int, said: str, hint: str, caplog: pytest.LogCaptureFixture
) -> None:
    server.behave = refuse(status)
    with pytest.raises(InputError, match=said) as caught:
        corpus_of(f"{server.url}/data.jsonl")
    assert f"{server.url}/data.jsonl" in str(caught.value)
    assert hint in str(caught.value.hint)
    assert caught.value.exit_code == 3
    assert [command for command, _ in server.asked] == ["HEAD", "GET"]
    assert caplog.records == []


@pytest.mark.parametrize("status", [202, 204, 300, 302, 304])
def test_an_answer_that_is_neither_a_failure_nor_the_file_is_not_read_as_an_empty_one(
    server: Server, status: int
) -> None:
    server.behave = refuse(status)
    with pytest.raises(InputError, match=rf"answers `{status} ") as caught:
        texts(f"{server.url}/a.jsonl")
    assert caught.value.hint == "check the address"


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_server_that_goes_on_failing_is_given_up_after_five_attempts_that_are_told(
    server: Server, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    server.behave = refuse(status)
    with pytest.raises(InputError, match=rf"answers `{status} .*`, 5 times in \d+ s") as caught:
        corpus_of(f"{server.url}/data.jsonl")
    assert "run the same command again later" in str(caught.value.hint)
    assert len(server.gets()) == 5
    assert [record.name for record in caplog.records] == ["krill"] * 4
    assert "; trying again in 0 s (attempt 2 of 5)" in caplog.messages[0]


def test_a_server_that_fails_for_a_moment_is_asked_again(server: Server, data: bytes) -> None:
    fail = refuse(503)
    server.behave = lambda handler: fail(handler) if len(server.asked) < 5 else give(handler, data)
    assert texts(f"{server.url}/data.jsonl") == DOCUMENTS


def test_a_busy_server_is_left_alone_for_as_long_as_it_asks(server: Server, data: bytes) -> None:
    fail = refuse(429, Retry_After="1")
    server.behave = lambda handler: fail(handler) if len(server.asked) < 3 else give(handler, data)
    begun = time.monotonic()
    corpus_of(f"{server.url}/data.jsonl")
    assert time.monotonic() - begun >= 1


def test_a_circle_of_redirects_is_told(server: Server) -> None:
    server.behave = refuse(302, Location="/data.jsonl")
    with pytest.raises(InputError, match=r"`http://[^`]*/data\.jsonl` redirects for ever") as caught:
        corpus_of(f"{server.url}/data.jsonl")
    assert "give the address where it ends" in str(caught.value.hint)


@pytest.mark.parametrize("length", [-5, "many"])
def test_an_answer_that_is_not_http_is_told(server: Server, length: Any) -> None:
    server.behave = lambda handler: give(handler, b"", length=length)
    with pytest.raises(InputError, match=r"answers is not HTTP: .*Content-Length") as caught:
        corpus_of(f"{server.url}/data.jsonl")
    assert "another way" in str(caught.value.hint)


@pytest.mark.parametrize("ranges", [True, False])
def test_a_connection_that_is_lost_in_the_midst_is_taken_up_where_it_was(
    server: Server, data: bytes, ranges: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """By a range where the server gives them, from the beginning where not."""
    stops = iter([1_000_000, 0, 500_000])  # more than what a client reads ahead

    def behave(handler: BaseHTTPRequestHandler) -> None:
        reading = handler.command == "GET" and len(data) > 0
        give(handler, data, ranges=ranges, stop_after=next(stops, None) if reading else None)

    server.behave = behave
    assert texts(f"{server.url}/data.jsonl") == DOCUMENTS
    begun = [given for given in server.gets() if given is not None]
    assert begun
    assert begun[0].startswith("bytes=")
    assert int(begun[0].removeprefix("bytes=").rstrip("-")) > 0
    assert any("was lost after" in line for line in caplog.messages)


@pytest.mark.parametrize("length", [10_000_000, None])
def test_a_file_that_never_comes_whole_is_an_error(server: Server, data: bytes, length: int | None) -> None:
    """A length that is a lie, and a connection that is cut at the same place each time."""
    server.behave = lambda handler: give(handler, data, ranges=False, stop_after=100_000, length=length)
    with pytest.raises(InputError, match=r"was lost( after [\d,]+ bytes)?: .*, 5 times in \d+ s"):
        texts(f"{server.url}/data.jsonl")


def test_less_than_was_announced_is_an_error(server: Server, data: bytes) -> None:
    def behave(handler: BaseHTTPRequestHandler) -> None:
        give(handler, data if handler.command == "HEAD" else data[:100_000], ranges=False)

    server.behave = behave
    with pytest.raises(InputError, match=rf"ended after 100,000 of {len(data):,} bytes, 5 times"):
        texts(f"{server.url}/data.jsonl")


def test_a_file_that_changes_under_the_reader_is_an_error(server: Server, data: bytes) -> None:
    server.behave = lambda handler: give(handler, data)
    corpus = corpus_of(f"{server.url}/data.jsonl")
    server.behave = lambda handler: give(handler, data, etag='"two"')
    with pytest.raises(InputError, match="has changed while it was read") as caught:
        [block for _, blocks in corpus.walk(lambda _: None) for block in blocks]
    assert "--overwrite" in str(caught.value.hint)


def test_ranges_are_asked_for_again_and_a_changed_table_is_an_error(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = write(tmp_path, "parquet", DOCUMENTS).read_bytes()
    fail = refuse(503)
    failed = []

    def behave(handler: BaseHTTPRequestHandler) -> None:
        if handler.command == "GET" and handler.headers.get("Range") and len(failed) < 2:
            failed.append(fail(handler))
        else:
            give(handler, table)

    server.behave = behave
    url = f"{server.url}/data.parquet"
    assert texts(url) == DOCUMENTS
    assert len(failed) == 2
    assert sum("503" in line for line in caplog.messages) == 2
    corpus = corpus_of(url)
    server.behave = lambda handler: give(handler, table + b"x", etag='"two"')
    with pytest.raises(InputError, match="has changed while it was read"):
        [block for _, blocks in corpus.walk(lambda _: None) for block in blocks]


def test_silence_is_told_and_then_given_up(
    server: Server, data: bytes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(remote, "SILENCE_SECONDS", 1.6)
    monkeypatch.setattr(remote, "ATTEMPTS", 2)
    monkeypatch.setattr(remote, "REPORT_SECONDS", 1.5)
    released = threading.Event()

    def behave(handler: BaseHTTPRequestHandler) -> None:
        if handler.command == "HEAD":
            give(handler, data)
        else:
            give(handler, data, ranges=False, stop_after=50_000)
            handler.wfile.flush()
            released.wait(20)

    server.behave = behave
    try:
        with caplog.at_level(logging.WARNING), pytest.raises(InputError, match="nothing more came from"):
            texts(f"{server.url}/data.jsonl")
    finally:
        released.set()
    assert any(line.startswith("waiting for `http://") for line in caplog.messages)


def test_a_server_that_is_not_there_is_told() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remote, "FIRST_WAIT", 0.01)
        with pytest.raises(InputError, match=r"the connection to `http://127.0.0.1:1/a.jsonl` was lost: "):
            corpus_of("http://127.0.0.1:1/a.jsonl")
    with pytest.raises(InputError, match=r"the host in `http://host\.invalid/a\.jsonl` does not exist\n"):
        corpus_of("http://host.invalid/a.jsonl")


def test_neither_a_password_nor_a_signature_is_shown(server: Server, data: bytes) -> None:
    server.behave = refuse(403)
    with pytest.raises(InputError) as caught:
        corpus_of(server.url.replace("//", "//me:hidden@") + "/a.jsonl?part=1&X-Amz-Signature=hidden")
    assert "hidden" not in f"{caught.value} {caught.value.hint}"
    assert "a.jsonl?part=1&X-Amz-Signature=..." in str(caught.value)
    assert shown_url("s3://bucket/a key=1.jsonl") == "s3://bucket/a key=1.jsonl"
    server.behave = lambda handler: give(handler, data)
    file = corpus_of(f"{server.url}/data.jsonl?token=hidden").files[0]
    assert file.path == f"{server.url}/data.jsonl?token=..."
    assert file.location.endswith("token=hidden")
    assert texts(f"{server.url}/data.jsonl?token=hidden") == DOCUMENTS


def test_the_command_ends_with_3_and_says_what_the_server_said(
    server: Server, krill: Any, tmp_path: Path
) -> None:
    server.behave = refuse(403)
    config = {
        "datasets": [{"path": f"{server.url}/data.jsonl"}],
        "tokenizer": {"builtin": "bytes"},
        "preprocess": {"prepared_path": str(tmp_path / "out"), "sequence_len": 64},
    }
    (tmp_path / "config.yaml").write_text(json.dumps(config))
    done = krill("preprocess", str(tmp_path / "config.yaml"))
    assert done.code == 3
    assert f"`{server.url}/data.jsonl` answers `403 Forbidden`" in done.err


PAGES = simple_answers(1200)
CRAWL = crawl(PAGES, "")  # larger than what a client reads ahead
ZIP = zipped({f"{number}.html": answer.body for number, answer in enumerate(simple_answers(50))})


def urls(source: DatasetSource) -> list[str]:
    return column(batches(corpus_of(replace(source, columns=("url",)), pages=True)), "url")


@pytest.mark.parametrize("ranges", [True, False])
def test_a_crawl_is_taken_up_where_its_connection_was_lost(server: Server, ranges: bool) -> None:
    stops = iter([1_000_000, 0, 500_000])

    def behave(handler: BaseHTTPRequestHandler) -> None:
        reading = handler.command == "GET"
        give(handler, CRAWL, ranges=ranges, stop_after=next(stops, None) if reading else None)

    server.behave = behave
    assert urls(DatasetSource(f"{server.url}/0.warc")) == [answer.url for answer in PAGES]
    assert len(server.gets()) >= 3


@pytest.mark.parametrize(
    ("status", "fact"),
    [
        (403, "`.*/1.warc` answers `403 Forbidden`"),
        (404, "no such file: `.*/1.warc`"),
        (500, "`.*/1.warc` answers `500 Internal Server Error`, 5 times"),
        (503, "`.*/1.warc` answers `503 Service Unavailable`, 5 times"),
    ],
)
def test_a_crawl_that_is_no_longer_served_ends_the_run_with_the_answer(
    server: Server, status: int, fact: str
) -> None:
    """It was found, and is gone when it is read."""
    server.behave = lambda handler: give(
        handler, CRAWL if "paths" not in handler.path else b"0.warc\n1.warc\n"
    )
    source = DatasetSource(server.url, columns=("url",), paths_file=f"{server.url}/warc.paths")
    corpus = corpus_of(source, pages=True)
    fail = refuse(status)
    server.behave = lambda handler: fail(handler) if "1.warc" in handler.path else give(handler, CRAWL)
    read = []
    with pytest.raises(InputError, match=fact) as caught:
        for _, blocks in corpus.walk(lambda _: None):
            for block in blocks:
                read += block.documents().batch["url"].to_pylist()
    assert read == [answer.url for answer in PAGES][: len(read)]
    assert len(read) > 500
    assert caught.value.hint


def test_a_zip_file_is_read_by_ranges_and_needs_them(server: Server) -> None:
    server.behave = lambda handler: give(handler, ZIP)
    source = DatasetSource(f"{server.url}/a.zip")
    assert urls(source) == [f"{server.url}/a.zip/{number}.html" for number in range(50)]
    large = zipped({"noise.bin": bytes(12_000_000), "a.html": b"<p>a page"}, zipfile.ZIP_STORED)
    server.behave = lambda handler: give(handler, large, ranges=False)
    with pytest.raises(InputError, match="its server doesn't answer range requests") as caught:
        urls(source)
    assert "download the file and give its path" in str(caught.value.hint)


def test_a_tar_file_is_read_in_order(server: Server) -> None:
    data = gzip.compress(tarred({f"{n}.html": answer.body for n, answer in enumerate(simple_answers(50))}))
    server.behave = lambda handler: give(handler, data, ranges=False)
    assert urls(DatasetSource(f"{server.url}/a.tgz")) == [f"{server.url}/a.tgz/{n}.html" for n in range(50)]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("path", ["local", "remote"])
def test_a_list_may_be_here_and_its_files_there(
    server: Server, tmp_path: Path, packed: bool, path: str
) -> None:
    listed = b"crawl-data/0 1.warc.gz\r\n\r\ncrawl-data/2.warc.gz"
    name = "warc.paths.gz" if packed else "warc.paths"
    content = gzip.compress(listed) if packed else listed
    answers = simple_answers(4)
    server.behave = lambda handler: give(handler, content if "paths" in handler.path else crawl(answers))
    (tmp_path / name).write_bytes(content)
    place = str(tmp_path / name) if path == "local" else f"{server.url}/{name}"
    assert urls(DatasetSource(f"{server.url}/", paths_file=place)) == 2 * [each.url for each in answers]
