"""`krill tokenizer train --memory M` holds M, as the kernel counts it, at two sizes ten times apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import KRILL, dataset_bytes
from krill.budget import RESERVE
from measured import run_measured
from real_text import DOCUMENT_END, grow_text

MB = 10**6
SMALL, LARGE = 3, 30


@pytest.fixture(scope="module")
def corpora(made_once):
    """Text in which ever more different words appear: the larger one has four times as many."""
    large = made_once(f"{LARGE}mb.txt", lambda path: grow_text(path, LARGE * MB))

    def cut(path: Path) -> None:
        with large.open("rb") as file:
            whole, end, _ = file.read(SMALL * MB).rpartition(DOCUMENT_END.encode())
        path.write_bytes(whole + end)

    return {SMALL: made_once(f"{SMALL}mb.txt", cut), LARGE: large}


def train(krill, corpus, output, *arguments, memory, **options):
    command = ["tokenizer", "train", "--input", corpus, "--output", output, "--memory", memory, "--json"]
    outcome = krill(*command, *arguments, **options)
    assert outcome.code == 0, outcome.err
    return outcome


@pytest.fixture(scope="module")
def least_mb(corpora, tmp_path_factory):
    """The smallest budget that a refusal names: what the program itself holds is not the same everywhere."""
    output = tmp_path_factory.mktemp("refused") / "out"
    command = ["tokenizer", "train", "--input", corpora[SMALL], "--output", output, "--memory", "60MB"]
    refused = run_measured([KRILL, *command])
    assert refused.code == 4
    return int(refused.err.split("hint: --memory ")[1].split("MB")[0])


def test_the_budget_holds_and_ten_times_the_text_takes_hardly_more(fresh_krill, corpora, least_mb, tmp_path):
    budget_mb = least_mb + 2  # which the plan for the larger one uses up
    small, large = (
        train(fresh_krill, corpus, tmp_path / str(size), "--threads", 2, memory=f"{budget_mb}MB")
        for size, corpus in corpora.items()
    )
    for outcome in (small, large):
        budget = outcome.result["budget"]
        assert abs(budget["measured_peak"] - outcome.peak) <= 2 * MB
        assert outcome.peak <= budget["predicted_peak"] <= budget_mb * MB
        assert outcome.peak >= 0.7 * budget["predicted_peak"]
    assert large.peak <= 1.3 * small.peak


def test_it_runs_where_the_system_refuses_more_than_the_budget(fresh_krill, corpora, tmp_path):
    """RLIMIT_DATA counts stacks and reservations that are never touched: hence 128 MB above the budget."""
    limits = {"memory": "256MB", "data_limit": (256 + 128) * MB}
    outcome = train(fresh_krill, corpora[LARGE], tmp_path / "out", "--threads", 1, **limits)
    assert outcome.peak <= 256 * MB


def test_the_smallest_budget_that_the_refusal_names_is_enough_and_gives_the_same(
    fresh_krill, krill, corpora, least_mb, tmp_path
):
    least = train(fresh_krill, corpora[SMALL], tmp_path / "least", memory=f"{least_mb}MB")
    assert least.peak <= least_mb * MB
    train(krill, corpora[SMALL], tmp_path / "more", memory="1GB")
    assert dataset_bytes(tmp_path / "least") == dataset_bytes(tmp_path / "more")


def test_words_of_megabytes_stay_in_the_budget(fresh_krill, tmp_path):
    """Letters with nothing between them: one word that comes three times, and twenty-six others.

    First they have to stay on disk, then they just fit, with nothing to spare for reading them.
    """

    def learn(name, letters, budget):
        words = [bytes(65 + number * at * at % 26 for at in range(1000)) * letters for number in range(26)]
        with (tmp_path / name).open("wb") as file:
            for word in [words[1] * 2] * 3 + words:
                file.write(word + b"\n")
        size = ("--vocab-size", 259, "--threads", 2)
        outcome = train(fresh_krill, tmp_path / name, tmp_path / f"{name}-out", *size, memory=budget)
        assert outcome.peak <= budget
        assert outcome.result["unique_words"] == 28
        return outcome.result

    larger = learn("larger", 1_500, 150 * MB)
    assert larger["merging"]["on_disk"] is True
    # Two bytes for each of 28 million letters, and a sixteenth more; and what every plan leaves free.
    fitting = learn("fitting", 1_000, larger["budget"]["base"] + 71 * MB + RESERVE)
    assert fitting["merging"]["on_disk"] is False
