"""The weights in Hugging Face's Llama layout, and back.

In: a `Transformer`, or a dict of arrays under Llama's names with the contents of its `config.json`. Out: the
other. Only names change and matrices are turned over (theirs are stored (out, in)): no number is touched, so
the exported model gives the same logits in `transformers`. Held in memory: one turned
matrix at a time beside the model when `llama_tensors` is walked, the whole of them when it is collected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from krill.errors import InputError
from krill.model.sizing import ModelShape
from krill.model.transformer import Layers, Transformer, matrix_sizes

# Our name of a layer's weights -> theirs, and whether it is a matrix, which lies the other way round there.
_LAYER_NAMES = {
    "attention_norm": ("input_layernorm", False),
    "query": ("self_attn.q_proj", True),
    "key": ("self_attn.k_proj", True),
    "value": ("self_attn.v_proj", True),
    "output": ("self_attn.o_proj", True),
    "mlp_norm": ("post_attention_layernorm", False),
    "gate": ("mlp.gate_proj", True),
    "up": ("mlp.up_proj", True),
    "down": ("mlp.down_proj", True),
}
_EMBEDDING = "model.embed_tokens.weight"
_FINAL_NORM = "model.norm.weight"

Array = NDArray[Any]


def llama_tensors(model: Transformer) -> Iterator[tuple[str, Array]]:
    """Every array under Llama's name; tied embeddings are there once, as `transformers` saves them."""
    yield _EMBEDDING, np.asarray(model.embedding)
    stacked = {ours: np.asarray(getattr(model.layers, ours)) for ours in _LAYER_NAMES}
    for number in range(model.shape.layers):
        for ours, (theirs, turned) in _LAYER_NAMES.items():
            weights = stacked[ours][number]
            yield _layer_name(number, theirs), np.ascontiguousarray(weights.T) if turned else weights
    yield _FINAL_NORM, np.asarray(model.final_norm)


def llama_config(
    shape: ModelShape, *, context: int, bos_token: int | None = None, eos_token: int | None = None
) -> dict[str, Any]:
    """The contents of `config.json`; `context` is the longest row that the model was trained on."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "bos_token_id": bos_token,
        "eos_token_id": eos_token,
        "head_dim": shape.head_size,
        "hidden_act": "silu",
        "hidden_size": shape.width,
        "intermediate_size": shape.hidden,
        "max_position_embeddings": context,
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": shape.heads,
        "num_hidden_layers": shape.layers,
        "num_key_value_heads": shape.kv_heads,
        "rms_norm_eps": shape.norm_eps,
        "rope_theta": shape.rope_theta,
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
        "vocab_size": shape.vocab_size,
    }


def shape_from_llama(config: Mapping[str, Any]) -> ModelShape:
    """The shape that a `config.json` describes, if it is one of ours or as plain."""
    if config.get("model_type") != "llama" or not config.get("tie_word_embeddings", False):
        raise InputError(
            f"`config.json` describes a `{config.get('model_type')}` model with"
            f" tie_word_embeddings `{config.get('tie_word_embeddings', False)}`",
            hint="give a Llama model with tied embeddings",
        )
    missing = [name for name in _SIZES if name not in config]
    if missing:
        raise InputError(f"`config.json` has no `{missing[0]}`", hint="give the model's own config.json")
    # Newer versions of transformers write the rotary settings as one block.
    rotary = config.get("rope_parameters") or {}
    return ModelShape(
        vocab_size=config["vocab_size"],
        width=config["hidden_size"],
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        kv_heads=_first(config.get("num_key_value_heads"), config["num_attention_heads"]),
        hidden=config["intermediate_size"],
        rope_theta=float(_first(config.get("rope_theta"), rotary.get("rope_theta"), 10000.0)),
        norm_eps=float(_first(config.get("rms_norm_eps"), 1e-6)),
    )


def _first(*values: Any) -> Any:
    return next(value for value in values if value is not None)


_SIZES = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")


def from_llama(tensors: Mapping[str, Array], config: Mapping[str, Any]) -> Transformer:
    """The model that `llama_tensors` and `llama_config` describe."""
    shape = shape_from_llama(config)
    sizes: dict[str, tuple[int, ...]] = {**matrix_sizes(shape)}
    stacked = {}
    for ours, (theirs, turned) in _LAYER_NAMES.items():
        size = sizes.get(ours, (shape.width,))
        rows = np.empty((shape.layers, *size), np.float32)
        for number in range(shape.layers):
            found = _tensor(tensors, _layer_name(number, theirs), size[::-1])
            rows[number] = found.T if turned else found
        stacked[ours] = jnp.asarray(rows)
    embedding = jnp.asarray(_tensor(tensors, _EMBEDDING, (shape.vocab_size, shape.width)), jnp.float32)
    final_norm = jnp.asarray(_tensor(tensors, _FINAL_NORM, (shape.width,)), jnp.float32)
    return Transformer(embedding, Layers(**stacked), final_norm, shape)


def _layer_name(number: int, name: str) -> str:
    return f"model.layers.{number}.{name}.weight"


def _tensor(tensors: Mapping[str, Array], name: str, size: tuple[int, ...]) -> Array:
    if name not in tensors:
        raise InputError(f"the weights have no `{name}`", hint="give the model's whole safetensors")
    found = tensors[name]
    if found.shape != size:
        raise InputError(
            f"`{name}` has the shape `{found.shape}`, its config.json says `{size}`",
            hint="give the config.json that belongs to these weights",
        )
    return found
