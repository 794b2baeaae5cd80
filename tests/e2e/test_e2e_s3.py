"""Runs in S3, as moto's server plays it: the bytes of local runs, clear errors, and what was done is kept."""

from __future__ import annotations

import gzip
import hashlib
import html
import itertools
import json
import os
import re
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import krill
import preloaded
from jobs import Job, check_error, document, json_lines
from krill.errors import StorageError
from krill.storage.object_store import PART_BYTES, ObjectStore
from object_store import ENVIRONMENT, s3_files, s3_server
from peers import peer
from web_crawl import crawl, simple_answers, zipped

peer("s3fs")
peer("moto")

pytest_plugins = ["job_fixtures"]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with s3_server() as address:
        yield address


@pytest.fixture
def store(server: str) -> Iterator[Any]:
    """A bucket `corpus` with the input in it."""
    files = s3_files(server)
    files.mkdir("corpus")
    for part in range(2):
        lines = json_lines(document(number - number % 3) for number in range(part, 400, 2))
        files.pipe_file(f"corpus/in/part-{part}.jsonl", lines)
    yield files
    files.rm("corpus", recursive=True)


@pytest.fixture
def remote(job: Job, server: str, monkeypatch: pytest.MonkeyPatch) -> Job:
    """A job that reads from the bucket and writes into it."""
    for name, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": server}.items():
        monkeypatch.setenv(name, value)
    job.config |= {"memory": "400MB", "spill_dir": "scratch"}
    job.read_from("s3://corpus/in/*.jsonl")
    job.set(prepared_path="s3://corpus/out", unit_bytes="64KB", max_document_bytes="8KB", shard_size="100KB")
    return job


def contents(files: dict[str, bytes]) -> dict[str, str]:
    """Every file but the run's own account of itself."""
    return {
        name: hashlib.sha256(data).hexdigest() for name, data in files.items() if name != "krill-run.json"
    }


def in_folder(folder: Path) -> dict[str, bytes]:
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def in_store(store: Any) -> dict[str, bytes]:
    return {name.removeprefix("corpus/out/"): store.cat_file(name) for name in store.find("corpus/out")}


def test_a_run_that_is_killed_and_goes_on_elsewhere_gives_the_bytes_of_a_local_one(
    remote: Job, store: Any
) -> None:
    remote.save()
    with open(os.devnull, "wb") as nothing:
        killed = preloaded.launch(
            ["preprocess", "config.yaml"], out=nothing.fileno(), err=nothing.fileno(), cwd=remote.folder
        )
        while not (committed := _scanned(store)):
            assert killed.poll() is None
            time.sleep(0.02)  # the store has a core to share with the run
        killed.kill()
        killed.wait(30)
    committed = _scanned(store)
    scratch = remote.folder / "scratch"
    assert len(list(scratch.iterdir())) == 1  # what a killed process can't remove

    seen = remote.run("report", "s3://corpus/out", "--json")
    assert seen.code == 0, seen.err
    assert [(run["command"], run["state"]) for run in seen.result["runs"]] == [("preprocess", "unfinished")]

    ended = remote.preprocess("--json")
    assert ended.code == 0, ended.err
    summary = json.loads(ended.out)
    assert (summary["output"], summary["continued"]) == ("s3://corpus/out", True)
    assert committed
    assert list(scratch.iterdir()) == []
    assert store.find("corpus") == store.find("corpus/in") + store.find("corpus/out")
    assert json.loads(remote.preprocess("--json").out)["status"] == "finished"

    remote.set(prepared_path="alone")
    assert remote.preprocess().code == 0
    assert contents(in_store(store)) == contents(in_folder(remote.folder / "alone"))

    there = krill.load("s3://corpus/out", memory="200MB", cache_dir=remote.folder / "cache")
    here = krill.load(remote.folder / "alone", memory="200MB")
    assert len(there) == len(here)
    assert (there[7]["input_ids"] == here[7]["input_ids"]).all()


@pytest.mark.parametrize(
    "listed", ["s3://corpus/warc.paths.gz", pytest.param("warc.paths.gz", marks=pytest.mark.soak)]
)
def test_a_list_names_the_files_of_a_crawl_in_a_bucket(remote: Job, store: Any, listed: str) -> None:
    names = gzip.compress(b"crawl-data/1.warc.gz\ncrawl-data/0.zip\n")
    store.pipe_file("corpus/warc.paths.gz", names)
    remote.write("warc.paths.gz", names)
    store.pipe_file("corpus/crawl-data/1.warc.gz", crawl(simple_answers(5)))
    store.pipe_file("corpus/crawl-data/0.zip", zipped({"a.html": b"<p>a page in an archive"}))
    remote.read_from({"path": "s3://corpus", "paths_file": listed, "columns": ["url"]})
    remote.config["datasets"][0]["extract"] = {"max_page_bytes": "1MB"}
    remote.set(prepared_path="alone", output="text", min_chars=0)
    assert remote.preprocess().code == 0
    [path] = (remote.folder / "alone").glob("text-*.parquet")
    urls = pq.read_table(path)["url"].to_pylist()
    assert urls == [*(answer.url for answer in simple_answers(5)), "s3://corpus/crawl-data/0.zip/a.html"]


def _scanned(store: Any) -> list[str]:
    """The records of scanned units."""
    return [name for name in store.find("corpus/.out.krill") if "/scan/" in name and name.endswith(".json")]


class Refusing(BaseHTTPRequestHandler):
    """A store in which nothing is, and that takes nothing."""

    protocol_version = "HTTP/1.1"

    def _answer(self, status: int, body: str) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        data = f'<?xml version="1.0"?>{body}'.encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def do_GET(self) -> None:
        if "list-type" in self.path:
            self._answer(200, "<ListBucketResult><KeyCount>0</KeyCount></ListBucketResult>")
        else:
            self._answer(404, "<Error><Code>NoSuchKey</Code><Message>none</Message></Error>")

    def do_PUT(self) -> None:
        self._answer(403, "<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>")

    do_HEAD = do_GET
    do_POST = do_DELETE = do_PUT

    def log_message(self, *_: Any) -> None:
        """Nobody reads the server's own lines."""


@pytest.fixture
def refusing() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_what_a_store_refuses_is_told_with_its_remedy(
    remote: Job, refusing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote.write("input.jsonl", json_lines([document(1)]))
    remote.read_from("input.jsonl")
    monkeypatch.setenv("AWS_ENDPOINT_URL", refusing)
    check_error(
        remote.preprocess(),
        5,
        "cannot write `s3://corpus/.out.krill/run.json`: Access Denied",
        hint="check the credentials",
    )


def test_a_bucket_that_is_not_there_is_named(remote: Job) -> None:
    remote.write("input.jsonl", json_lines([document(1)]))
    remote.read_from("input.jsonl")
    remote.set(prepared_path="s3://no-such-bucket/out")
    check_error(
        remote.preprocess(),
        5,
        "cannot list `s3://no-such-bucket/out`: The specified bucket does not exist",
        hint="create the bucket, or name one that is there",
    )


def test_missing_credentials_are_asked_for(remote: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    remote.write("input.jsonl", json_lines([document(1)]))
    remote.read_from("input.jsonl")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    check_error(
        remote.preprocess(),
        5,
        "`s3://corpus/.out.krill/run.json`: no credentials were found",
        hint="such as AWS_ACCESS_KEY_ID",
    )


def test_an_object_that_could_not_be_sent_whole_is_not_there(
    remote: Job, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = remote.folder / "large"
    path.write_bytes(os.urandom(3 * PART_BYTES + 1))
    place = ObjectStore("s3://corpus/out")
    place.upload(path, "whole")
    assert store.cat_file("corpus/out/whole") == path.read_bytes()
    sent = []

    def upload_chunk(self: Any, final: bool = False) -> bool:
        sent.append(final)
        raise OSError("the line is dead")

    monkeypatch.setattr("s3fs.core.S3File._upload_chunk", upload_chunk)
    with pytest.raises(StorageError, match="cannot write `s3://corpus/out/part`: the line is dead"):
        place.upload(path, "part")
    assert sent == [False]
    assert store.find("corpus/out") == ["corpus/out/whole"]


def test_objects_of_others_in_a_bucket_are_neither_lost_nor_published_over(remote: Job, store: Any) -> None:
    assert remote.preprocess("--quiet").code == 0
    before = in_store(store)
    store.pipe_file("corpus/out/NOTES.md", b"mine")
    refused = remote.preprocess("--quiet", "--overwrite")
    fact = "`s3://corpus/out` holds `NOTES.md`, which Krill did not write: nothing there was touched"
    check_error(refused, 5, fact, hint="move that elsewhere and run the same command")
    assert in_store(store) == {**before, "NOTES.md": b"mine"}
    store.rm("corpus/out/NOTES.md")
    assert remote.preprocess("--quiet", "--overwrite").code == 0
    assert contents(in_store(store)) == contents(before)


def test_a_report_reads_a_run_where_it_is(remote: Job, store: Any) -> None:
    assert remote.preprocess().code == 0
    made = remote.run("report", "s3://corpus/out", "--json")
    assert made.code == 0, made.err
    page = (remote.folder / "report.html").read_text()
    assert re.search(r"<dt>documents</dt><dd>\d+ of 400 kept", page)
    assert "<figcaption>Memory over time" in page
    rows = re.search(r"<summary>Rows from the beginning as text</summary>(.*?)</details>", page, re.DOTALL)
    assert rows is not None
    texts = re.findall(r"row (\d+): \d+ tokens, .*?<pre[^>]*>\n(.*?)</pre>", rows[1], re.DOTALL)
    assert len(texts) == 3
    there = krill.load("s3://corpus/out", memory="200MB", cache_dir=remote.folder / "cache")
    for row, text in texts:
        ids = there[int(row)]["input_ids"].tolist()
        first = bytes(itertools.takewhile(lambda byte: byte < 256, ids)).decode()
        assert html.unescape(text).startswith(first)
    assert re.search(r"<h3>Cluster 1, 3 documents: the texts are equal</h3>", page)
    absent = remote.run("report", "s3://corpus/nothing")
    check_error(absent, 3, "`s3://corpus/nothing` is not the output of a run", hint="name the output")
