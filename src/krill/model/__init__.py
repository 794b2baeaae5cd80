"""The model: how large, what it computes, and how other tools read it.

In: a number of parameters or a preset, and tokens. Out: a `ModelShape`, a `Transformer` whose arrays are a
pytree, hidden states and logits, and the same weights in Hugging Face's Llama layout. Held in memory: the
weights, and for a batch the activations that its options leave (`Compute`).

`recurrent.py` is the reader of long documents.

`krill.model.sizing` needs nothing installed; everything else is JAX, from the extra `train`.
"""

from importlib.util import find_spec

from krill.errors import MissingExtra
from krill.model.sizing import ModelShape, breakdown, count_parameters, find_shape, preset_shape

__all__ = [
    "ModelShape",
    "breakdown",
    "count_parameters",
    "find_shape",
    "preset_shape",
    "require_train_extra",
]

_EXTRA = ("jax", "equinox", "optax", "orbax")


def require_train_extra(what: str = "training") -> None:
    """Raise `MissingExtra` unless JAX and what stands on it can be imported; imports nothing itself."""
    if any(find_spec(name) is None for name in _EXTRA):
        raise MissingExtra(what, "train")
