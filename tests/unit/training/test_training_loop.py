"""The loop: every checkpoint leads to the same bits, and a loss that is no number ends it."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import asdict

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krill.config import load_config
from krill.errors import InputError, Interrupted
from krill.threads.progress import Silent
from krill.training import loop as loop_module
from krill.training.checkpoints import CheckpointStore
from krill.training.data import open_data
from krill.training.language_task import count_tokens, language_step, make_schedule
from krill.training.loop import Intervals, Loop, TrainProgress
from krill.training.memory_plan import plan_step
from krill.training.metrics import MetricsFile
from krill.training.step import first_state, state_shapes
from tiny_trainings import MEASURED, prepare, tiny_config

pytestmark = pytest.mark.jax

STEPS = 7
# Two in the middle of a line's steps, and one between a line and the end.
RESTORED = (1, 5, 6)


class Setting:
    """A compiled step over 8-bit state and three microbatches, and all that a loop is made of."""

    def __init__(self, folder):
        prepare(folder)
        train = {"optimizer": "adamw8bit", "gradient_accumulation_steps": 3, "layers": 2, "width": 32}
        self.config = load_config(tiny_config(folder, **train), environ={})
        data = self.data()
        self.schedule = make_schedule(self.config.train, STEPS)
        spec = language_step(self.config.train, self.schedule, data)
        assert spec.microbatch == 2
        self.shape = spec.shape
        self.planned = plan_step(spec, budget=10**9)
        self.like = state_shapes(spec)
        self.first = first_state(spec, 1)

    def data(self):
        return open_data(self.config, 10**9)

    def fresh(self):
        """A first state of one's own: a step takes over what it is given."""
        return jax.tree.map(jnp.array, self.first)


@pytest.fixture(scope="module")
def setting(tmp_path_factory):
    return Setting(tmp_path_factory.mktemp("loop"))


def make_loop(setting, folder, *, step=None, data=None, after=0, save_every=2, log_every=3, evaluate=None):
    store = CheckpointStore(folder / "checkpoints", keep=STEPS, note=print)
    metrics = MetricsFile(folder / "metrics.jsonl", after, note=print)
    data = data or setting.data()
    loop = Loop(
        step or setting.planned.compiled,
        data,
        store,
        metrics,
        Silent(),
        units=count_tokens(data),
        intervals=Intervals(STEPS, log_every, save_every, save_every),
        temporary=10**9,
        tight=True,
        schedule=setting.schedule,
        evaluate=evaluate,
        stored={"plan": asdict(setting.planned.plan)},
    )
    return loop, store


def lines(folder):
    read = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name not in MEASURED} for line in read]


def bits(state):
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(state)]


@pytest.fixture(scope="module")
def whole(setting, tmp_path_factory):
    """A run that was left alone, with a checkpoint after every step."""
    folder = tmp_path_factory.mktemp("whole")
    loop, store = make_loop(setting, folder, save_every=1)
    state, trained = loop.run(setting.fresh(), TrainProgress())
    assert store.steps() == list(range(1, STEPS + 1))
    return folder, bits(state), trained


def test_every_checkpoint_leads_to_the_same_bits_and_the_same_lines(setting, whole, tmp_path):
    folder, expected, _ = whole
    for step in RESTORED:
        again = tmp_path / str(step)
        again.mkdir()
        # As a run finds it that was killed later: lines that are newer than the checkpoint.
        (again / "metrics.jsonl").write_bytes((folder / "metrics.jsonl").read_bytes())
        source = CheckpointStore(folder / "checkpoints", keep=STEPS, note=print)
        restored = source.restore(setting.like, step)
        data = setting.data()
        data.load_state_dict(restored.extra["data"])
        trained = TrainProgress.from_json(restored.extra["place"])
        assert trained.step == step
        loop, _ = make_loop(setting, again, data=data, after=step, save_every=STEPS)
        state, _ = loop.run(restored.state, trained)
        assert bits(state) == expected, f"from step {step}"
        assert lines(again) == lines(folder), f"from step {step}"


def test_lines_come_at_their_steps_with_the_mean_of_the_steps_between(whole):
    folder, _, trained = whole
    written = lines(folder)
    assert [line["step"] for line in written] == [3, 6, 7]
    assert [line["tokens"] for line in written] == [step * 6 * 32 for step in (3, 6, 7)]
    assert written[0]["loss"] == pytest.approx(np.log(257), rel=0.1)
    assert written[2]["loss"] < written[0]["loss"]
    # One byte is one token here, but for the ends of documents, which are no text.
    assert written[0]["bits_per_byte"] == pytest.approx(written[0]["loss"] / np.log(2), rel=0.02)
    assert trained.last_line["loss"] == written[-1]["loss"]


def test_evaluations_are_written_and_the_best_checkpoint_is_known(setting, tmp_path):
    losses = iter([3.0, 2.0, 2.5, 4.0])

    def evaluate(model):
        assert model.shape == setting.shape
        return {"loss": next(losses), "bits_per_byte": 1.0}

    loop, store = make_loop(setting, tmp_path, evaluate=evaluate)
    _, trained = loop.run(setting.fresh(), TrainProgress())
    found = [(line["step"], line["loss"]) for line in lines(tmp_path) if line["kind"] == "validation"]
    assert found == [(2, 3.0), (4, 2.0), (6, 2.5), (7, 4.0)]
    assert (store.best(), store.latest()) == (4, 7)
    assert trained.evaluation == {"loss": 4.0, "bits_per_byte": 1.0}


def with_figures(setting, **figures):
    """The compiled step, with other figures from some step on: {"loss": (5, nan)}."""

    def step(state, batch):
        state, metrics = setting.planned.compiled(state, batch)
        number = int(state.step)
        changed = {name: jnp.asarray(value) for name, (first, value) in figures.items() if number >= first}
        return state, metrics._replace(**changed)

    return step


def test_a_loss_that_is_no_number_stops_with_its_step_and_keeps_the_checkpoint_before(setting, tmp_path):
    step = with_figures(setting, loss=(5, np.nan))
    loop, store = make_loop(setting, tmp_path, step=step)
    with pytest.raises(InputError, match="the loss is `nan` at step 5") as error:
        loop.run(setting.fresh(), TrainProgress())
    assert "the checkpoint of step 4 is kept" in error.value.hint
    assert store.steps() == [2, 4]


def test_a_step_that_float16_skips_is_no_divergence_unless_it_never_ends(setting, tmp_path, monkeypatch):
    step = with_figures(setting, loss=(5, np.inf), skipped=(5, 1))
    loop, store = make_loop(setting, tmp_path, step=step, save_every=STEPS)
    loop.run(setting.fresh(), TrainProgress())
    assert lines(tmp_path)[1]["skipped_steps"] == 2
    assert store.latest() == STEPS
    monkeypatch.setattr(loop_module, "MOST_SKIPPED", 1)
    loop, _ = make_loop(setting, tmp_path, step=step, save_every=STEPS)
    with pytest.raises(InputError, match="the last 2 steps up to step 6 overflowed in float16"):
        loop.run(setting.fresh(), TrainProgress())


def test_a_signal_finishes_the_step_saves_and_says_how_to_go_on(setting, tmp_path):
    def step(state, batch):
        state, metrics = setting.planned.compiled(state, batch)
        if int(state.step) == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return state, metrics

    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        loop, store = make_loop(setting, tmp_path, step=step, save_every=STEPS)
        with pytest.raises(Interrupted, match="interrupted after step 3: step 3 is saved") as error:
            loop.run(setting.fresh(), TrainProgress())
    finally:
        signal.signal(signal.SIGTERM, before)
    assert error.value.hint == "run the same command to continue"
    assert store.steps() == [3]
    assert signal.getsignal(signal.SIGTERM) is before
