"""The exported model in `transformers`: the same logits; and back: the same weights."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krill.errors import InputError
from krill.model.llama import from_llama, llama_config, llama_tensors
from krill.model.sizing import ModelShape
from tiny_models import tiny_model

pytestmark = pytest.mark.jax


@pytest.mark.parametrize("kv_heads", [4, 2])
def test_the_exported_model_gives_the_same_logits_in_transformers(kv_heads):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    shape = ModelShape(vocab_size=101, width=64, layers=2, heads=4, kv_heads=kv_heads, hidden=112)
    model = tiny_model(shape, 3)
    config = llama_config(shape, context=64, eos_token=0)

    peer = transformers.LlamaForCausalLM(transformers.LlamaConfig(**config)).eval()
    weights = {name: torch.from_numpy(array.copy()) for name, array in llama_tensors(model)}
    missing, unexpected = peer.load_state_dict(weights, strict=False)
    assert (missing, unexpected) in ([["lm_head.weight"], []], [[], []], (["lm_head.weight"], []), ([], []))
    peer.tie_weights()

    ids = np.random.default_rng(0).integers(0, shape.vocab_size, (2, 24))
    with torch.no_grad():
        expected = peer(torch.from_numpy(ids)).logits.numpy()
    found = np.asarray(model.logits(jnp.asarray(ids)))
    assert np.abs(expected).max() > 1
    np.testing.assert_allclose(found, expected, atol=1e-4)


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
