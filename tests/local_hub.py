"""A small hub on this machine that speaks the real one's protocol, for what is uploaded."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


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


@contextmanager
def serving() -> Iterator[Hub]:
    """A hub for as long as the context lasts."""
    server = Hub()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
