"""`transformers` on torch: the exported folder gives the same ids and logits; cuts leave the same tokens."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from krill.model.sizing import ModelShape
from krill.training.sampling import restrict
from krill.training.saved_model import open_model, save_model
from tiny_models import tiny_model

pytestmark = pytest.mark.jax


def test_transformers_opens_the_folder_and_computes_the_same(tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    shape = ModelShape(vocab_size=257, width=32, layers=2, heads=4, kv_heads=2, hidden=48)
    model = tiny_model(shape, 3)
    save_model(tmp_path, model, context=64, tokenizer="bytes")

    peer, loading = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
    assert [loading[name] for name in ("missing_keys", "unexpected_keys", "mismatched_keys")] == [
        type(loading[name])() for name in ("missing_keys", "unexpected_keys", "mismatched_keys")
    ]
    assert peer.config.eos_token_id == 256
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    ours = open_model(tmp_path)
    text = "Größe 漢字 <|endoftext|> of a thing"
    assert tokenizer(text)["input_ids"] == ours.tokenizer.encode(text).tolist()
    assert (tokenizer.eos_token, tokenizer.eos_token_id) == ("<|endoftext|>", 256)
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text

    ids = np.random.default_rng(0).integers(0, shape.vocab_size, (2, 24))
    with torch.no_grad():
        expected = peer.eval()(torch.from_numpy(ids)).logits.numpy()
    assert np.abs(expected).max() > 1
    np.testing.assert_allclose(np.asarray(ours.model.logits(jnp.asarray(ids))), expected, atol=1e-4)


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"), [(0.7, 20, None), (1.3, None, 0.8), (0.9, 15, 0.5)]
)
def test_temperature_and_cuts_leave_what_they_leave_in_transformers(temperature, top_k, top_p):
    torch = pytest.importorskip("torch")
    process = pytest.importorskip("transformers.generation.logits_process")
    logits = np.random.default_rng(1).normal(0, 3, (16, 100)).astype(np.float32)
    expected = process.TemperatureLogitsWarper(temperature)(None, torch.from_numpy(logits.copy()))
    if top_k is not None:
        expected = process.TopKLogitsWarper(top_k)(None, expected)
    if top_p is not None:
        expected = process.TopPLogitsWarper(top_p)(None, expected)
    found = np.asarray(restrict(jnp.asarray(logits) / temperature, top_k, top_p))
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-6)
    assert 1 < np.isfinite(found).sum(axis=1).max() < 100
