"""A small hub on this machine that speaks the real one's protocol, for what is uploaded and downloaded."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote
from zlib import crc32

COMMIT = "0" * 40


class Hub(ThreadingHTTPServer):
    """Keeps what is committed to it; refuses whoever writes to `stranger/...`, and shows what is private to
    nobody without a token."""

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
            kind = "datasets/" if asked.get("type") == "dataset" else ""
            self.answer(200, {"url": f"{self.server.address}/{kind}{name}", "id": name, "name": name})
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
            self.answer(200, {"commitOid": COMMIT, "commitUrl": f"{self.server.address}/{name}/commit/0"})
        else:
            self.answer(404, {"error": "no such place"})

    def do_GET(self):
        """Of a dataset: what there is of it, the list of its files, a file."""
        path = unquote(self.path.split("?")[0]).removeprefix("/api").removeprefix("/datasets/")
        owner, repository, *rest = path.split("/", 2)
        name, part = f"{owner}/{repository}", "".join(rest)
        files = self.server.repositories.get(name)
        if files is None or (name in self.server.private and "Authorization" not in self.headers):
            self.answer(404, {"error": "Repository Not Found"}, {"X-Error-Code": "RepoNotFound"})
        elif part.startswith("resolve/"):
            file = part.split("/", 2)[2]
            if file in files:
                self.send(200, files[file], {"X-Repo-Commit": COMMIT, "ETag": f'"{crc32(files[file])}"'})
            else:
                self.answer(404, {"error": "no such file"}, {"X-Error-Code": "EntryNotFound"})
        elif part.startswith("tree/"):
            self.answer(
                200,
                [
                    {"type": "file", "path": file, "size": len(content), "oid": COMMIT}
                    for file, content in files.items()
                ],
            )
        else:
            self.answer(200, {"id": name, "sha": COMMIT, "siblings": [{"rfilename": file} for file in files]})

    do_HEAD = do_GET

    def answer(self, code, value, headers=None):
        self.send(code, json.dumps(value).encode(), {"Content-Type": "application/json", **(headers or {})})

    def send(self, code, content, headers):
        self.send_response(code)
        for header, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(header, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_):
        pass


@contextmanager
def serving() -> Iterator[Hub]:
    """A hub for as long as the context lasts."""
    server = Hub()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
