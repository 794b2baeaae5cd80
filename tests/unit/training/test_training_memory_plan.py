"""The step and its plan: cut up otherwise the step does the same, and the plan keeps to its budget."""

from __future__ import annotations

import functools
import json
from dataclasses import asdict, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krill.budget import RESERVE
from krill.errors import BudgetError, ConfigError
from krill.model.sizing import ModelShape, preset_shape
from krill.training import compiler, memory_plan
from krill.training.compiler import FAST, low_memory_compiler
from krill.training.language_step import LanguageModelStep, MemoryPlan
from krill.training.memory_plan import CompiledPlan, compile_plan, plan_step, predicted_peak, step_share
from krill.training.optimizers import make_optimizer
from krill.training.precision import Precision
from krill.training.step import first_state

pytestmark = pytest.mark.jax

SHAPE = ModelShape(vocab_size=512, width=32, layers=2, heads=2, kv_heads=1, hidden=64)
ROWS, LENGTH = 4, 64
ADAM = make_optimizer("adamw", lambda step: 1e-2)
STEP = LanguageModelStep(SHAPE, ADAM, ROWS, LENGTH)


@functools.cache
def compiled(microbatch, chunk, remat=False, precision=Precision.FLOAT32, compiler=FAST):
    plan = MemoryPlan(ROWS, LENGTH, microbatch, chunk, remat)
    return compile_plan(replace(STEP, precision=precision), plan, compiler)


def batch():
    rng = np.random.default_rng(0)
    ids = rng.integers(0, SHAPE.vocab_size, (ROWS, LENGTH + 1)).astype(np.int32)
    labels = ids[:, 1:].copy()
    labels[rng.random(labels.shape) < np.linspace(0, 0.9, ROWS)[:, None]] = -100
    segments = np.repeat([[1, 2]], LENGTH // 2, axis=1).astype(np.int32) * np.ones((ROWS, 1), np.int32)
    positions = np.tile(np.arange(LENGTH // 2, dtype=np.int32), (ROWS, 2))
    return {"input_ids": ids[:, :-1], "labels": labels, "segment_ids": segments, "position_ids": positions}


@functools.cache
def drawn(precision):
    return first_state(replace(STEP, precision=precision), 0)


def fresh(precision):
    """A first state of one's own: a step takes over what it is given."""
    return jax.tree.map(jnp.array, drawn(precision))


def run(planned, precision=Precision.FLOAT32, steps=3):
    state = fresh(precision)
    losses = []
    for _ in range(steps):
        state, metrics = planned.compiled(state, batch())
        losses.append(float(metrics.loss))
    return state, metrics, losses


def test_microbatches_chunks_and_remat_change_the_memory_of_a_step_and_not_its_result():
    whole, cut_up = compiled(4, 256), compiled(1, 32, remat=True)
    _, metrics, losses = run(whole)
    _, other_metrics, other_losses = run(cut_up)
    assert cut_up.plan.step_bytes < whole.plan.step_bytes
    assert losses[0] == pytest.approx(np.log(SHAPE.vocab_size), rel=0.01)
    assert losses[2] < losses[0]
    np.testing.assert_allclose(other_losses, losses, rtol=1e-4)
    assert float(other_metrics.grad_norm) == pytest.approx(float(metrics.grad_norm), rel=1e-3)
    assert int(metrics.tokens) == int(other_metrics.tokens) == int((batch()["labels"] != -100).sum())


def test_a_step_writes_its_next_state_where_the_last_one_was():
    found = compiled(4, 256).compiled.memory_analysis()
    state = jax.eval_shape(lambda: first_state(STEP, 0))
    held = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))
    assert found.alias_size_in_bytes >= held


def test_float16_skips_a_step_that_overflows_and_halves_its_scale():
    planned = compiled(4, 256, precision=Precision.FLOAT16)
    state = fresh(Precision.FLOAT16)
    before = np.asarray(state.model.embedding).copy()
    state = state._replace(scale=state.scale._replace(scale=jnp.asarray(2.0**24)))
    state, metrics = planned.compiled(state, batch())
    assert int(metrics.skipped) == 1
    assert float(state.scale.scale) == 2.0**23
    np.testing.assert_array_equal(state.model.embedding, before)
    assert int(state.optimizer[1].count) == 0

    assert planned.plan.step_bytes < 0.9 * compiled(4, 256).plan.step_bytes
    state, metrics, losses = run(planned, Precision.FLOAT16)
    assert int(metrics.skipped) == 0
    assert {leaf.dtype for leaf in jax.tree.leaves(state.model)} == {jnp.dtype("float32")}
    np.testing.assert_allclose(losses, run(compiled(4, 256))[2], rtol=5e-3)


def test_bfloat16_keeps_float32_weights_and_the_loss_within_half_a_percent():
    planned = compiled(4, 256, precision=Precision.BFLOAT16)
    state, _, losses = run(planned, Precision.BFLOAT16)
    assert {leaf.dtype for leaf in jax.tree.leaves(state.model)} == {jnp.dtype("float32")}
    assert float(state.scale.scale) == 1
    np.testing.assert_allclose(losses, run(compiled(4, 256))[2], rtol=5e-3)


@pytest.fixture
def uncompiled(monkeypatch):
    """Plans whose steps are not compiled but taken to hold what the estimate says; lists what was tried."""
    tried = []

    def pretend(spec, plan, compiler, **_):
        tried.append(plan)
        return CompiledPlan(plan.with_memory(spec.estimate(plan), compiler), None)

    monkeypatch.setattr(memory_plan, "compile_plan", pretend)
    return tried


MINI = LanguageModelStep(preset_shape("mini", 10_000), ADAM, rows=32, length=512)


def plan_for(budget, **given):
    return plan_step(replace(MINI, **given), budget=budget).plan


def test_less_memory_means_smaller_microbatches_then_remat_and_always_the_budget_is_kept(uncompiled):
    budgets = [100_000 * 10**6, 1000 * 10**6, 500 * 10**6, 350 * 10**6, 250 * 10**6]
    plans = [plan_for(budget) for budget in budgets]
    assert all(plan.step_bytes <= budget for plan, budget in zip(plans, budgets, strict=True))
    assert (plans[0].microbatch, plans[0].remat, plans[0].loss_chunk) == (32, False, 128)
    assert [plan.remat for plan in plans] == sorted(plan.remat for plan in plans)
    assert plans[-1].remat
    assert [plan.step_bytes for plan in plans] == sorted((plan.step_bytes for plan in plans), reverse=True)
    assert plans[1] == plan_for(budgets[1])


def test_what_can_not_fit_is_not_compiled(uncompiled):
    plan_for(350 * 10**6)
    assert len(uncompiled) < 5


def test_a_given_microbatch_is_kept(uncompiled):
    plan = plan_for(10**9, microbatch=4)
    assert (plan.microbatch, plan.accumulation_steps) == (4, 8)


def test_a_plan_comes_back_from_a_checkpoint_as_it_was(uncompiled):
    plan = plan_for(500 * 10**6)
    assert MINI.stored_plan(json.loads(json.dumps(asdict(plan)))) == plan


def test_a_budget_that_nothing_fits_is_refused_with_what_would(uncompiled):
    with pytest.raises(BudgetError, match="a step over `32` rows of `512` tokens needs at least") as caught:
        plan_for(10**6)
    least = MINI.estimate(uncompiled[-1])
    assert f"give {-(-(least - 10**6) // 10**6)}MB more --memory" in (caught.value.hint or "")


def test_a_microbatch_that_does_not_divide_the_batch_is_refused():
    with pytest.raises(ConfigError, match="a batch of `32` rows can't be cut into microbatches of `3`"):
        plan_for(10**9, microbatch=3)


def test_the_share_of_a_step_is_what_makes_its_peak_the_budget_but_for_what_is_left_free():
    limit, resident = 700 * 10**6, 180 * 10**6
    for used in (FAST, low_memory_compiler()):
        plan = MemoryPlan(4, 64, 4, 64, False, step_share(limit, resident, used), lean=used is not FAST)
        assert predicted_peak(resident, plan) == limit - RESERVE
        assert predicted_peak(resident, replace(plan, step_bytes=10**6)) == resident + used.step.compiling
    with pytest.raises(BudgetError, match="compiling a step takes 135 MB beside the program's 180 MB"):
        step_share(300 * 10**6, resident, low_memory_compiler())


def test_the_compiler_that_takes_more_is_for_budgets_with_room_for_it_and_for_the_step():
    roomy = FAST.step.settled + round(1.5 * MINI.estimate(MemoryPlan(32, 512, 32, 128)))
    assert MINI.pick_compiler(roomy) is FAST
    assert MINI.pick_compiler(roomy - 1) is low_memory_compiler() is not FAST
    small = replace(MINI, rows=1, length=8)
    assert small.pick_compiler(FAST.step.compiling - 1) is low_memory_compiler()


def test_both_compilers_make_the_same_step(monkeypatch):
    other = compiled(4, 256, compiler=low_memory_compiler())
    compile_with = jax.stages.Lowered.compile

    def as_installed(lowered, compiler_options=None):
        """The tests' settings of XLA ask for the older generator; users' do not."""
        return compile_with(lowered, compiler_options or {"xla_cpu_use_fusion_emitters": True})

    monkeypatch.setattr(jax.stages.Lowered, "compile", as_installed)
    fast = compiled.__wrapped__(4, 256)
    assert (fast.plan.compiler, other.plan.compiler) == (FAST, low_memory_compiler())
    np.testing.assert_allclose(run(other)[2], run(fast)[2], rtol=1e-5)


# The tests' settings of XLA give both the older generator: what differs is how it is asked for.
@pytest.mark.parametrize(
    "pick",
    [
        pytest.param(lambda: FAST, id="newer", marks=pytest.mark.soak),
        pytest.param(low_memory_compiler, id="older"),
    ],
)
def test_a_step_that_is_too_large_is_only_tried_and_its_plan_is_that_of_the_step_itself(pick, monkeypatch):
    by = pick()
    whole = compiled(4, 256, compiler=by).plan
    to_run = []
    compile_to_run = compiler.Compiler.compile

    def counted(self, lowered, **how):
        to_run.append(self)
        return compile_to_run(self, lowered, **how)

    monkeypatch.setattr(compiler.Compiler, "compile", counted)
    tried = compile_plan(STEP, MemoryPlan(ROWS, LENGTH, 4, 256), by, trial_budget=whole.step_bytes - 1)
    assert (tried.plan, to_run) == (whole, [])
    cut = plan_step(STEP, budget=whole.step_bytes - 1, compiler=by)
    assert cut.plan.step_bytes < whole.step_bytes
    assert to_run == [by]
    assert run(cut)[2] == pytest.approx(run(compiled(4, 256, compiler=by))[2], rel=1e-4)


def test_a_jax_without_the_other_code_generator_has_one_compiler(monkeypatch):
    monkeypatch.setattr(compiler, "_OLDER_GENERATOR", {"xla_cpu_no_such_option": False})
    assert low_memory_compiler.__wrapped__() is FAST
