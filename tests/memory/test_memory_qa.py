"""Preparing questions and reading features hold their budgets; ten times the questions take hardly more."""

from __future__ import annotations

import sys

import pytest

from measured import Outcome, run_measured
from questions import SQUAD, grown_squad, tokenizer_of

pytestmark = pytest.mark.skipif(not SQUAD.exists(), reason="the shared questions are not here")

MB = 10**6
ARTICLES, QUESTIONS = 8, 2805  # half of what is shared
PREPARE = "from krill.cli.commands import qa; qa()"
READ = """
import json, random, sys
from itertools import islice
from krill.budget import peak_bytes
from krill.qa import QaDataset, create_dataloader
dataset = QaDataset(sys.argv[1], memory="60MB")
before = peak_bytes()
rows = 0
loader = create_dataloader(
    dataset, batch_size=64, shuffle=True, use_time_step_major=False, framework="numpy"
)
for batch in islice(loader, 300):
    rows += len(batch["input_ids"])
for number in random.Random(0).sample(range(dataset.documents), 2000):
    rows += len(dataset.document(number)) > 0
print(json.dumps({"rows": rows, "features": len(dataset), "grown": peak_bytes() - before}))
"""


def prepared(folder, times: int, threads: int) -> Outcome:
    questions = grown_squad(folder / f"{times}.json", times, ARTICLES)
    return run_measured(
        [
            *(sys.executable, "-c", PREPARE, "prepare", questions),
            *("--tokenizer", folder / "tokenizer", "--output", folder / f"out{times}", "--json", "--quiet"),
            *("--memory", "200MB", "--threads", str(threads)),
        ]
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("qa")
    tokenizer_of("byte_bpe").save_pretrained(folder / "tokenizer")
    return folder


def check_prepared(small: Outcome, large: Outcome, times: int) -> None:
    for outcome in (small, large):
        assert outcome.code == 0, outcome.err
        assert outcome.peak <= 200 * MB
        budget = outcome.result["budget"]
        assert 0.7 <= budget["measured_peak"] / budget["predicted_peak"] <= 1.0
    assert large.result["examples"] == times * small.result["examples"] == times * QUESTIONS
    assert large.result["features"] == times * small.result["features"]


def test_ten_times_the_questions_take_hardly_more_and_reading_them_shuffled_holds_its_budget(folder) -> None:
    small, large = prepared(folder, 1, 1), prepared(folder, 10, 2)
    check_prepared(small, large, 10)
    assert large.peak <= 1.5 * small.peak
    read = run_measured([sys.executable, "-c", READ, folder / "out10"])
    assert read.code == 0, read.err
    assert read.result["features"] == large.result["features"]
    assert read.result["rows"] == 300 * 64 + 2000
    assert read.result["grown"] <= 60 * MB


@pytest.mark.soak
def test_six_hundred_thousand_questions_stay_under_200_mb(folder) -> None:
    small, large = prepared(folder, 1, 1), prepared(folder, 215, 1)
    check_prepared(small, large, 215)
