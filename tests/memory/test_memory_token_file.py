"""`krill tokenizer encode` into a file: the budget holds, and memory does not grow with the input."""

import pytest

MB = 10**6


@pytest.fixture(scope="module")
def corpora(grown):
    return {size: grown(size) for size in (5, 50)}


@pytest.mark.parametrize("threads", [1, 2])
def test_the_budget_holds_and_ten_times_the_text_takes_hardly_more(fresh_krill, corpora, tmp_path, threads):
    tokenizer = tmp_path / "tokenizer"
    arguments = ["--input", corpora[5], "--vocab-size", 2000, "--output", tokenizer, "--quiet"]
    assert fresh_krill("tokenizer", "train", *arguments).code == 0
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
