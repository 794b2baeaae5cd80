"""Commands that compute with JAX refuse a budget that it does not fit in, and settings that it can't use."""

from __future__ import annotations

import json

import pytest
from hostile_models import save_model
from hostile_questions import _saved_features
from hostile_tokenizer_files import plain

VERBS = {
    "generate": ["model", "--prompt", "some", "--max-tokens", "3"],
    "inference": ["model", "--prompt", "some", "--max-tokens", "3"],
    "evaluate": ["model", "input.jsonl"],
    "train": ["--output-dir", "out", "--dataset-id", "input.jsonl", "--tokenizer", "tokenizer.json"],
    "qa train": ["features", "--tokenizer", "tokenizer.json", "--output-dir", "out"],
    "qa evaluate": ["model", "features"],
}


@pytest.fixture
def files(tmp_path):
    save_model(tmp_path / "model")
    _saved_features(tmp_path)
    (tmp_path / "tokenizer.json").write_text(json.dumps(plain()))
    (tmp_path / "input.jsonl").write_bytes(b'{"text": "some words of a text"}\n' * 50)
    return tmp_path


@pytest.mark.parametrize("verb", VERBS)
def test_a_budget_that_jax_does_not_fit_in_is_refused_within_it(files, fresh_krill, verb):
    given = ("--memory", "256MB", "--threads", "1")
    done = fresh_krill(*verb.split(), *VERBS[verb], *given, cwd=files)
    assert done.code == 4, done.err
    assert "error: the budget is too small: the plan needs" in done.err
    assert (
        "hint: --memory 600MB would do for a small model; with 256 MB not even JAX can be loaded" in done.err
    )
    assert done.peak <= 256e6


def test_the_budget_that_is_named_for_a_small_model_does(files, fresh_krill, jax_as_installed):
    done = fresh_krill("generate", *VERBS["generate"], "--memory", "600MB", "--threads", "2", cwd=files)
    assert done.code == 0, done.err
    assert done.peak <= 600e6


def test_a_budget_below_what_jax_takes_is_refused_and_one_just_above_is_kept(
    files, fresh_krill, jax_as_installed
):
    """Above it JAX is loaded and the model planned for: it fits or is refused, within the budget."""
    given = ("generate", *VERBS["generate"], "--threads", "1")
    refused = fresh_krill(*given, "--memory", "120MB", cwd=files)
    needed = int(refused.err.split("the plan needs ")[1].split(" MB")[0])
    below, above = (
        fresh_krill(*given, "--memory", f"{memory}MB", cwd=files) for memory in (needed - 2, needed + 4)
    )
    assert below.code == 4, below.err
    assert "the budget is too small" in below.err
    assert below.peak <= (needed - 2) * 10**6
    assert above.code == 0 or "the budget is too small" in above.err
    assert above.peak <= (needed + 4) * 10**6


@pytest.mark.parametrize(
    ("variable", "value", "fact"),
    [
        ("JAX_PLATFORMS", "nonsense", "JAX does not start with these environment variables"),
        ("JAX_PLATFORMS", "cuda", "JAX does not start with these environment variables"),
        ("JAX_NUM_CPU_DEVICES", "x", "JAX does not start with these environment variables"),
        ("JAX_ENABLE_X64", "1", "JAX is set to `jax_enable_x64`"),
        ("JAX_DISABLE_JIT", "1", "JAX is set to `jax_disable_jit`"),
    ],
)
def test_settings_that_jax_can_not_use_are_told_by_name(
    files, fresh_krill, monkeypatch, variable, value, fact
):
    monkeypatch.setenv(variable, value)
    done = fresh_krill("generate", *VERBS["generate"], "--memory", "1GB", "--threads", "1", cwd=files)
    assert done.code == 2, done.err
    assert f"error: {fact}" in done.err
    assert variable in done.err.split("hint: ")[1]
    assert "Traceback" not in done.err


@pytest.mark.parametrize("verb", ["evaluate", "train", "qa evaluate", "qa train"])
def test_every_verb_tells_settings_that_jax_can_not_use(files, fresh_krill, monkeypatch, verb):
    monkeypatch.setenv("JAX_ENABLE_X64", "1")
    done = fresh_krill(*verb.split(), *VERBS[verb], "--memory", "1GB", "--threads", "1", cwd=files)
    assert done.code == 2, done.err
    assert "unset JAX_ENABLE_X64" in done.err
