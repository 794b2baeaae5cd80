"""A whole training: what it leaves behind, what a second one does, and what is refused before it begins."""

from __future__ import annotations

import json
import math

import optax
import pytest

import krill
from krill.config import TrainConfig, load_config
from krill.errors import BudgetError, ConfigError, MissingExtra
from krill.model.outline import model_shape
from krill.model.sizing import PRESETS, count_parameters, preset_shape
from krill.training.language_step import LanguageModelStep, MemoryPlan
from krill.training.language_task import count_steps, make_schedule
from krill.training.metrics import check_loggers
from krill.training.session import no_longer_fits
from tiny_trainings import prepare, tiny_config

pytestmark = pytest.mark.jax

SETTINGS = {"max_steps": 6, "save_every": 4, "log_every": 2, "evaluate_rows": 5, "mixed_precision": "bf16"}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("job")
    prepare(folder)
    return folder


@pytest.fixture(scope="module")
def trained(home):
    return krill.train(tiny_config(home, **SETTINGS), memory="1GB", threads=1)


def test_the_summary_has_every_figure_and_so_has_the_manifest(home, trained):
    assert trained.status == "done"
    facts = trained.to_json()
    manifest = json.loads((home / "model" / "krill-run.json").read_bytes())
    assert facts.items() <= {**manifest, "status": "done", "output": str(home / "model")}.items()
    assert (manifest["command"], manifest["steps"], manifest["tokens"]) == ("train", 6, 6 * 2 * 32)
    assert manifest["tokens_per_second"] > 0
    assert 5.0 < manifest["final_loss"] < 5.7
    assert manifest["bits_per_byte"] == manifest["validation"]["bits_per_byte"]
    assert manifest["bits_per_byte_on"] == "validation"
    assert manifest["parameters"] == sum(manifest["parameters_by_part"].values())
    assert manifest["plan"]["rows"] == manifest["plan"]["microbatch"] == 2
    budget = manifest["budget"]
    assert 0 < budget["predicted_peak"] <= budget["limit"] == 10**9
    assert 0 < budget["measured_peak"] <= budget["limit"]
    assert {"the step", "data", "JAX"} <= {share["name"] for share in budget["shares"]}


def test_the_folder_has_model_metrics_and_checkpoints_and_nothing_half_written(home, trained):
    model = home / "model"
    names = {path.name for path in model.iterdir()}
    assert names == {
        "checkpoints",
        "config.json",
        "krill-run.json",
        "metrics.jsonl",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    assert sorted(path.name for path in (model / "checkpoints").iterdir()) == ["00000004", "00000006"]
    lines = [json.loads(line) for line in (model / "metrics.jsonl").read_text().splitlines()]
    assert [(line["step"], line["kind"]) for line in lines] == [
        (2, "train"),
        (4, "train"),
        (4, "validation"),
        (6, "train"),
        (6, "validation"),
    ]


def test_validation_counts_its_rows_and_their_bytes(home, trained):
    # Five rows of the byte tokenizer: a token predicts one byte, but for the ends of documents.
    found = trained.facts["validation"]
    assert found["tokens"] - 5 <= found["bytes"] <= found["tokens"] <= 5 * 32
    bits = found["loss"] * found["tokens"] / math.log(2)
    assert found["bits_per_byte"] * found["bytes"] == pytest.approx(bits)


def test_the_same_again_is_finished_whatever_is_logged_and_with_what_memory(home, trained):
    before = (home / "model" / "krill-run.json").stat()
    changed = {**SETTINGS, "log_every": 5, "save_every": 9, "keep_checkpoints": 4, "evaluate_rows": 1}
    again = krill.train(tiny_config(home, **changed), memory="2GB", threads=2)
    assert again.status == "finished"
    assert again.facts["final_loss"] == trained.facts["final_loss"]
    assert (home / "model" / "krill-run.json").stat().st_mtime_ns == before.st_mtime_ns


def test_another_config_is_refused_and_its_keys_are_named(home, trained):
    changed = {**SETTINGS, "max_steps": 7, "optimizer": "adamw8bit"}
    with pytest.raises(ConfigError, match="was made differently") as error:
        krill.train({**tiny_config(home, **changed), "seed": 1}, memory="1GB")
    for key in ("train.max_steps: `6` -> `7`", "train.optimizer", "seed: `42` -> `1`"):
        assert key in error.value.message
    assert "--overwrite" in error.value.hint


def test_a_budget_that_compiling_alone_exceeds_is_refused_at_once(home, tmp_path):
    config = tiny_config(home, output_dir=str(tmp_path / "other"))
    with pytest.raises(BudgetError, match="compiling a step takes"):
        krill.train(config, memory="100MB")
    assert not (tmp_path / "other").exists()


def test_resuming_can_be_demanded(home, tmp_path):
    config = tiny_config(home, output_dir=str(tmp_path / "other"), resume=True)
    with pytest.raises(ConfigError, match=r"`train\.resume` is `true`, and there is no checkpoint"):
        krill.train(config, memory="1GB")


def test_what_would_fit_is_told():
    step = LanguageModelStep(preset_shape("mini", 1000), optax.sgd(1.0), 8, 32, microbatch=4)
    error = step.too_small(15_000_000, 10_500_000)
    assert error.hint.startswith("give 5MB more --memory; or a smaller --target-params")
    assert "; or leave `train.gradient_accumulation_steps` out" in error.hint
    plan = MemoryPlan(8, 32, 4, 32, False, 70_000_000)
    error = no_longer_fits(plan, 50_500_000)
    assert "70.0 MB" in error.message
    assert "give 20MB more --memory" in error.hint


def settings_of(**train) -> TrainConfig:
    return load_config({"train": train}, environ={}).train


def test_the_shape_comes_from_a_target_a_preset_or_sizes():
    assert count_parameters(model_shape(settings_of(target_params=300_000), 1000)) == pytest.approx(
        300_000, rel=0.02
    )
    assert model_shape(settings_of(preset="mini"), 500) == preset_shape("mini", 500)
    given = model_shape(settings_of(width=64, layers=5, heads=4), 100)
    assert (given.width, given.layers, given.heads) == (64, 5, 4)
    assert given.hidden == pytest.approx(64 * 8 / 3, rel=0.05)
    for preset in PRESETS:
        assert settings_of(preset=preset).preset == preset
    with pytest.raises(ConfigError, match="which has its own `width`"):
        settings_of(preset="tiny", width=64)


def test_steps_come_from_steps_tokens_or_epochs():
    def never():
        raise AssertionError("an epoch was read through for nothing")

    assert count_steps(settings_of(max_steps=9, epochs=3), 100, never) == 9
    assert count_steps(settings_of(max_tokens=101), 100, never) == 2
    assert count_steps(settings_of(max_tokens=101, max_steps=1), 100, never) == 1
    assert count_steps(settings_of(epochs=3), 100, lambda: 7) == 21


def test_the_schedules_warm_up_and_fall():
    cosine = make_schedule(settings_of(learning_rate=1.0, warmup_steps=4), 100)
    assert [round(float(cosine(step)), 3) for step in (0, 4, 100)] == [0.2, 1.0, 0.1]
    wsd = make_schedule(settings_of(learning_rate=1.0, schedule="wsd", warmup_steps=0, decay_steps=10), 100)
    assert [round(float(wsd(step)), 3) for step in (0, 90, 95)] == [1.0, 1.0, 0.5]
    with pytest.raises(ConfigError, match="set it to `wsd`"):
        settings_of(decay_steps=10)


@pytest.mark.parametrize(("name", "library"), [("tensorboard", "tensorboardX"), ("wandb", "wandb")])
def test_a_logger_that_is_not_installed_is_told_before_anything_is_read(name, library, monkeypatch):
    monkeypatch.setattr("krill.training.metrics.find_spec", lambda found: None if found == library else 1)
    with pytest.raises(MissingExtra) as error:
        check_loggers([name])
    assert error.value.hint == f"pip install 'krill-lm[{name}]'"
    check_loggers([])
