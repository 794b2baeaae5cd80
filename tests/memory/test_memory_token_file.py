"""`krill tokenizer encode` into a file: the budget holds, and memory does not grow with the input."""

import pytest

from real_text import grow_jsonl

MB = 10**6


@pytest.fixture(scope="module")
def corpora(tmp_path_factory, corpus_50mb):
    return {5: grow_jsonl(tmp_path_factory.mktemp("corpus") / "5mb.jsonl", 5 * MB), 50: corpus_50mb}


@pytest.mark.parametrize("threads", [1, 2])
def test_the_budget_holds_and_ten_times_the_text_takes_hardly_more(krill, corpora, tmp_path, threads):
    tokenizer = tmp_path / "tokenizer"
    arguments = ["--input", corpora[5], "--vocab-size", 2000, "--output", tokenizer, "--quiet"]
    assert krill("tokenizer", "train", *arguments).code == 0
    peaks = []
    for size, corpus in corpora.items():
        arguments = ["--tokenizer", tokenizer, "--input", corpus, "--output", tmp_path / f"{size}.bin"]
        outcome = krill(
            "tokenizer", "encode", *arguments, "--memory", "256MB", "--threads", threads, "--json", "--quiet"
        )
        assert outcome.code == 0, outcome.err
        assert outcome.peak <= 256 * MB
        budget = outcome.result["budget"]
        assert abs(budget["measured_peak"] - outcome.peak) <= 2 * MB
        peaks.append(outcome.peak)
    assert peaks[1] <= 1.3 * peaks[0]
    assert 0.7 <= peaks[1] / budget["predicted_peak"] <= 1.0
