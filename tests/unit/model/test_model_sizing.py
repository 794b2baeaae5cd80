"""Shapes that hit their target: over the whole range, well proportioned, the same every time."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from krill.errors import ConfigError
from krill.model.sizing import PRESETS, ModelShape, breakdown, count_parameters, find_shape, preset_shape
from properties import tried

pytestmark = pytest.mark.jax

targets = st.floats(math.log(100_000), math.log(1_000_000_000)).map(lambda power: int(math.exp(power)))
vocabularies = st.floats(math.log(256), math.log(131_072)).map(lambda power: int(math.exp(power)))


@tried(30)
@given(targets, vocabularies)
def test_a_target_is_hit_within_two_percent_wherever_the_embedding_leaves_room(target, vocabulary):
    least = count_parameters(ModelShape(vocabulary, 16, 1, 1, 1, 16))
    if target * 1.02 < least:
        with pytest.raises(ConfigError, match=f"the least possible is {least:,}"):
            find_shape(target, vocabulary)
        return
    shape = find_shape(target, vocabulary)
    assert abs(count_parameters(shape) - target) <= 0.02 * target
    assert shape.head_size in range(16, 129, 2)
    assert shape.width <= shape.hidden <= 8 * shape.width
    # Where the embedding takes most of it there is no choice of width; elsewhere proportions are kept.
    if vocabulary * shape.width < target / 2:
        assert 0.5 <= shape.layers / (2 + shape.width / 96) <= 2
        assert 1.6 <= shape.hidden / shape.width <= 4.3


@tried(20)
@given(targets, st.sampled_from([2, 4, 8]), st.sampled_from([1, 2]), st.integers(2, 12))
def test_what_is_given_is_kept(target, heads, kv_heads, layers):
    assume(target > 1_000_000)
    try:
        shape = find_shape(target, 1000, heads=heads, kv_heads=kv_heads, layers=layers)
    except ConfigError as error:
        assert "leave out one of" in (error.hint or "")
        return
    assert (shape.heads, shape.kv_heads, shape.layers) == (heads, kv_heads, layers)
    assert abs(count_parameters(shape) - target) <= 0.02 * target


def test_shapes_of_familiar_sizes():
    found = {target: find_shape(target, 32_000) for target in (10_000_000, 124_000_000, 1_000_000_000)}
    assert {target: (shape.width, shape.layers) for target, shape in found.items()} == {
        10_000_000: (232, 4),
        124_000_000: (864, 11),
        1_000_000_000: (1920, 22),
    }


def test_the_parts_add_up():
    shape = ModelShape(vocab_size=100, width=32, layers=2, heads=4, kv_heads=2, hidden=64)
    assert breakdown(shape) == {
        "embedding": 3200,
        "attention": 2 * (32 * 32 * 2 + 32 * 16 * 2),
        "feed_forward": 2 * 3 * 32 * 64,
        "norms": 5 * 32,
    }
    assert count_parameters(shape) == 3200 + 6144 + 12288 + 160


def test_presets_grow_and_an_unknown_one_is_refused():
    sizes = [count_parameters(preset_shape(name, 10_000)) for name in PRESETS]
    assert sizes == sorted(sizes)
    with pytest.raises(ConfigError, match="there is no model preset `giant`"):
        preset_shape("giant", 10_000)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"width": 100, "heads": 3}, "a width of `100` can't be split over `3` heads"),
        ({"width": 14}, "a width of `14` can't be split into heads"),
    ],
)
def test_impossible_heads_are_refused(settings, words):
    with pytest.raises(ConfigError, match=words):
        find_shape(1_000_000, 1000, **settings)


def test_a_shape_that_contradicts_itself_is_refused():
    with pytest.raises(ConfigError, match="`4` heads can't share `3`"):
        ModelShape(vocab_size=10, width=32, layers=1, heads=4, kv_heads=3, hidden=8)
    with pytest.raises(ConfigError, match="`layers` is `0`"):
        ModelShape(vocab_size=10, width=32, layers=0, heads=4, kv_heads=4, hidden=8)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("layers", True),
        ("layers", 1.0),
        ("layers", "1"),
        ("rope_theta", 0.0),
        ("rope_theta", float("nan")),
        ("rope_theta", float("inf")),
        ("norm_eps", -1e-5),
        ("norm_eps", float("nan")),
    ],
)
def test_what_is_no_size_is_refused(setting, value):
    sizes = {"vocab_size": 10, "width": 32, "layers": 1, "heads": 4, "kv_heads": 4, "hidden": 8}
    with pytest.raises(ConfigError, match=f"a model's `{setting}` is `{value}`"):
        ModelShape(**{**sizes, setting: value})


def test_sizing_imports_without_jax():
    code = "import sys; sys.modules['jax'] = None; import krill.model; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
