"""URLs and the hub: the same documents, read in order."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import fsspec
import pytest
from corpus_reading import FORMATS, batches, column, corpus_of, counts, texts, write

from krill.corpus import DatasetSource, UnitEnd
from krill.errors import InputError, MissingExtra

DOCUMENTS = [f"document {i} " * (i % 11 + 1) for i in range(60)]


@pytest.fixture
def memory() -> Iterator[Any]:
    filesystem = fsspec.filesystem("memory")
    yield filesystem
    filesystem.store.clear()
    filesystem.pseudo_dirs[:] = [""]


def _upload(memory: Any, path: Path, name: str) -> str:
    memory.pipe_file(f"/{name}", path.read_bytes())
    return f"memory://{name}"


@pytest.mark.parametrize("ending", FORMATS)
def test_every_format_is_read_from_a_url(tmp_path: Path, memory: Any, ending: str) -> None:
    url = _upload(memory, write(tmp_path, ending, DOCUMENTS), f"data.{ending}")
    corpus = corpus_of(url, unit_bytes=2000)
    assert corpus.sequential
    assert column(batches(corpus), "text") == DOCUMENTS
    assert texts(DatasetSource(url, "train[20:40]"), unit_bytes=2000) == DOCUMENTS[20:40]


def test_globs_and_folders_of_urls(tmp_path: Path, memory: Any) -> None:
    for i in range(3):
        _upload(memory, write(tmp_path, "jsonl", DOCUMENTS[i * 20 : i * 20 + 20]), f"bucket/{i}.jsonl")
    memory.pipe_file("/bucket/notes.py", b"x")
    assert (
        texts("memory://bucket/*.jsonl") == texts("memory://bucket/") == texts("memory://bucket") == DOCUMENTS
    )
    assert corpus_of("memory://bucket/*.jsonl").files[0].path == "memory:///bucket/0.jsonl"


def test_a_remote_file_has_a_fingerprint(tmp_path: Path, memory: Any) -> None:
    path = write(tmp_path, "jsonl", DOCUMENTS)
    before = corpus_of(_upload(memory, path, "a.jsonl")).fingerprints()
    assert corpus_of("memory://a.jsonl").fingerprints() == before
    path.write_bytes(path.read_bytes() * 2)
    assert corpus_of(_upload(memory, path, "a.jsonl")).fingerprints() != before


def test_urls_that_lead_nowhere_are_errors(memory: Any) -> None:
    with pytest.raises(InputError, match=r"no such file: `memory://missing\.jsonl`"):
        corpus_of("memory://missing.jsonl")
    with pytest.raises(InputError, match=r"can't read `nosuchprotocol://x\.jsonl`: Protocol not known"):
        corpus_of("nosuchprotocol://x.jsonl")
    with pytest.raises(InputError, match="no file matches"):
        corpus_of("memory://*.jsonl")


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    """A web server that, like many, gives no ranges."""
    pytest.importorskip("aiohttp")

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "txt.xz", "csv", "json.zst"])
def test_files_are_read_from_a_web_server(tmp_path: Path, web: str, ending: str) -> None:
    write(tmp_path, ending, DOCUMENTS)
    assert texts(f"{web}/data.{ending}", unit_bytes=2000) == DOCUMENTS


def test_what_a_web_server_does_not_give_is_an_error(tmp_path: Path, web: str) -> None:
    with pytest.raises(InputError, match=f"no such file: `{web}/missing.jsonl`"):
        corpus_of(f"{web}/missing.jsonl")
    write(tmp_path, "parquet", DOCUMENTS * 100)
    with pytest.raises(InputError, match=f"can't read `{web}/data.parquet`: .*range requests"):
        texts(f"{web}/data.parquet")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A hub of one dataset, without a network."""
    datasets = pytest.importorskip("datasets")
    asked: dict[str, Any] = {}

    def load_dataset(name: str, config: str | None, *, split: str, streaming: bool) -> Any:
        asked.update(name=name, config=config, split=split, streaming=streaming)
        if name != "org/name":
            raise FileNotFoundError(f"Dataset '{name}' doesn't exist\nmore")
        rows = datasets.Dataset.from_dict({"text": DOCUMENTS, "id": list(range(60))})
        stream = rows.to_iterable_dataset(num_shards=3)
        stream.info.splits = datasets.SplitDict({"train": datasets.SplitInfo("train", num_examples=60)})
        return stream

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    monkeypatch.setattr("krill.corpus.fingerprint.revision", lambda file: "abc")
    return asked


def test_a_hub_dataset_is_streamed(hub: dict[str, Any]) -> None:
    source = DatasetSource("org/name:config", columns=("id",))
    corpus = corpus_of(source, unit_bytes=2000)
    read = batches(corpus)
    assert column(read, "text") == DOCUMENTS
    assert column(read, "id") == list(range(60))
    assert column(read, "position") == list(range(60))
    assert hub == {"name": "org/name", "config": "config", "split": "train", "streaming": True}
    assert counts(read) == {"records": 60, "key_seen": 60}
    assert corpus.fingerprints() == corpus.fingerprints()


@pytest.mark.parametrize(
    ("split", "wanted"),
    [("train[:7]", slice(7)), ("train[20:30]", slice(20, 30)), ("train[-10%:]", slice(-6, None))],
)
def test_slices_of_a_hub_dataset(hub: dict[str, Any], split: str, wanted: slice) -> None:
    assert texts(DatasetSource("org/name", split)) == DOCUMENTS[wanted]
    assert hub["split"] == "train"


def test_a_hub_dataset_is_resumed_by_skipping(hub: dict[str, Any]) -> None:
    corpus = corpus_of("org/name", unit_bytes=2000)
    walked = []
    for unit, blocks in corpus.walk(lambda _: None):
        taken = list(blocks)
        walked.append(
            (unit.position, UnitEnd.after(taken[-1]), column([b.documents() for b in taken], "text"))
        )
    assert len(walked) >= 3
    done = {walked[0][0]: walked[0][1]}
    rest = column(batches(corpus_of("org/name", unit_bytes=2000), done.get), "text")
    assert rest == [text for _, _, read in walked[1:] for text in read]


def test_what_is_neither_here_nor_on_the_hub_is_an_error(hub: dict[str, Any]) -> None:
    with pytest.raises(
        InputError, match=r"no such file: `org/other`; and .* Dataset 'org/other' doesn't exist\n"
    ):
        texts("org/other")
    with pytest.raises(InputError, match="no column `content` in `org/name`; there are: `text`, `id`"):
        texts(DatasetSource("org/name", text_column="content"))


def test_the_hub_needs_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtra, match=r"pip install 'krill-lm\[hub\]'") as error:
        texts("org/name")
    assert error.value.exit_code == 2
