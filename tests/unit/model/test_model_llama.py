"""Weights in Llama's layout and back. What `transformers` makes of them: `parity/test_parity_llama.py`."""

from __future__ import annotations

import jax
import pytest

from krill.errors import InputError
from krill.model.llama import from_llama, llama_config, llama_tensors
from krill.model.sizing import ModelShape
from tiny_models import tiny_model

pytestmark = pytest.mark.jax


def test_a_model_comes_back_as_it_went():
    shape = ModelShape(vocab_size=50, width=32, layers=3, heads=2, kv_heads=1, hidden=40, rope_theta=5000.0)
    model = tiny_model(shape, 1)
    again = from_llama(dict(llama_tensors(model)), llama_config(shape, context=16))
    assert again.shape == shape
    assert all(jax.tree.leaves(jax.tree.map(lambda a, b: bool((a == b).all()), model, again)))


def test_weights_that_do_not_belong_to_the_config_are_named():
    shape = ModelShape(vocab_size=50, width=32, layers=1, heads=2, kv_heads=2, hidden=40)
    config, tensors = llama_config(shape, context=16), dict(llama_tensors(tiny_model(shape, 1)))
    with pytest.raises(InputError, match=r"`model.embed_tokens.weight` has the shape `\(50, 32\)`"):
        from_llama(tensors, {**config, "vocab_size": 51})
    del tensors["model.layers.0.mlp.up_proj.weight"]
    with pytest.raises(InputError, match=r"no `model.layers.0.mlp.up_proj.weight`"):
        from_llama(tensors, config)
    with pytest.raises(InputError, match="describes a `mamba` model"):
        from_llama(tensors, {**config, "model_type": "mamba"})
