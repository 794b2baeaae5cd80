"""`krill evaluate` and `krill generate` keep to their budget, and more text takes no more memory."""

from __future__ import annotations

import pytest

from krill.model.sizing import ModelShape
from tiny_models import tiny_model

pytestmark = [pytest.mark.jax, pytest.mark.usefixtures("jax_as_installed")]

MB = 10**6
# What the command is given, and the share of what was predicted that it really takes.
BUDGET = 450 * MB
TRUE_SHARE = (0.7, 1.0)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    from krill.training.saved_model import save_model

    folder = tmp_path_factory.mktemp("model")
    shape = ModelShape(vocab_size=257, width=16, layers=1, heads=2, kv_heads=1, hidden=24)
    save_model(folder, tiny_model(shape, 1), context=128, tokenizer="bytes")
    return folder


def check_kept(outcome) -> None:
    assert outcome.code == 0, outcome.err
    assert outcome.peak <= BUDGET
    budget = outcome.result["budget"]
    assert abs(budget["measured_peak"] - outcome.peak) <= 2 * MB
    assert TRUE_SHARE[0] <= outcome.peak / budget["predicted_peak"] <= TRUE_SHARE[1]


def test_ten_times_the_text_is_evaluated_in_the_same_memory(fresh_krill, model, tmp_path):
    peaks = []
    for kilobytes in (40, 400):
        text = tmp_path / f"{kilobytes}.txt"
        text.write_text("Sixteen letters.\n" * (kilobytes * 1000 // 17), encoding="utf-8")
        outcome = fresh_krill("evaluate", model, text, "--memory", "450MB", "--quiet", "--json")
        check_kept(outcome)
        assert outcome.result["tokens"] > 0.99 * kilobytes * 1000
        peaks.append(outcome.peak)
    # The smaller text does not fill what is set aside for reading ahead.
    shares = {share["name"]: share["bytes"] for share in outcome.result["budget"]["shares"]}
    ahead = sum(shares[name] for name in ("the block being read", "blocks being encoded", "tokens being cut"))
    assert peaks[1] <= peaks[0] + ahead


def test_a_long_text_is_generated_inside_the_budget(fresh_krill, model):
    prompt = ["--prompt", "The sea", "--max-tokens", "300", "--samples", "3"]
    outcome = fresh_krill("generate", model, *prompt, "--memory", "450MB", "--quiet", "--json")
    check_kept(outcome)


def test_a_budget_that_is_too_small_says_what_would_do(fresh_krill, model):
    outcome = fresh_krill("generate", model, "--prompt", "The sea", "--memory", "200MB")
    assert outcome.code == 4
    assert "the budget is too small" in outcome.err
    assert "would do" in outcome.err
