"""A small web site, served on this machine and crawled into WARC files: menus, scripts, charsets, traps."""

from __future__ import annotations

import gzip
import http.client
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from web_crawl import Answer, article, compressed, page_of, response_record, warc_info

PAGES = 120
CHARSETS = {
    "cp1252": "déjà vu, naïve café",
    "cp1251": "привет мир, это страница",
    "shift_jis": "日本語のページです",
}


@dataclass(frozen=True)
class Served:
    """What the site answers at one path."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "text/html; charset=utf-8"})


def site_pages() -> dict[str, Served]:
    """Ordinary pages, and behind them every kind of page that makes work."""
    pages = {
        f"/articles/{number}": Served(page_of(article(number), title=f"Article {number}").encode())
        for number in range(PAGES)
    }
    for number, (charset, text) in enumerate(CHARSETS.items()):
        body = page_of(f"<p>{text}</p>{article(1000 + number)}", head=f'<meta charset="{charset}">').encode(
            charset
        )
        pages[f"/meta/{charset}"] = Served(body, headers={"Content-Type": "text/html"})
        pages[f"/http/{charset}"] = Served(body, headers={"Content-Type": f"text/html; charset={charset}"})
    pages["/packed"] = Served(
        gzip.compress(page_of(article(2000)).encode()),
        headers={"Content-Type": "text/html", "Content-Encoding": "gzip"},
    )
    pages["/bomb"] = Served(
        gzip.compress(bytes(30_000_000)), headers={"Content-Type": "text/html", "Content-Encoding": "gzip"}
    )
    pages["/deep"] = Served(page_of("<div>" * 100_000 + "text").encode())
    pages["/wide"] = Served(page_of("<p>text</p>" * 150_000).encode())
    pages["/picture"] = Served(b"\x89PNG\r\n", headers={"Content-Type": "image/png"})
    pages["/paper"] = Served(b"%PDF-1.7 ...", headers={"Content-Type": "text/html"})
    pages["/gone"] = Served(b"not here", 404)
    pages["/broken"] = Served(b"no", 500)
    pages["/again"] = Served(b"", 302, {"Location": "/again"})
    pages["/text"] = Served(("plain words " * 40).encode(), headers={"Content-Type": "text/plain"})
    pages["/ads/1"] = Served(page_of(article(3000)).encode())
    return pages


@contextmanager
def serving(pages: Mapping[str, Served]) -> Iterator[str]:
    """A server for these pages; gives its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served = pages.get(self.path, Served(b"unknown", 404))
            self.send_response(served.status)
            for name, value in {**served.headers, "Content-Length": str(len(served.body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(served.body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def crawled(host: str, pages: Mapping[str, Served], name: str = "example.org") -> Iterator[bytes]:
    """A WARC record for each page, fetched from `host` and stored as if it were `name`."""
    connection = http.client.HTTPConnection(host, timeout=30)
    yield warc_info()
    for number, path in enumerate(pages):
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        headers = {
            key: value for key, value in answer.getheaders() if key not in ("Content-Type", "Date", "Server")
        }
        stored = Answer(
            f"https://{name}{path}",
            body,
            f"{answer.status} {answer.reason}",
            answer.getheader("Content-Type", ""),
            headers,
        )
        yield response_record(stored, number)
    connection.close()


def write_crawl(folder: Path, files: int = 2) -> list[Path]:
    """The site crawled into `crawl/*.warc.gz` below `folder`, and the list `warc.paths.gz` of these files."""
    pages = site_pages()
    with serving(pages) as host:
        records = list(crawled(host, pages))
    (folder / "crawl").mkdir()
    size = -(-len(records) // files)
    paths = []
    for number in range(files):
        path = folder / "crawl" / f"{number:05}.warc.gz"
        path.write_bytes(compressed(records[number * size : (number + 1) * size], ".gz"))
        paths.append(path)
    listed = "".join(f"{path.name}\n" for path in paths)
    (folder / "warc.paths.gz").write_bytes(gzip.compress(listed.encode()))
    return paths
