"""`krill tokenizer train --memory M` holds M, as the kernel counts it, at two sizes ten times apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import dataset_bytes
from real_text import DOCUMENT_END, grow_text

MB = 10**6
SMALL, LARGE = 6, 60


@pytest.fixture(scope="module")
def corpora(made_once):
    """Text in which ever more different words appear: the larger one has about ten times as many, too."""
    large = made_once(f"{LARGE}mb.txt", lambda path: grow_text(path, LARGE * MB))

    def cut(path: Path) -> None:
        with large.open("rb") as file:
            whole, end, _ = file.read(SMALL * MB).rpartition(DOCUMENT_END.encode())
        path.write_bytes(whole + end)

    return {SMALL: made_once(f"{SMALL}mb.txt", cut), LARGE: large}


def train(fresh_krill, corpus, output, *arguments, memory, **options):
    command = ["tokenizer", "train", "--input", corpus, "--output", output, "--memory", memory, "--json"]
    outcome = fresh_krill(*command, *arguments, **options)
    assert outcome.code == 0, outcome.err
    return outcome


def least_budget(fresh_krill, corpus, output):
    """In megabytes, as a refusal names it."""
    refused = fresh_krill("tokenizer", "train", "--input", corpus, "--output", output, "--memory", "60MB")
    assert refused.code == 4
    return int(refused.err.split("hint: --memory ")[1].split("MB")[0])


def test_the_budget_holds_and_ten_times_the_text_takes_hardly_more(fresh_krill, corpora, tmp_path):
    # What the program itself holds is not the same in every environment.
    budget_mb = least_budget(fresh_krill, corpora[SMALL], tmp_path / "none") + 20
    small, large = (
        train(fresh_krill, corpus, tmp_path / str(size), "--threads", 2, memory=f"{budget_mb}MB")
        for size, corpus in corpora.items()
    )
    for outcome in (small, large):
        budget = outcome.result["budget"]
        assert abs(budget["measured_peak"] - outcome.peak) <= 2 * MB
        assert outcome.peak <= budget["predicted_peak"] <= budget_mb * MB
    assert large.peak <= 1.3 * small.peak
    assert large.peak >= 0.7 * large.result["budget"]["predicted_peak"]


def test_it_runs_where_the_system_refuses_more_than_the_budget(fresh_krill, corpora, tmp_path):
    """RLIMIT_DATA counts stacks and reservations that are never touched: hence 128 MB above the budget."""
    limits = {"memory": "256MB", "data_limit": (256 + 128) * MB}
    outcome = train(fresh_krill, corpora[LARGE], tmp_path / "out", "--threads", 1, **limits)
    assert outcome.peak <= 256 * MB


def test_the_smallest_budget_that_the_refusal_names_is_enough_and_gives_the_same(
    fresh_krill, corpora, tmp_path
):
    needed = least_budget(fresh_krill, corpora[SMALL], tmp_path / "out")
    least = train(fresh_krill, corpora[SMALL], tmp_path / "least", memory=f"{needed}MB")
    assert least.peak <= needed * MB
    train(fresh_krill, corpora[SMALL], tmp_path / "more", memory="1GB")
    assert dataset_bytes(tmp_path / "least") == dataset_bytes(tmp_path / "more")


def test_words_of_megabytes_stay_in_the_budget(fresh_krill, tmp_path):
    """Letters with nothing between them: one word that comes ten times, and twenty-six others."""
    words = [bytes(65 + number * at * at % 26 for at in range(1000)) * 2_000 for number in range(26)]
    with (tmp_path / "long.txt").open("wb") as file:
        for word in [words[1] * 2] * 10 + words:
            file.write(word + b"\n")
    outcome = train(fresh_krill, tmp_path / "long.txt", tmp_path / "out", "--vocab-size", 259, memory="150MB")
    assert outcome.peak <= 150 * MB
    assert outcome.result["unique_words"] == 28
    assert outcome.result["merging"]["on_disk"] is True
