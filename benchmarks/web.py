"""WARC to text by Krill, beside a bare loop of FastWARC and Resiliparse, and datatrove with Trafilatura.

All read the same crawl, of pages with menus, scripts and tables around real text; the texts of Krill and of
the bare loop are compared one by one. Krill's figures are those of the whole command, starting, cleaning
and writing Parquet included; the bare loop keeps nothing. They take turns, and the median counts: by CPU
seconds where others compute on the machine. datatrove reads the first fiftieth. `python benchmarks/web.py`,
with BENCH_WARC_MB megabytes (100) and BENCH_TURNS turns (3); BENCH_HTML names a folder of HTML files to
take pages from instead.
"""

from __future__ import annotations

import gzip
import os
import random
import sys
import tempfile
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from statistics import median

import pyarrow.parquet as pq
import yaml

from measured import Outcome, run_measured
from real_text import real_texts

SIZE = int(os.environ.get("BENCH_WARC_MB", "100")) * 10**6
TURNS = int(os.environ.get("BENCH_TURNS", "3"))
_MENU = "".join(f'<li class="item"><a href="/section/{n}">Section {n}</a></li>' for n in range(100))
_SCRIPT = "<script>" + "function track(a){var b=a<3?'<div>':'</div>';return b+a;}\n" * 300 + "</script>"

_BARE = """
import sys
from hashlib import blake2b
from fastwarc.warc import ArchiveIterator, WarcRecordType
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.encoding import bytes_to_str, detect_encoding

digest, pages = blake2b(digest_size=16), 0
for record in ArchiveIterator(open(sys.argv[1], "rb"), record_types=WarcRecordType.response, parse_http=True):
    body = record.reader.read()
    page = bytes_to_str(body, record.http_charset or detect_encoding(body, from_html_meta=True))
    text = extract_plain_text(page, preserve_formatting=True, main_content=True, list_bullets=True,
        alt_texts=False, links=False, form_fields=False, noscript=False, comments=False, post_meta=True,
        hidden_elements=False)
    digest.update(text.encode() + b"\\0")
    pages += 1
print(pages, digest.hexdigest())
"""

_DATATROVE = """
import sys
from datatrove.pipeline.extractors import Trafilatura
from datatrove.pipeline.readers import WarcReader

reader = WarcReader(sys.argv[1], glob_pattern=sys.argv[2])
pages = sum(1 for _ in Trafilatura(favour_precision=True).run(reader.run()))
print(pages)
"""


def write_crawls(folder: Path) -> tuple[Path, Path]:
    """A crawl of the wanted size, and the first fiftieth of it."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    from web_crawl import Answer, response_record

    whole, part = folder / "crawl.warc.gz", folder / "part.warc.gz"
    pages = _pages()
    size = 0
    with whole.open("wb") as file, part.open("wb") as start:
        for number in range(10**9):
            if size >= SIZE:
                break
            record = response_record(Answer(f"https://example.org/{number}", next(pages)), number)
            packed = gzip.compress(record, 6)
            file.write(packed)
            if size < SIZE // 50:
                start.write(packed)
            size += len(record)
    return whole, part


def _pages() -> Iterator[bytes]:
    given = os.environ.get("BENCH_HTML")
    while given:
        for path in sorted(Path(given).rglob("*.html")):
            if 0 < path.stat().st_size < 5_000_000:
                yield path.read_bytes()
    chance = random.Random(0)
    texts = [text for text in real_texts() if len(text) > 2000]
    while True:
        text = chance.choice(texts)
        start = chance.randrange(max(1, len(text) - 20_000))
        lines = text[start : start + chance.randrange(3_000, 20_000)].replace("<", "&lt;").splitlines()
        blocks = [lines[at : at + 6] for at in range(0, len(lines), 6)]
        article = "\n".join(f'<p class="text">{" ".join(block)}</p>' for block in blocks)
        rows = "".join(f"<tr><td>{n}</td><td>{chance.random():.4f}</td></tr>" for n in range(20))
        yield (
            f"<!DOCTYPE html><html><head><title>A page</title>{_SCRIPT}<style>p {{margin: 0}}</style></head>"
            f'<body><header><nav><ul>{_MENU}</ul></nav></header><main><article class="post"><h1>A title</h1>'
            f"{article}<table>{rows}</table></article></main><aside>{_MENU}</aside><footer>Imprint</footer>"
            "</body></html>"
        ).encode()


def krill_run(folder: Path, crawl: Path, threads: int) -> Outcome:
    config = {
        "datasets": [{"path": str(crawl)}],
        "preprocess": {
            "prepared_path": "out",
            "output": "text",
            "dedup": "none",
            "strip": False,
            "min_chars": 0,
            "samples": False,
        },
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    krill = Path(sys.executable).with_name("krill")
    options = ["--threads", str(threads), "--memory", "512MB", "--json", "--quiet", "--overwrite"]
    done = run_measured([krill, "preprocess", "config.yaml", *options], cwd=folder)
    assert done.code == 0, done.err
    return done


def texts_digest(output: Path) -> tuple[int, str]:
    digest, count = blake2b(digest_size=16), 0
    for path in sorted(output.glob("text-*.parquet")):
        for batch in pq.ParquetFile(path).iter_batches(1000, columns=["text"]):
            for text in batch.column("text").to_pylist():
                digest.update(text.encode() + b"\0")
                count += 1
    return count, digest.hexdigest()


def peer_run(folder: Path, script: str, *arguments: str) -> Outcome:
    (folder / "peer.py").write_text(script)
    done = run_measured([Path(sys.executable), "peer.py", *arguments], cwd=folder, timeout=3600)
    assert done.code == 0, done.err[-2000:]
    return done


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        whole, part = write_crawls(folder)
        print(f"{SIZE / 1e6:.0f} MB of WARC, {whole.stat().st_size / 1e6:.0f} MB compressed\n")
        runs: dict[str, list[Outcome]] = {}
        for _ in range(TURNS):
            runs.setdefault("FastWARC + Resiliparse", []).append(peer_run(folder, _BARE, str(whole)))
            for threads in (1, 2):
                runs.setdefault(f"krill, {threads} thread", []).append(krill_run(folder, whole, threads))
                pages, digest = texts_digest(folder / "out")
                assert [str(pages), digest] == runs["FastWARC + Resiliparse"][-1].out.split()
        trafilatura = peer_run(folder, _DATATROVE, str(part.parent), part.name)
        print(f"{'':26} {'seconds':>8} {'CPU':>8} {'MB/s CPU':>9} {'peak':>8}")
        found = {}
        for name, outcomes in runs.items():
            found[name] = _line(name, outcomes, SIZE)
        peer = _line("datatrove + Trafilatura", [trafilatura], SIZE / 50)
        bare, one, two = found.values()
        by_cpu, by_clock = one[1] / bare[1], one[0] / bare[0]
        print(f"\none thread beside the bare loop: {by_cpu:.2f}x by CPU, {by_clock:.2f}x by the clock")
        print(f"one thread beside datatrove and Trafilatura: {one[1] / peer[1]:.1f}x by CPU")
        print(
            f"two threads beside one: {two[0] / one[0]:.2f}x by the clock, {one[1] / two[1]:.2f} of the CPU"
        )


def _line(name: str, outcomes: list[Outcome], size: float) -> tuple[float, float]:
    """Prints the medians; gives bytes a second, by the clock and by CPU."""
    seconds = median(outcome.seconds for outcome in outcomes)
    cpu = median(outcome.cpu_seconds for outcome in outcomes)
    peak = max(outcome.peak for outcome in outcomes)
    print(f"{name:26} {seconds:8.1f} {cpu:8.1f} {size / cpu / 1e6:9.1f} {peak / 1e6:6.0f}MB")
    return size / seconds, size / cpu


if __name__ == "__main__":
    main()
