"""Four devices: the losses of one, and under fsdp a quarter of the state on each."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.jax

# In a process of its own: how many devices the CPU plays is settled when JAX starts.
ON_FOUR_DEVICES = """
import json

import jax
import numpy as np

from krill.errors import ConfigError
from krill.model.sizing import ModelShape
from krill.training.memory_plan import compile_plan, plan_step
from krill.training.codes8bit import Coded
from krill.training.mesh import AXIS, DevicePart, _spec, along, make_devices
from krill.training.optimizer8bit import scale_by_adam8bit
from krill.training.optimizers import make_optimizer
from krill.training.language_step import LanguageModelStep, MemoryPlan
from krill.training.step import first_state, state_shapes

# Codes for the feed-forward part alone: each tensor with codes is as much to compile as the model.
SHAPE = ModelShape(vocab_size=96, width=32, layers=1, heads=2, kv_heads=2, hidden=128)
ADAM = make_optimizer("adamw8bit", lambda step: 1e-2)
ROWS, LENGTH = 8, 16
rng = np.random.default_rng(0)
ids = rng.integers(0, SHAPE.vocab_size, (ROWS, LENGTH + 1)).astype(np.int32)
labels = ids[:, 1:].copy()
labels[rng.random(labels.shape) < np.linspace(0, 0.9, ROWS)[:, None]] = -100
batch = {
    "input_ids": ids[:, :-1],
    "labels": labels,
    "segment_ids": np.ones((ROWS, LENGTH), np.int32),
    "position_ids": np.tile(np.arange(LENGTH, dtype=np.int32), (ROWS, 1)),
}


def held(tree):
    parts = [part for leaf in jax.tree.leaves(tree) for part in leaf.addressable_shards]
    return sum(part.data.nbytes for part in parts if part.device == jax.devices()[0])


def outcome(kind, plan):
    placement = make_devices(kind, ROWS)
    spec = LanguageModelStep(SHAPE, ADAM, ROWS, LENGTH, placement=placement)
    planned = compile_plan(spec, plan)
    state = first_state(spec, 0)
    shapes = state_shapes(spec)
    placed = all(
        leaf.sharding.is_equivalent_to(shape.sharding, leaf.ndim)
        for leaf, shape in zip(jax.tree.leaves(state), jax.tree.leaves(shapes), strict=True)
        if placement is not None
    )
    coded = state.optimizer[1].mean.layers.gate
    found = {"placed": placed, "state": held(state), "codes": held(coded)}
    metrics = []
    for _ in range(4):
        state, taken = planned.compiled(state, batch)
        metrics.append([float(taken.loss), float(taken.grad_norm), int(taken.tokens)])
    codes = np.asarray(state.optimizer[1].mean.layers.gate.codes).astype(int)
    return found | {"metrics": metrics, "codes_after": codes.reshape(-1).tolist()}


def embedding_codes(vocabulary, parts):
    # Three updates of an embedding, whole or cut over devices as fsdp does: by rows, or else by columns.
    adam = scale_by_adam8bit()
    numbers = np.random.default_rng(1).normal(size=(3, vocabulary, 64)).astype(np.float32)
    state = adam.init({"embedding": numbers[0]})
    placement = make_devices("fsdp", ROWS) if parts > 1 else None
    axis = 0 if placement is None else placement._axis((jax.tree_util.DictKey("embedding"),), numbers[0])

    def take(gradients, state):
        part = None if axis == 0 else DevicePart(jax.lax.axis_index(AXIS), parts, {"embedding": axis})
        for gradient in gradients:
            updates, state = adam.update({"embedding": gradient}, state, part=part)
        return updates["embedding"], state

    if axis:
        moment = {"embedding": Coded(*(_spec(axis, leaf, Coded(0, 0)) for leaf in state.mean["embedding"]))}
        specs = type(state)(along(None), moment, moment)
        sides = {"in_specs": (along(3 + axis), specs), "out_specs": (along(2 + axis), specs)}
        take = jax.shard_map(take, mesh=placement.mesh, check_vma=False, **sides)
    return axis, [np.asarray(leaf, float) for leaf in jax.tree.leaves(jax.jit(take)(numbers, state))]


def equal_embeddings(vocabulary):
    _, one = embedding_codes(vocabulary, 1)
    axis, four = embedding_codes(vocabulary, 4)
    return axis, [float((abs(a - b) > 1e-5 * abs(a)).mean()) for a, b in zip(one, four, strict=True)]


def refusal(act):
    try:
        act()
    except ConfigError as error:
        return str(error)


found = {
    "none": outcome("none", MemoryPlan(ROWS, LENGTH, 8, 64)),
    "data": outcome("data", MemoryPlan(ROWS, LENGTH, 8, 64)),
    "fsdp": outcome("fsdp", MemoryPlan(ROWS, LENGTH, 4, 16, remat=True)),
    "embedding": [equal_embeddings(vocabulary) for vocabulary in (100, 101)],
    "odd batch": refusal(lambda: make_devices("data", 6)),
    "odd microbatch": refusal(
        lambda: plan_step(
            LanguageModelStep(SHAPE, ADAM, 8, 16, microbatch=2, placement=make_devices("fsdp", 8)),
            budget=10**9,
        )
    ),
}
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found():
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    environment = {**os.environ, "XLA_FLAGS": flags}
    done = subprocess.run(
        [sys.executable, "-c", ON_FOUR_DEVICES], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("kind", ["data", "fsdp"])
def test_four_devices_give_the_losses_of_one(found, kind):
    one, four = found["none"]["metrics"], found[kind]["metrics"]
    for (loss, norm, tokens), (other_loss, other_norm, other_tokens) in zip(one, four, strict=True):
        assert other_loss == pytest.approx(loss, rel=1e-5)
        assert other_norm == pytest.approx(norm, rel=1e-3)
        assert other_tokens == tokens
    assert one[3][0] < one[0][0]


@pytest.mark.parametrize("kind", ["data", "fsdp"])
def test_8_bit_codes_are_rounded_on_four_devices_as_on_one(found, kind):
    pairs = list(zip(found["none"]["codes_after"], found[kind]["codes_after"], strict=True))
    # A last bit of a sum may tip a rounding, rarely; another chance for each value would tip most of them.
    assert sum(one != four for one, four in pairs) < 0.01 * len(pairs)


def test_an_embedding_in_8_bits_is_the_same_cut_by_rows_or_by_columns(found):
    (by_rows, rows_differ), (by_columns, columns_differ) = found["embedding"]
    assert (by_rows, by_columns) == (-2, -1)
    # A last bit of a division may tip a rounding, rarely.
    assert max(rows_differ + columns_differ) < 0.01


def test_under_fsdp_a_device_holds_its_quarter_of_the_state_and_of_the_codes(found):
    whole, copied, cut = (found[kind]["state"] for kind in ("none", "data", "fsdp"))
    assert copied == whole
    # Norms stay whole.
    assert cut < 0.3 * whole
    assert found["fsdp"]["codes"] == found["none"]["codes"] / 4
    assert found["data"]["placed"]
    assert found["fsdp"]["placed"]


def test_rows_that_can_not_be_spread_over_the_devices_are_refused(found):
    said, hint = found["odd batch"].splitlines()
    assert said == "a batch of `6` rows can't be spread over `4` devices"
    assert hint == "hint: give a batch size that is a multiple of 4"
    assert found["odd microbatch"].startswith("a microbatch of `2` rows can't be spread over `4` devices")
