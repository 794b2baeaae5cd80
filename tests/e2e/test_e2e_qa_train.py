"""`krill qa train` and `krill qa evaluate` as commands: what memory solves, and what is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from recall_task import CAPITALS, write_tokenizer
from tiny_readers import LENGTH, write_recall
from tiny_trainings import assert_hints_do

TINY = ("--hidden", 16, "--layers", 1, "--batch-size", 4, "--max-steps", 2, "--threads", 1)


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("reader")
    write_recall(folder, "features", 10, segments=(2, 4), seed=3)
    return folder


@pytest.fixture
def train(krill, home):
    """The command on the features of ten documents; it must end with `code`."""

    def run(*flags, code=0, features="features", tokenizer="tokenizer.json", by=krill):
        outcome = by("qa", "train", features, "--tokenizer", tokenizer, *map(str, flags), cwd=home)
        assert outcome.code == code, outcome.err
        assert "Traceback" not in outcome.err
        return outcome

    return run


@pytest.mark.soak
def test_memory_solves_what_no_single_segment_can(krill, tmp_path):
    write_recall(tmp_path, "train", 2000, segments=(2, 3), seed=1)
    write_recall(tmp_path, "held-out", 128, segments=(3, 3), seed=2)
    # For hundreds of steps: the tests' JAX computes several times slower, that of users compiles for longer.
    faster = {"XLA_FLAGS": f"{os.environ['XLA_FLAGS']} --xla_backend_optimization_level=1"}
    sizes = ("--hidden", 32, "--layers", 1, "--heads", 2, "--batch-size", 32, "--learning-rate", 0.003)
    exact = {}
    for slots, steps, env in ((2, 180, faster), (0, 50, {})):
        options = {"cwd": tmp_path, "env": env}
        flags = [*sizes, "--memory-tokens", slots, "--max-steps", steps, "--threads", 1, "--json"]
        files = ("--tokenizer", "tokenizer.json", "--output-dir", f"model-{slots}", "--eval", "held-out")
        made = krill("qa", "train", "train", *files, *map(str, flags), **options)
        assert made.code == 0, made.err
        exact[slots] = made.result["evaluation"]["exact"]
    # One in eight is chance.
    assert exact[2] > 90
    assert exact[0] < 30
    told = ("--predictions", "predictions.json", "--json")
    scored = krill("qa", "evaluate", "model-2", "held-out", *told, cwd=tmp_path, env=faster)
    assert scored.code == 0, scored.err
    assert (scored.result["exact"], scored.result["HasAns_total"]) == (exact[2], 128)
    predicted = json.loads((tmp_path / "predictions.json").read_text())
    assert set(predicted) == {str(number) for number in range(128)}
    assert set(predicted.values()) <= {*CAPITALS.values(), ""}


def test_a_finished_training_says_so_and_another_setting_is_refused_by_name(train, krill, home):
    made = train("--output-dir", "model", "--eval", "features", *TINY)
    assert "exact" in made.out
    assert sorted(path.name for path in (home / "model").iterdir()) == [
        "checkpoints",
        "config.json",
        "krill-run.json",
        "metrics.jsonl",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    lines = [json.loads(line) for line in (home / "model" / "metrics.jsonl").read_text().splitlines()]
    assert [(line["step"], line["kind"]) for line in lines] == [(2, "train"), (2, "validation")]
    assert lines[0]["documents"] == 8
    assert {"loss", "exact", "f1", "HasAns_exact", "best_f1_thresh"} <= set(lines[1])
    again = train("--output-dir", "model", "--eval", "features", *TINY)
    assert "nothing to do: model is finished" in again.out
    refused = train("--output-dir", "model", *TINY, "--bptt", 2, code=2)
    assert "the output `model` was made differently: reader.bptt: `null` -> `2`" in refused.err
    checkpoint = krill("qa", "evaluate", "model", "features", "--checkpoint", "best", "--json", cwd=home)
    assert (checkpoint.code, checkpoint.result["step"], checkpoint.result["documents"]) == (0, 2, 10)
    assert checkpoint.result["exact"] == lines[1]["exact"]
    other = krill("qa", "evaluate", "model", "features", "--checkpoint", "7", cwd=home)
    assert other.code == 3
    assert "there is no intact checkpoint `7` of a reader in `model`" in other.err


@pytest.mark.parametrize(
    ("flags", "fact"),
    [
        (("--memory-tokens", 5), "`memory_tokens` is `5`, and the features have 2 memory tokens to read"),
        (("--heads", 3), "a width of `16` can't be split over `3` heads of an even size"),
        (("--max-segments", 0), "`max_segments` is `0`"),
        (("--segment-selection", "last"), "--segment-selection"),
    ],
)
def test_what_can_not_be_trained_is_refused_before_anything_is_begun(train, home, flags, fact):
    refused = train("--output-dir", "none", *TINY, *flags, code=2)
    assert fact in refused.err
    assert "hint: " in refused.err
    assert not (home / "none").exists()


def test_a_budget_that_is_too_small_says_what_would_do(fresh_krill, home):
    """First what any model takes, then what this one does; nothing is begun before."""
    command = ("qa", "train", "features", "--tokenizer", "tokenizer.json", "--output-dir", "hinted")
    assert_hints_do(
        lambda memory: fresh_krill(*command, *TINY, "--memory", memory, cwd=home), "330MB", home / "hinted"
    )


def test_features_that_do_not_belong_are_refused(train, krill, home):
    assert "error: `nowhere` is not a folder" in train("--output-dir", "none", features="nowhere", code=3).err
    write_tokenizer(home / "other.json", memory_tokens=1)
    refused = train("--output-dir", "none", tokenizer="other.json", code=3)
    assert (
        "the features `features` were made by another tokenizer than the tokenizer `other.json`"
        in refused.err
    )
    assert "hint: give the tokenizer.json that `krill qa prepare` was given" in refused.err
    assert "there is no model folder at `none`" in krill("qa", "evaluate", "none", "features", cwd=home).err


def test_features_of_the_models_own_tokenizer_are_scored_unless_they_are_longer(train, krill, home):
    train("--output-dir", "short", *TINY)
    for name, length in (("shorter", LENGTH - 8), ("longer", LENGTH + 8)):
        files = ("--tokenizer", "short/tokenizer.json", "--output", name)
        size = ("--max-seq-length", str(length), "--doc-stride", "0")
        assert krill("qa", "prepare", "features.jsonl", *files, *size, cwd=home).code == 0
    scored = krill("qa", "evaluate", "short", "shorter", "--json", cwd=home)
    assert (scored.code, scored.result["documents"]) == (0, 10), scored.err
    refused = krill("qa", "evaluate", "short", "longer", cwd=home)
    assert refused.code == 3
    assert f"the features `longer` have {LENGTH + 8} tokens, the model `short` was trained on" in refused.err
    assert f"hint: prepare them with --max-seq-length {LENGTH}" in refused.err
