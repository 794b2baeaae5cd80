"""`krill tokenizer encode` into a file: the budget holds, and memory does not grow with the input."""

import pytest

import preloaded

MB = 10**6


@pytest.fixture(scope="module")
def corpora(grown):
    return {size: grown(size) for size in (5, 50)}


@pytest.fixture(scope="module")
def tokenizer(corpora, tmp_path_factory):
    output = tmp_path_factory.mktemp("trained") / "tokenizer"
    command = ["tokenizer", "train", "--input", corpora[5], "--vocab-size", 2000, "--output", output]
    assert preloaded.run(command).code == 0
    return output


@pytest.mark.parametrize("threads", [1, 2])
def test_the_budget_holds_and_ten_times_the_text_takes_hardly_more(
    fresh_krill, corpora, tokenizer, tmp_path, threads
):
    peaks = []
    for size, corpus in corpora.items():
        arguments = ["--tokenizer", tokenizer, "--input", corpus, "--output", tmp_path / f"{size}.bin"]
        outcome = fresh_krill(
            "tokenizer", "encode", *arguments, "--memory", "256MB", "--threads", threads, "--json", "--quiet"
        )
        assert outcome.code == 0, outcome.err
        assert outcome.peak <= 256 * MB
        budget = outcome.result["budget"]
        assert abs(budget["measured_peak"] - outcome.peak) <= 2 * MB
        peaks.append(outcome.peak)
    assert peaks[1] <= 1.3 * peaks[0]
    assert 0.7 <= peaks[1] / budget["predicted_peak"] <= 1.0
