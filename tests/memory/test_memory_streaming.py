"""`StreamingDataLoader` stays inside its plan, and holds no more of ten times the text."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import krill
from measured import run_measured

MB = 10**6
# A buffer that the smallest corpus fills several times: a second one that stays half empty would hold less.
BUFFER = 4000

# What the budget of the Python API counts: growth above what the process held before.
_PROGRAM = """
import json, sys
from krill.budget import peak_bytes, resident_bytes
from krill.loading.stream.loader import StreamingDataLoader

source, tokenizer, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
before = resident_bytes()
loader = StreamingDataLoader(source, tokenizer, **options)
batches = sum(1 for _ in loader)
state = loader.state_dict()
print(json.dumps({
    "batches": batches,
    "before": before,
    "growth": peak_bytes() - before,
    "predicted": loader.plan.predicted_peak,
    "worst": loader.plan.worst_peak,
}))
"""


@pytest.fixture(scope="module")
def corpora(grown: Callable[[int], Path]) -> dict[int, Path]:
    return {size: grown(size) for size in (5, 20, 50)}


@pytest.fixture(scope="module")
def tokenizer(corpora: dict[int, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("tokenizer") / "tokenizer"
    krill.tokenizer.train([str(corpora[5])], vocab_size=2000, output=output)
    return output


def streamed(source: Path, tokenizer: Path, options: str, **limits: Any) -> dict[str, Any]:
    outcome = run_measured(
        [sys.executable, "-c", _PROGRAM, source, tokenizer, options], timeout=100, **limits
    )
    assert outcome.code == 0, outcome.err
    return outcome.result


def _options(**more: int) -> str:
    return json.dumps({"memory": "150MB", "shuffle_buffer_size": BUFFER, **more})


@pytest.fixture(scope="module")
def small(corpora: dict[int, Path], tokenizer: Path) -> dict[str, Any]:
    """What is said of the smaller one, on one thread."""
    return streamed(corpora[5], tokenizer, _options(threads=1))


def test_the_budget_holds_and_ten_times_the_text_takes_hardly_more(
    corpora: dict[int, Path], tokenizer: Path, small: dict[str, Any]
) -> None:
    # A busy machine adds to what blocks leave between them, by chance: the text would add to both runs.
    *large, threaded = (
        streamed(corpora[size], tokenizer, _options(threads=threads))
        for size, threads in ((50, 1), (50, 1), (20, 2))
    )
    assert large[0]["batches"] > 9 * small["batches"]
    assert min(found["growth"] for found in large) <= 1.15 * small["growth"]
    for found in (*large, threaded):
        assert 0.6 * found["predicted"] <= found["growth"] <= found["predicted"] <= 150 * MB


def test_the_smallest_budget_that_is_accepted_is_enough_for_words_of_megabytes(
    tokenizer: Path, tmp_path: Path
) -> None:
    """Letters with nothing between them: a block, its tokens and what merging holds are at their largest."""
    word = "".join(chr(97 + at * at * at % 26) for at in range(1000)) * 3990
    source = tmp_path / "words.jsonl"
    source.write_text(f'{{"text": "{word}"}}\n' * 3)
    found = streamed(source, tokenizer, '{"memory": "134MB", "threads": 2}')
    assert found["growth"] <= found["worst"] <= 134 * MB


def test_it_runs_where_the_system_refuses_more_than_the_budget(
    corpora: dict[int, Path], tokenizer: Path, small: dict[str, Any]
) -> None:
    """RLIMIT_DATA counts stacks and reservations that are never touched: hence 128 MB above the budget."""
    limit = small["before"] + (150 + 128) * MB
    limited = streamed(corpora[5], tokenizer, _options(), data_limit=limit)
    assert limited["batches"] == small["batches"]
