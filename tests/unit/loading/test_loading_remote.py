"""Datasets at URLs: the same rows, fetched shard by shard into a cache of a given size."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from saved_rows import cut_rows, opened, random_rows, read_pieces, read_rows, save_folder, save_krill

from krill.errors import BudgetError, ConfigError, InputError, MissingExtra
from krill.loading.foreign.shard_cache import default_cache_dir

ROWS = random_rows(300, shortest=1)
PIECES = cut_rows(ROWS)
SOME = [299, 0, 17, 17, 18, 250, 3, 99, 100]


class Web:
    """A web server over a folder, which counts what it is asked for and can be told to misbehave."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.asked: Counter[str] = Counter()
        self.ranges = True
        self.cut: str | None = None
        """A part of the name of files that the server ends in the middle of."""

        web = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                web.answer(self)

            do_HEAD = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        path = self.root / request.path.lstrip("/")
        if not path.is_file():
            request.send_error(404)
            return
        content, status = path.read_bytes(), 200
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("Range", ""))
        if wanted and self.ranges:
            content, status = content[int(wanted[1]) : int(wanted[2]) + 1], 206
        request.send_response(status)
        request.send_header("Content-Length", str(len(content)))
        if self.ranges:
            request.send_header("Accept-Ranges", "bytes")
        request.end_headers()
        if request.command == "GET":
            self.asked[path.name] += 1
            if self.cut and self.cut in path.name:
                request.wfile.write(content[: len(content) // 2])
                request.close_connection = True
            else:
                request.wfile.write(content)

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("krill.corpus.remote.FIRST_WAIT", 0.01)


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    pytest.importorskip("aiohttp")
    (tmp_path / "www").mkdir()
    server = Web(tmp_path / "www")
    yield server
    server.close()


@pytest.fixture
def memory() -> Iterator[Any]:
    filesystem = fsspec.filesystem("memory")
    yield filesystem
    filesystem.store.clear()
    filesystem.pseudo_dirs[:] = [""]


def table() -> pa.Table:
    return pa.table({"input_ids": pa.array(ROWS, pa.list_(pa.uint16())), "seq_lengths": PIECES})


def save_parquet(folder: Path) -> Path:
    folder.mkdir()
    for number in range(2):
        pq.write_table(table().slice(number * 150, 150), folder / f"{number}.parquet", row_group_size=50)
    return folder


KINDS: dict[str, Callable[[Path], Path]] = {
    "krill": lambda folder: save_krill(folder, ROWS, PIECES, shards=3),
    "saved": lambda folder: save_folder(folder, [table().slice(0, 120), table().slice(120)]),
    "parquet": save_parquet,
}


def cached(cache: Path) -> list[Path]:
    return sorted(path for path in cache.rglob("*") if path.is_file() and path.name != "krill-cache.lock")


@pytest.mark.parametrize("kind", KINDS)
def test_a_dataset_in_a_bucket_is_the_same_as_on_this_machine(tmp_path: Path, memory: Any, kind: str) -> None:
    folder = KINDS[kind](tmp_path / kind)
    memory.put(str(folder), "/bucket/data", recursive=True)
    here, there = opened(folder, tmp_path / "a"), opened("memory://bucket/data", tmp_path / "b")
    for name in ("rows", "tokens", "width", "fixed", "dtype"):
        assert getattr(there, name) == getattr(here, name), name
    assert read_rows(there, SOME) == [ROWS[row] for row in SOME]
    assert read_pieces(there, SOME) == [PIECES[row] for row in SOME]
    assert read_rows(pickle.loads(pickle.dumps(there)), range(300)) == ROWS


@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize("kind", ["krill", "saved"])
def test_a_dataset_on_a_web_server_is_read_with_and_without_ranges(
    tmp_path: Path, web: Web, kind: str, ranges: bool
) -> None:
    KINDS[kind](web.root / kind)
    web.ranges = ranges
    source = opened(f"{web.url}/{kind}", tmp_path / "cache")
    assert read_rows(source, SOME) == [ROWS[row] for row in SOME]
    assert read_rows(source, range(300)) == ROWS


@pytest.mark.parametrize("ranges", [True, False])
def test_a_parquet_file_on_a_web_server(tmp_path: Path, web: Web, ranges: bool) -> None:
    save_parquet(web.root / "data")
    web.ranges = ranges
    source = opened(f"{web.url}/data/1.parquet", tmp_path / "cache")
    assert read_rows(source, range(150)) == ROWS[150:]


def test_a_shard_is_fetched_when_its_first_row_is_read_and_only_once(tmp_path: Path, web: Web) -> None:
    KINDS["krill"](web.root / "data")
    source = opened(f"{web.url}/data", tmp_path / "cache")
    assert web.asked == {"krill-run.json": 1}
    assert read_rows(source, [150]) == [ROWS[150]]
    assert web.asked == {"krill-run.json": 1, "data-00001.arrow": 1}
    assert read_rows(source, range(300)) == ROWS
    assert read_rows(opened(f"{web.url}/data", tmp_path / "cache"), range(300)) == ROWS
    shards = {f"data-0000{number}.arrow": 1 for number in range(3)}
    assert web.asked == {"krill-run.json": 2, **shards}


def test_the_cache_keeps_to_its_size_and_drops_what_was_unused_for_longest(tmp_path: Path, web: Web) -> None:
    folder, cache = KINDS["krill"](web.root / "data"), tmp_path / "cache"
    sizes = [path.stat().st_size for path in sorted(folder.glob("*.arrow"))]
    source = opened(f"{web.url}/data", cache, cache_size=sum(sizes) - 1)
    for row in (0, 150, 0, 250):
        assert read_rows(source, [row]) == [ROWS[row]]
        assert sum(path.stat().st_size for path in cached(cache)) < sum(sizes)
    assert [path.name[-16:] for path in cached(cache) if "00001" in path.name] == []
    assert read_rows(source, [150]) == [ROWS[150]]
    assert web.asked["data-00001.arrow"] == 2
    with pytest.raises(BudgetError, match=r"too little for the 3 shards of `.*/data` that one batch is in"):
        read_rows(source, SOME)


def test_a_parquet_file_that_was_dropped_is_fetched_again_while_it_is_decoded(
    tmp_path: Path, web: Web
) -> None:
    """Without ranges a file is fetched whole, and its row groups need the room that it takes."""
    save_parquet(web.root / "data")
    web.ranges = False
    source = opened(f"{web.url}/data/1.parquet", tmp_path / "cache")
    for path in cached(tmp_path / "cache"):
        path.unlink()
    assert read_rows(source, range(150)) == ROWS[150:]


def test_nothing_but_its_own_files_is_ever_dropped(tmp_path: Path, web: Web) -> None:
    folder, cache = KINDS["krill"](web.root / "data"), tmp_path / "cache"
    others = [cache / "notes.txt", cache / "work" / "shard-1", cache / "0123456789abcdef" / "thesis.tex"]
    for path in others:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"mine" * 100_000)
        os.utime(path, (0, 0))
    size = max(path.stat().st_size for path in folder.glob("*.arrow"))
    source = opened(f"{web.url}/data", cache, cache_size=size)
    for row in (0, 150, 250):
        assert read_rows(source, [row]) == [ROWS[row]]
    assert all(path.exists() for path in others)
    assert len(cached(cache)) == len(others) + 1


def test_what_is_fetched_as_a_whole_is_shuffled_as_a_whole(tmp_path: Path, memory: Any) -> None:
    for kind, rows in {"krill": 100, "saved": 180}.items():
        folder = KINDS[kind](tmp_path / kind)
        memory.put(str(folder), f"/bucket/{kind}", recursive=True)
        there, here = (
            opened(f"memory://bucket/{kind}", tmp_path / "cache"),
            opened(folder, tmp_path / "cache"),
        )
        assert there.block_rows == rows > here.block_rows
        assert there.fingerprint != here.fingerprint


def test_a_shard_that_the_cache_can_not_hold_is_refused_with_the_remedy(tmp_path: Path, web: Web) -> None:
    folder = KINDS["krill"](web.root / "data")
    size = max(path.stat().st_size for path in folder.glob("*.arrow"))
    source = opened(f"{web.url}/data", tmp_path / "cache", cache_size=size - 1)
    with pytest.raises(BudgetError, match=r"the cache `.*` may hold .*, and `shard-.*` alone takes"):
        read_rows(source, range(100))


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_dies_in_the_middle_leaves_the_cache_clean(tmp_path: Path, web: Web, kind: str) -> None:
    KINDS[kind](web.root / "data")
    web.ranges = False
    url = f"{web.url}/data" if kind != "parquet" else f"{web.url}/data/0.parquet"
    name = {"krill": "data-00000.arrow", "saved": "data-00000-of-00002.arrow", "parquet": "0.parquet"}[kind]
    web.cut = name
    with pytest.raises(InputError, match=f"`{web.url}/data/{name}`"):
        read_rows(opened(url, tmp_path / "cache"), [0])
    assert cached(tmp_path / "cache") == []
    web.cut = None
    assert read_rows(opened(url, tmp_path / "cache"), [0]) == [ROWS[0]]


def test_a_shard_that_is_not_the_manifests_is_refused(tmp_path: Path, memory: Any) -> None:
    folder = KINDS["krill"](tmp_path / "data")
    memory.put(str(folder), "/bucket", recursive=True)
    content = bytearray((folder / "data-00002.arrow").read_bytes())
    content[len(content) // 2] ^= 1
    memory.pipe_file("/bucket/data-00002.arrow", bytes(content))
    source = opened("memory://bucket", tmp_path / "cache", verify=True)
    assert read_rows(source, [0]) == [ROWS[0]]
    with pytest.raises(
        InputError, match=r"`memory://bucket/data-00002.arrow` is not the file that the manifest"
    ):
        read_rows(source, [299])
    memory.pipe_file("/bucket/data-00002.arrow", bytes(content[:-9]))
    with pytest.raises(InputError, match=r"data-00002.arrow` was not fetched whole"):
        read_rows(source, [299])
    assert len(cached(tmp_path / "cache")) == 1


def test_a_file_that_was_uploaded_anew_is_fetched_anew(tmp_path: Path, memory: Any) -> None:
    first, second = (save_folder(tmp_path / str(part), [table().slice(part, 100)]) for part in (0, 1))
    memory.put(f"{first}/", "/bucket/", recursive=True)
    assert read_rows(opened("memory://bucket", tmp_path / "cache"), [0]) == [ROWS[0]]
    memory.put(f"{second}/", "/bucket/", recursive=True)
    assert read_rows(opened("memory://bucket", tmp_path / "cache"), [0]) == [ROWS[1]]


def test_urls_that_lead_nowhere_are_errors(tmp_path: Path, memory: Any) -> None:
    with pytest.raises(InputError, match=r"nothing to load in `memory://missing`|no such file"):
        opened("memory://missing", tmp_path)
    with pytest.raises(InputError, match=r"can't read `nosuch://x.*`: Protocol not known"):
        opened("nosuch://x", tmp_path)
    with pytest.raises(InputError, match=r"no such file: `memory://missing/a.parquet`"):
        opened("memory://missing/a.parquet", tmp_path)
    memory.pipe_file("/bucket/krill-run.json", b"{")
    with pytest.raises(InputError, match=r"`memory://bucket/krill-run.json` is not valid JSON"):
        opened("memory://bucket", tmp_path)
    with pytest.raises(ConfigError, match=r'`on_missing="skip"`'):
        opened("memory://bucket", tmp_path, on_missing="skip")


def test_a_web_server_needs_the_extra_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(url: str, **_: Any) -> None:
        raise ImportError("HTTPFileSystem requires aiohttp")

    monkeypatch.setattr(fsspec.core, "url_to_fs", missing)
    with pytest.raises(MissingExtra, match=r"pip install 'krill-lm\[hub\]'"):
        opened("http://127.0.0.1:9/data", tmp_path)


def test_several_processes_share_one_cache(tmp_path: Path, web: Web) -> None:
    folder, cache = KINDS["krill"](web.root / "data"), tmp_path / "cache"
    size = sum(path.stat().st_size for path in folder.glob("*.arrow"))
    program = (
        "import sys, numpy as np; from krill.loading.foreign.opening import open_source\n"
        "url, cache, size = sys.argv[1:]\n"
        "source = open_source(url, reading_bytes=10**5, cache_dir=cache, cache_size=int(size))\n"
        "print(sum(int(source.read(np.array([row])).tokens.sum()) for row in range(0, 300, 7)))"
    )
    command = [sys.executable, "-c", program, f"{web.url}/data", str(cache), str(size)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    expected = f"{sum(sum(ROWS[row]) for row in range(0, 300, 7))}\n"
    assert [process.communicate(timeout=60)[0] for process in running] == [expected, expected]
    assert web.asked == {"krill-run.json": 2} | {f"data-0000{number}.arrow": 1 for number in range(3)}


def test_the_cache_is_in_the_users_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache_dir() == tmp_path / "krill"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_cache_dir() == tmp_path / ".cache" / "krill"
    assert os.environ["HOME"] == str(tmp_path)
