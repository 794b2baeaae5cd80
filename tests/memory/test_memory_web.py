"""Crawls stay within their budget, extraction included, and ten times as many pages take hardly more."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from web_crawl import Answer, page_of, response_record

MB = 10**6
BUDGET = 512 * MB
# Within all limits, and as much as a parser makes of a page.
WORST = (
    "some words and " * 650_000,
    "<p>a</p>" * 99_000,
    ("<table><td>" * 40 + "</table>" * 40) * 1200,
    '<a href="' + "x" * 90 + '">b</a>' * 99_000,
    '<div class="' + "a " * 4_900_000 + '">a</div>',
)


def write_crawl(path: Path, size: int, *, worst: bool) -> Path:
    chance = random.Random(1)
    words = ["".join(chance.choices("abcdefghijklmnop", k=chance.randint(2, 9))) for _ in range(2000)]

    def page(number: int) -> bytes:
        if worst and number < len(WORST):
            return page_of(WORST[number]).encode()
        texts = (" ".join(chance.choices(words, k=60)) for _ in range(chance.randint(20, 150)))
        return page_of("".join(f'<p class="a b">{text} <a href="/c">link</a></p>' for text in texts)).encode()

    records = [response_record(Answer(f"https://example.org/{n}", page(n)), n) for n in range(150)]
    packed = [(gzip.compress(record, 1), len(record)) for record in records]
    with path.open("wb") as file:
        done = 0
        while done < size:
            for member, length in packed:
                file.write(member)
                done += length
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


@pytest.mark.parametrize(("small", "large"), [(10, 100), pytest.param(100, 1000, marks=pytest.mark.soak)])
def test_ten_times_as_many_pages_take_hardly_more(
    fresh_krill: Any, tmp_path: Path, small: int, large: int
) -> None:
    peaks = []
    for size in (small, large):
        crawl = write_crawl(tmp_path / f"{size}.warc.gz", size * MB, worst=False)
        outcome = run(fresh_krill, tmp_path, crawl, "--threads", "2")
        assert outcome.peak <= BUDGET
        peaks.append(outcome.peak)
    assert peaks[1] <= 1.25 * peaks[0]


def test_the_largest_pages_that_are_read_stay_within_the_budget(fresh_krill: Any, tmp_path: Path) -> None:
    crawl = write_crawl(tmp_path / "worst.warc.gz", 30 * MB, worst=True)
    outcome = run(fresh_krill, tmp_path, crawl, "--threads", "2")
    assert outcome.peak <= BUDGET
