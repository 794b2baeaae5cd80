"""8-bit Adam: codes that keep values on average, a small state, and the loss of the 32-bit one."""

from __future__ import annotations

import argparse
import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from krill.errors import ConfigError
from krill.model.sizing import find_shape
from krill.training.codes8bit import (
    BLOCK,
    DEVIATION,
    MEAN,
    Coded,
    decode_deviation,
    decode_mean,
    encode_deviation,
    encode_mean,
    random_bits,
)
from krill.training.language_step import LanguageModelStep
from krill.training.optimizer8bit import scale_by_adam8bit
from krill.training.optimizers import make_optimizer
from krill.training.step import state_shapes

pytestmark = pytest.mark.jax


def reference_values(code):
    """Every value that a code stands for, from its definition: a float of a few bits, less the lift."""
    values = []
    for number in range(code.largest + 1):
        exponent, mantissa = divmod(number, 2**code.mantissa_bits)
        lifted = 2.0 ** (exponent - 2**code.exponent_bits) * (1 + mantissa / 2**code.mantissa_bits)
        values.append((lifted - code.lift) / code.stretch)
    return np.array(values)


def test_codes_mean_what_their_definition_says():
    for code, decode in ((MEAN, decode_mean), (DEVIATION, decode_deviation)):
        expected = reference_values(code)
        codes = np.resize(np.arange(code.largest + 1, dtype=np.uint8), (1, BLOCK))
        found = decode(Coded(jnp.asarray(codes), jnp.asarray([3.0])))
        np.testing.assert_allclose(found[0, : code.largest + 1], 3 * expected, rtol=1e-5, atol=1e-7)
        assert expected[0] == 0
        assert expected[-1] == pytest.approx(1)


def blocks(seed=0, rows=8):
    """Values over many sizes, as moments are, and a block of zeros."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(rows, BLOCK)) * 10 ** rng.uniform(-4, 0, (rows, BLOCK))
    values[0] = 0
    return jnp.asarray(values, jnp.float32)


@functools.cache
def rounded_often(kind):
    """The values, and what 400 roundings gave."""
    values = blocks()
    values, encode, decode = (
        (values, encode_mean, decode_mean)
        if kind == "mean"
        else (jnp.abs(values), encode_deviation, decode_deviation)
    )

    @jax.jit
    def roundings():
        def once(step):
            return decode(encode(values, random_bits(jnp.arange(values.shape[0]), step, 1)))

        return jax.lax.map(once, jnp.arange(400))

    return np.asarray(values), np.asarray(roundings())


@pytest.mark.parametrize(("kind", "code"), [("mean", MEAN), ("deviation", DEVIATION)])
def test_a_value_becomes_one_of_its_two_neighbours_and_on_average_itself(kind, code):
    values, found = rounded_often(kind)
    grid = reference_values(code)
    largest = np.abs(values).max(axis=1, keepdims=True)
    shares = np.abs(values) / np.where(largest > 0, largest, 1)
    above = np.searchsorted(grid, np.minimum(shares * (1 - 1e-6), 1), side="left")
    low, high = grid[np.maximum(above - 1, 0)] * largest, grid[above] * largest
    size = np.abs(found)
    assert (size >= low * (1 - 1e-5) - 1e-9).all()
    assert (size <= high * (1 + 1e-5) + 1e-9).all()
    assert (np.sign(found) * np.sign(values) >= 0).all()
    if kind == "deviation":
        assert (found[:, values > 0] > 0).all()
    clear = shares > 2 * grid[1]
    error = (found.mean(axis=0) - values)[clear] / (high - low)[clear]
    assert np.abs(error).max() < 0.15  # six deviations of the mean of 400
    assert abs(error.mean()) < 0.01


def test_the_state_takes_two_bytes_a_weight_outside_small_tensors():
    weights = {
        "embedding": jnp.zeros((64, 128)),
        "matrix": jnp.zeros((100, 333)),
        "small": jnp.zeros((40, 100)),
        "small_embedding": jnp.zeros((60, 64)),
    }
    state = scale_by_adam8bit().init(weights)
    assert state.mean["small"].dtype == state.deviation["small_embedding"].dtype == jnp.float32
    for name in ("embedding", "matrix"):
        held = sum(leaf.nbytes for part in (state.mean, state.deviation) for leaf in part[name])
        assert held / weights[name].size < 2.1
    assert state.mean["embedding"].scales.shape == (1, 64)


def test_the_seeds_own_model_takes_a_quarter_of_the_state():
    shape = find_shape(1_000_000, 10_000)
    plain, coded = (
        sum(
            leaf.size * leaf.dtype.itemsize
            for leaf in jax.tree.leaves(
                state_shapes(LanguageModelStep(shape, make_optimizer(name, lambda step: 0.1), 1, 1)).optimizer
            )
        )
        for name in ("adamw", "adamw8bit")
    )
    assert plain > 7_900_000
    assert coded < 0.265 * plain


def test_a_rare_tokens_numbers_are_not_rounded_by_the_size_of_a_frequent_ones():
    rng = np.random.default_rng(4)
    values = rng.uniform(0.5, 2, (128, 48)) * rng.choice([-1, 1], (128, 48))
    gradient = {"embedding": jnp.asarray(values * 10.0 ** -rng.integers(0, 5, (128, 1)), jnp.float32)}
    adam = scale_by_adam8bit()
    update = jax.jit(adam.update)
    first, state = update(gradient, adam.init(gradient))
    np.testing.assert_allclose(np.abs(first["embedding"]), 1, rtol=1e-3)
    mean = np.asarray(decode_mean(Coded(*(part[0] for part in state.mean["embedding"]))))
    largest = np.abs(0.1 * np.asarray(gradient["embedding"])).max(axis=1, keepdims=True)
    # A code's distance is a sixteenth of the value, or near zero a hundredth of the row's largest one.
    np.testing.assert_array_less(np.abs(mean - 0.1 * np.asarray(gradient["embedding"])) / largest, 0.07)
    second, _ = update(gradient, state)
    assert np.median(np.abs(np.abs(second["embedding"]) - 1)) < 0.05


def test_tiles_of_any_size_give_the_same_to_float_tolerance():
    weights = {"matrix": jnp.zeros((9, 999))}
    gradient = {"matrix": jnp.asarray(np.random.default_rng(1).normal(size=(9, 999)), jnp.float32)}
    updates, codes = [], []
    for tile in (5, 1024):
        adam = scale_by_adam8bit(tile_blocks=tile)
        state = adam.init(weights)
        update = jax.jit(adam.update)
        for _ in range(2):
            found, state = update(gradient, state)
        updates.append(np.asarray(found["matrix"]))
        codes.append(np.asarray(state.mean["matrix"].codes).astype(int))
    # A last bit may tip a rounding to the neighbouring code, rarely.
    far = np.abs(updates[0] - updates[1]) > 1e-5
    assert far.mean() < 1e-3
    assert (codes[0] != codes[1]).mean() < 1e-3
    assert np.abs(codes[0] - codes[1]).max() <= 1


def test_the_first_update_is_that_of_adam():
    gradient = {"matrix": jnp.asarray(np.random.default_rng(2).normal(size=(64, 96)), jnp.float32)}
    ours, plain = scale_by_adam8bit(), optax.scale_by_adam(b2=0.95)
    found, _ = jax.jit(ours.update)(gradient, ours.init(gradient))
    expected, _ = plain.update(gradient, plain.init(gradient))
    np.testing.assert_allclose(found["matrix"], expected["matrix"], rtol=1e-4)


def test_a_small_network_learns_as_well_as_with_32_bits():
    """Next-byte prediction on real text with a window of 8 bytes, 300 steps of each optimizer."""
    text = np.frombuffer(inspect.getsource(argparse).encode(), np.uint8) % 128
    windows = jnp.asarray(np.lib.stride_tricks.sliding_window_view(text, 9)[::5], jnp.int32)

    def loss(weights, rows):
        states = weights["embedding"][rows[:, :8]].reshape(rows.shape[0], -1)
        states = jnp.tanh(states @ weights["first"])
        scores = jax.nn.log_softmax(states @ weights["second"])
        return -jnp.take_along_axis(scores, rows[:, 8:], axis=-1).mean()

    def train(name):
        optimizer = make_optimizer(name, lambda step: 3e-3, weight_decay=0.01)
        keys = jax.random.split(jax.random.key(0), 3)
        sizes = {"embedding": (128, 40), "first": (320, 96), "second": (96, 128)}
        weights = {
            name: 0.1 * jax.random.normal(key, size)
            for key, (name, size) in zip(keys, sizes.items(), strict=True)
        }

        def step(carried, number):
            weights, state = carried
            rows = windows[jax.random.randint(jax.random.key(number), (64,), 0, windows.shape[0])]
            value, gradient = jax.value_and_grad(loss)(weights, rows)
            updates, state = optimizer.update(gradient, state, weights)
            return (optax.apply_updates(weights, updates), state), value

        start = weights, optimizer.init(weights)
        (weights, _), values = jax.jit(lambda start: jax.lax.scan(step, start, jnp.arange(300)))(start)
        return float(values[0]), float(jax.jit(loss)(weights, windows))

    (begun, plain), (_, coded) = train("adamw"), train("adamw8bit")
    assert plain < 0.6 * begun
    assert coded == pytest.approx(plain, rel=0.005)


def test_norms_do_not_decay_and_matrices_do():
    weights = {"attention_norm": jnp.ones((2, 8)), "query": jnp.ones((2, 8, 8)), "final_norm": jnp.ones(8)}
    optimizer = make_optimizer("adamw", lambda step: 0.5, weight_decay=0.1)
    nothing = jax.tree.map(jnp.zeros_like, weights)
    updates, _ = jax.jit(lambda state: optimizer.update(nothing, state, weights))(optimizer.init(weights))
    assert float(jnp.abs(updates["attention_norm"]).max()) == float(jnp.abs(updates["final_norm"]).max()) == 0
    np.testing.assert_allclose(updates["query"], -0.05, rtol=1e-6)


def test_an_unknown_optimizer_is_refused():
    with pytest.raises(ConfigError, match="there is no optimizer `sgd`"):
        make_optimizer("sgd", lambda step: 0.1)
