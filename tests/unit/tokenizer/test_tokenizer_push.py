"""`--push`, against a small hub on this machine that speaks the real one's protocol."""

import base64
import json
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from krill.errors import ConfigError, InputError, MissingExtra, StorageError
from krill.tokenizer.files import save
from krill.tokenizer.options import TrainOptions
from krill.tokenizer.push import push_tokenizer
from krill.tokenizer.reference import train

pytest.importorskip("huggingface_hub")


class Hub(ThreadingHTTPServer):
    """Keeps what is committed to it; refuses whoever writes to `stranger/...`."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answers)
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.private: set[str] = set()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Answers(BaseHTTPRequestHandler):
    server: Hub

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        kind, *rest = self.path.split("?")[0].removeprefix("/api/").split("/")
        if kind == "repos":
            asked = json.loads(body)
            name = "/".join(part for part in (asked.get("organization") or "me", asked["name"]) if part)
            if name.startswith("stranger/"):
                self.answer(403, {"error": "you may not write here"})
                return
            self.server.repositories.setdefault(name, {})
            if asked.get("private") or asked.get("visibility") == "private":
                self.server.private.add(name)
            self.answer(200, {"url": f"{self.server.address}/{name}", "id": name, "name": name})
        elif rest[2] == "preupload":
            files = [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                for file in json.loads(body)["files"]
            ]
            self.answer(200, {"files": files})
        elif rest[2] == "commit":
            name = "/".join(rest[:2])
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    content = base64.b64decode(line["value"]["content"])
                    self.server.repositories[name][line["value"]["path"]] = content
            self.answer(200, {"commitOid": "0" * 40, "commitUrl": f"{self.server.address}/{name}/commit/0"})
        else:
            self.answer(404, {"error": "no such place"})

    def answer(self, code, value):
        content = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture
def hub(monkeypatch):
    # A made-up token: the client sends none of the machine's own to the stand-in.
    monkeypatch.setenv("HF_TOKEN", "made-up")
    server = Hub()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def folder(tmp_path):
    save(train({b"ab": 2, b"bc": 1}, TrainOptions(vocab_size=300)), tmp_path / "tokenizer", tiktoken=True)
    (tmp_path / "tokenizer" / "krill-run.json").write_text("{}")
    return tmp_path / "tokenizer"


def test_the_tokenizers_files_are_uploaded_and_nothing_else(hub, folder):
    address = push_tokenizer(folder, "me/tokenizer", endpoint=hub.address)
    assert address == f"{hub.address}/me/tokenizer"
    pushed = hub.repositories["me/tokenizer"]
    assert sorted(pushed) == [
        "merges.txt",
        "tokenizer.json",
        "tokenizer.tiktoken",
        "tokenizer_config.json",
        "vocab.json",
    ]
    assert all(content == (folder / name).read_bytes() for name, content in pushed.items())
    assert hub.private == set()


def test_a_repository_can_be_private(hub, folder):
    push_tokenizer(folder, "me/mine", private=True, endpoint=hub.address)
    assert hub.private == {"me/mine"}


def test_a_refusal_says_how_to_log_in(hub, folder):
    with pytest.raises(StorageError, match=r"the hub refused the upload to `stranger/theirs`") as error:
        push_tokenizer(folder, "stranger/theirs", endpoint=hub.address)
    assert "hf auth login" in str(error.value)
    assert "403" in str(error.value)


def test_a_hub_that_is_not_there_is_named_and_the_tokenizer_is_safe(folder, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "made-up")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with pytest.raises(StorageError, match="can't reach the hub for `me/tokenizer`") as error:
        push_tokenizer(folder, "me/tokenizer", endpoint=f"http://127.0.0.1:{port}")
    assert f"safe in `{folder}`" in str(error.value)


def test_what_is_no_repository_id_is_refused(hub, folder):
    with pytest.raises(ConfigError, match="`a/b/c` is not the id of a repository"):
        push_tokenizer(folder, "a/b/c", endpoint=hub.address)
    assert hub.repositories == {}


def test_a_folder_without_a_tokenizer_is_refused(tmp_path):
    with pytest.raises(InputError, match="no tokenizer at"):
        push_tokenizer(tmp_path, "me/tokenizer")


def test_without_the_extra_the_error_says_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtra, match="needs the extra `hub`") as error:
        push_tokenizer(folder, "me/tokenizer")
    assert "pip install 'krill-lm[hub]'" in str(error.value)
