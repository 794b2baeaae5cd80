"""WARC to text by Krill, beside a bare loop of FastWARC and Resiliparse, and datatrove with Trafilatura.

All read the same crawl, of pages with menus, scripts and tables around real text; the texts of Krill and of
the bare loop are compared one by one. The bare loop keeps nothing. Krill is measured three ways: reading and
extraction alone, which is what the bare loop does, behind the limits; the whole command, which starts, plans,
cleans, measures and writes Parquet, all that is optional switched off; and that with a URL filter of 4.5
million domains. They take turns, and the median counts: by CPU seconds where others compute on the machine.
Trafilatura reads the first fiftieth, by datatrove and by Krill. `python benchmarks/web.py`, with
BENCH_WARC_MB megabytes (300), BENCH_TURNS turns (3) and BENCH_DOMAINS domains (4,500,000); BENCH_HTML names a
folder of HTML files to take pages from instead. Rows are kept as `web`; see results.py.
"""

from __future__ import annotations

import gzip
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from statistics import median

import pyarrow.parquet as pq
import yaml

from measured import Outcome, run_measured
from real_text import real_texts
from results import PEAK, SECONDS, Column, again

SIZE = int(os.environ.get("BENCH_WARC_MB", "300")) * 10**6
TURNS = int(os.environ.get("BENCH_TURNS", "3"))
DOMAINS = int(os.environ.get("BENCH_DOMAINS", "4500000"))
BARE, ALONE = "FastWARC + Resiliparse", "Krill, reading and extraction alone"
ONE, TWO, FILTERED = "krill preprocess", "krill preprocess, two threads", "krill preprocess, URL filter"
DATATROVE, TRAFILATURA = "datatrove + Trafilatura", "krill preprocess, Trafilatura"
_COLUMNS = (
    Column("program", "program"),
    Column("cpu_seconds", "CPU seconds", ",.1f"),
    SECONDS,
    Column("rate", "MB/s of CPU time", ",.1f"),
    Column("share", "speed / the peer's", ".2f", "x"),
    PEAK,
)
# As where a package is installed: Krill's sources are not compiled at each start.
_COMPILED = {"PYTHONDONTWRITEBYTECODE": ""}
_SUFFIXES = ("com", "org", "net", "de", "co.uk")
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

_EXTRACTION = """
import sys
from hashlib import blake2b
from krill import _native
from krill.config import DatasetConfig
from krill.corpus import DatasetSource, open_corpus
from krill.corpus.readers import Limits
from krill.pipeline.web_input import page_settings
from krill.text.extract import ExtractPages

_native.configure_malloc()
path = sys.argv[1]
corpus = open_corpus([DatasetSource(path)], unit_bytes=32_000_000, max_document_bytes=4_000_000, pages=True)
step = ExtractPages([page_settings(DatasetConfig(path=path))], corpus.files, Limits(32_000_000, 4_000_000))
digest, pages = blake2b(digest_size=16), 0
for _, blocks in corpus.walk(lambda _: None):
    for block in blocks:
        for text in step.apply(block.documents()).batch["text"].to_pylist():
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


def krill_run(
    folder: Path, crawl: Path, threads: int, domains: Path | None = None, **extract: object
) -> Outcome:
    config = {
        "datasets": [{"path": str(crawl), "columns": ["url"], "extract": extract}],
        "preprocess": {
            "prepared_path": "out",
            "output": "text",
            "dedup": "none",
            "strip": False,
            "min_chars": 0,
            "samples": False,
            "filters": [] if domains is None else [{"url": {"domains": str(domains)}}],
        },
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    krill = Path(sys.executable).with_name("krill")
    options = ["--threads", str(threads), "--memory", "512MB", "--json", "--quiet", "--overwrite"]
    done = run_measured([krill, "preprocess", "config.yaml", *options], cwd=folder, env=_COMPILED)
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
    done = run_measured(
        [Path(sys.executable), "peer.py", *arguments], cwd=folder, env=_COMPILED, timeout=3600
    )
    assert done.code == 0, done.err[-2000:]
    return done


def write_domains(path: Path) -> Path:
    """Domains of none of the pages."""
    chance = random.Random(1)
    with path.open("w") as file:
        for number in range(DOMAINS):
            file.write(f"site{number * 7919 % 99_999_989:x}.{chance.choice(_SUFFIXES)}\n")
    return path


def measure(folder: Path) -> dict[str, list[Outcome]]:
    """Each program in turn, after one turn that fills caches and is not counted."""
    whole, part = write_crawls(folder)
    domains = write_domains(folder / "domains.txt")
    print(f"{SIZE / 1e6:.0f} MB of WARC, {whole.stat().st_size / 1e6:.0f} MB compressed\n")
    precise = {"method": "trafilatura", "favor_precision": True, "include_comments": False}
    programs: dict[str, Callable[[], Outcome]] = {
        BARE: lambda: peer_run(folder, _BARE, str(whole)),
        ALONE: lambda: peer_run(folder, _EXTRACTION, str(whole)),
        ONE: lambda: krill_run(folder, whole, 1),
        TWO: lambda: krill_run(folder, whole, 2),
        FILTERED: lambda: krill_run(folder, whole, 1, domains),
        DATATROVE: lambda: peer_run(folder, _DATATROVE, str(part.parent), part.name),
        TRAFILATURA: lambda: krill_run(folder, part, 1, **precise),
    }
    runs: dict[str, list[Outcome]] = {name: [] for name in programs}
    for turn in range(TURNS + 1):
        wanted = ""
        for name, run in programs.items():
            outcome = run()
            if name in (BARE, ALONE):
                wanted = wanted or outcome.out
                assert outcome.out == wanted, f"{name}: other texts"
            elif name in (ONE, TWO, FILTERED):
                pages, digest = texts_digest(folder / "out")
                assert [str(pages), digest] == wanted.split(), f"{name}: other texts"
            if turn:
                runs[name].append(outcome)
    return runs


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        runs = measure(Path(place))
    peers = ("fastwarc", "resiliparse", "trafilatura", "datatrove")
    results = again("web", *peers, columns=_COLUMNS, keys=("program",))
    speeds = {}
    for name, outcomes in runs.items():
        size = SIZE / (50 if name in (DATATROVE, TRAFILATURA) else 1)
        cpu = median(outcome.cpu_seconds for outcome in outcomes)
        seconds = median(outcome.seconds for outcome in outcomes)
        speeds[name] = size / cpu, size / seconds
        peer = DATATROVE if name in (DATATROVE, TRAFILATURA) else BARE
        results.add(
            program=name,
            cpu_seconds=cpu,
            seconds=seconds,
            rate=size / cpu / 1e6,
            share=speeds[name][0] / speeds[peer][0],
            peak=max(outcome.peak for outcome in outcomes) / 1e6,
        )
    (one, one_clock), (two, two_clock) = speeds[ONE], speeds[TWO]
    print(f"\ntwo threads beside one: {two_clock / one_clock:.2f}x by the clock, {one / two:.2f} of the CPU")
    print(f"one thread beside datatrove and Trafilatura: {one / speeds[DATATROVE][0]:.1f}x by CPU")
    print(f"the URL filter: {speeds[ONE][0] / speeds[FILTERED][0] - 1:.2%} of the command's CPU")
    results.save()


if __name__ == "__main__":
    main()
