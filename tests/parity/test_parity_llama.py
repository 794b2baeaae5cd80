"""`transformers` on torch: the exported folder gives the same ids and logits; cuts leave the same tokens.

What JAX computes is computed in a process of its own: this one has torch, and may have to fork.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import preloaded
from peers import peer

torch, transformers = peer("torch"), peer("transformers")

IDS = np.random.default_rng(0).integers(0, 257, (2, 24))
TEXT = "Größe 漢字 <|endoftext|> of a thing"
CUTS = [(0.7, 20, None), (1.3, None, 0.8), (0.9, 15, 0.5)]
LOGITS = np.random.default_rng(1).normal(0, 3, (16, 100)).astype(np.float32)

# Saves a model, opens it again, and leaves what that makes of the ids and of the text.
MODEL = """
import sys
from pathlib import Path
import jax.numpy as jnp
import numpy as np
from krill.model.sizing import ModelShape
from krill.training.saved_model import open_model, save_model
from tiny_models import tiny_model

folder, kv_heads, text = Path(sys.argv[1]), *sys.argv[2:]
shape = ModelShape(vocab_size=257, width=32, layers=2, heads=4, kv_heads=int(kv_heads), hidden=48)
save_model(folder, tiny_model(shape, 3), context=64, tokenizer="bytes")
ours = open_model(folder)
np.save("tokens.npy", ours.open_tokenizer(None).encode(text))
np.save("logits.npy", np.asarray(ours.model.logits(jnp.asarray(np.load("ids.npy")))))
"""
RESTRICTED = """
import json, sys
import jax.numpy as jnp
import numpy as np
from krill.training.decoding import restrict

logits = jnp.asarray(np.load("logits.npy"))
for number, (temperature, top_k, top_p) in enumerate(json.loads(sys.argv[1])):
    np.save(f"{number}.npy", np.asarray(restrict(logits / temperature, top_k, top_p)))
"""


def run(script: str, folder: Path, *arguments: object) -> None:
    done = preloaded.run(arguments, script=script, cwd=folder)
    assert done.code == 0, done.err


@pytest.mark.parametrize("kv_heads", [4, 2])
def test_transformers_opens_the_folder_and_computes_the_same(tmp_path, kv_heads):
    np.save(tmp_path / "ids.npy", IDS)
    model = tmp_path / "model"
    run(MODEL, tmp_path, model, kv_heads, TEXT)

    llama, loading = transformers.AutoModelForCausalLM.from_pretrained(model, output_loading_info=True)
    assert [loading[name] for name in ("missing_keys", "unexpected_keys", "mismatched_keys")] == [
        type(loading[name])() for name in ("missing_keys", "unexpected_keys", "mismatched_keys")
    ]
    assert llama.config.num_key_value_heads == kv_heads
    assert llama.config.eos_token_id == 256
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    assert tokenizer(TEXT)["input_ids"] == np.load(tmp_path / "tokens.npy").tolist()
    assert (tokenizer.eos_token, tokenizer.eos_token_id) == ("<|endoftext|>", 256)
    assert tokenizer.decode(tokenizer(TEXT)["input_ids"]) == TEXT

    with torch.no_grad():
        expected = llama.eval()(torch.from_numpy(IDS)).logits.numpy()
    assert np.abs(expected).max() > 1
    np.testing.assert_allclose(np.load(tmp_path / "logits.npy"), expected, atol=1e-4)


@pytest.fixture(scope="module")
def restricted(tmp_path_factory):
    """What Krill leaves of the logits, for each of the cuts."""
    folder = tmp_path_factory.mktemp("restricted")
    np.save(folder / "logits.npy", LOGITS)
    run(RESTRICTED, folder, json.dumps(CUTS))
    return [np.load(folder / f"{number}.npy") for number in range(len(CUTS))]


@pytest.mark.parametrize("cut", range(len(CUTS)))
def test_temperature_and_cuts_leave_what_they_leave_in_transformers(restricted, cut):
    process = pytest.importorskip("transformers.generation.logits_process")
    temperature, top_k, top_p = CUTS[cut]
    expected = process.TemperatureLogitsWarper(temperature)(None, torch.from_numpy(LOGITS.copy()))
    if top_k is not None:
        expected = process.TopKLogitsWarper(top_k)(None, expected)
    if top_p is not None:
        expected = process.TopPLogitsWarper(top_p)(None, expected)
    np.testing.assert_allclose(restricted[cut], expected.numpy(), rtol=1e-6)
    assert 1 < np.isfinite(restricted[cut]).sum(axis=1).max() < 100
