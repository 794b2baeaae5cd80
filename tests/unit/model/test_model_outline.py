"""What `krill estimate` says of a model is what training it really makes."""

from __future__ import annotations

import jax
import pytest

from krill.cli.estimate import outline_rows
from krill.cli.screen import print_rows
from krill.config import load_config
from krill.model.outline import model_shape, outline
from krill.model.sizing import count_parameters
from krill.training.language_step import LanguageModelStep
from krill.training.optimizers import make_optimizer
from krill.training.step import state_shapes

pytestmark = pytest.mark.jax


def size_of(tree) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


@pytest.mark.parametrize("optimizer", ["adamw", "adamw8bit"])
def test_weights_and_optimizer_are_those_of_the_real_state(optimizer):
    settings = load_config({"train": {"target_params": 2_000_000, "optimizer": optimizer}}).train
    told = outline(settings, 4000, 128)
    shape = model_shape(settings, 4000)
    step = LanguageModelStep(shape, make_optimizer(optimizer, lambda step: 0.1), 1, 128)
    state = state_shapes(step)
    assert told.shape == shape
    assert told.parameters == count_parameters(shape) == step.parameters
    assert told.weights == told.gradients == size_of(state.model)
    assert told.optimizer == pytest.approx(size_of(state.optimizer), rel=0.01)


def test_only_what_saves_memory_on_the_host_is_counted_as_smaller():
    def activations(precision) -> int:
        return outline(load_config({"train": {"mixed_precision": precision}}).train, 300, 64).activations

    assert activations("fp16") * 2 == activations("bf16") == activations(False)


def test_rows_that_wait_to_be_shuffled_are_told_where_text_is_streamed(capsys):
    settings = load_config({"train": {"streaming": True, "shuffle_buffer_size": 1000, "kv_heads": 1}}).train
    told = outline(settings, 300, 64)
    assert told.shuffle_buffer == 1000 * 64 * 4
    assert outline(load_config({"train": {"epochs": 2}}).train, 300, 64).shuffle_buffer == 0
    print_rows(outline_rows(told))
    printed = capsys.readouterr().out
    assert f"{told.parameters:,} parameters, a vocabulary of 300" in printed
    assert "256 kB of rows that wait" in printed
    assert "(1 of keys and values)" in printed
