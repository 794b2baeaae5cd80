"""Crawls stay within their budget, extraction included, and ten times as many pages take hardly more."""

from __future__ import annotations

import gzip
import io
import json
import random
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
import zstandard

from krill.text.page_limits import RESILIPARSE
from web_crawl import Answer, page_of, response_record
from worst_pages import Kind, largest

MB = 10**6
BUDGET = 512 * MB
# Within all limits, and as much as a parser makes of a page.
WORST: tuple[Kind, ...] = (
    lambda size: "some words and " * size,
    lambda size: "<p>a</p>" * size,
    lambda size: ("<table><td>" * 40 + "</table>" * 40) * size,
    lambda size: ('<a href="' + "x" * 90 + '">b</a>') * size,
    lambda size: '<div class="' + "a " * size + '">a</div>',
)


def pages(worst: bool) -> Iterator[bytes]:
    chance = random.Random(1)
    words = ["".join(chance.choices("abcdefghijklmnop", k=chance.randint(2, 9))) for _ in range(2000)]

    def page(number: int) -> bytes:
        if worst and number < 2 * len(WORST):  # two alike follow each other, for two threads
            return largest(WORST[number // 2], RESILIPARSE).encode()
        texts = (" ".join(chance.choices(words, k=60)) for _ in range(chance.randint(20, 150)))
        return page_of("".join(f'<p class="a b">{text} <a href="/c">link</a></p>' for text in texts)).encode()

    return map(page, range(150))


def write_crawl(path: Path, size: int, *, worst: bool = False) -> Path:
    """A crawl of so many bytes, unfolded: the same pages again and again."""
    records = [
        response_record(Answer(f"https://example.org/{n}", page), n) for n, page in enumerate(pages(worst))
    ]
    pack = {".gz": lambda record: gzip.compress(record, 1), ".zst": zstandard.ZstdCompressor(1).compress}
    packed = b"".join(map(pack[path.suffix], records))
    with path.open("wb") as file:
        for _ in range(-(-size // sum(map(len, records)))):
            file.write(packed)
    return path


def write_archive(path: Path, size: int) -> Path:
    """The same as members of an archive."""
    made = list(pages(worst=False))
    count = len(made) * -(-size // sum(map(len, made)))
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for number in range(count):
                archive.writestr(f"{number}.html", made[number % len(made)])
        return path
    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        for number in range(count):
            member = tarfile.TarInfo(f"{number}.html")
            member.size = len(made[number % len(made)])
            tar.addfile(member, io.BytesIO(made[number % len(made)]))
    return path


def run(krill: Any, folder: Path, crawl: Path, *options: str) -> Any:
    config = {
        "datasets": [{"path": str(crawl), "columns": ["url", "title"]}],
        "tokenizer": {"builtin": "bytes"},
        "preprocess": {"prepared_path": str(folder / "out"), "sequence_len": 4096},
    }
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    outcome = krill("preprocess", path, "--memory", "512MB", "--overwrite", *options)
    assert outcome.code == 0, outcome.err
    return outcome


@pytest.mark.soak
@pytest.mark.parametrize("ending", ["warc.zst", "zip", "tar.gz"])
def test_other_kinds_of_crawls_take_hardly_more_either(fresh_krill: Any, tmp_path: Path, ending: str) -> None:
    peaks = []
    for size in (10, 100):
        path = tmp_path / f"{size}.{ending}"
        write = write_crawl if ending == "warc.zst" else write_archive
        outcome = run(fresh_krill, tmp_path, write(path, size * MB), "--threads", "2")
        assert outcome.peak <= BUDGET
        peaks.append(outcome.peak)
    assert peaks[1] <= 1.25 * peaks[0]


@pytest.mark.parametrize(("small", "large"), [(10, 100), pytest.param(100, 1000, marks=pytest.mark.soak)])
def test_ten_times_as_many_pages_take_hardly_more(
    fresh_krill: Any, tmp_path: Path, small: int, large: int
) -> None:
    peaks = []
    for size in (small, large):
        crawl = write_crawl(tmp_path / f"{size}.warc.gz", size * MB)
        outcome = run(fresh_krill, tmp_path, crawl, "--threads", "2")
        assert outcome.peak <= BUDGET
        peaks.append(outcome.peak)
    assert peaks[1] <= 1.25 * peaks[0]


def test_the_largest_pages_that_are_read_stay_within_the_budget(fresh_krill: Any, tmp_path: Path) -> None:
    crawl = write_crawl(tmp_path / "worst.warc.gz", 30 * MB, worst=True)
    outcome = run(fresh_krill, tmp_path, crawl, "--threads", "2")
    assert outcome.peak <= BUDGET
    manifest = json.loads((tmp_path / "out" / "krill-run.json").read_bytes())
    assert 0.8 <= outcome.peak / manifest["budget"]["predicted_peak"] <= 1.0
    assert "page_too_large" not in manifest["documents"]["dropped"]
