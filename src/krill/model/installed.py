"""Whether the extra `train` is here, said before anything imports it."""

from __future__ import annotations

from importlib.util import find_spec

from krill.errors import MissingExtra

_NEEDED = ("jax", "equinox", "optax", "orbax")


def require_train_extra(what: str = "training") -> None:
    """Raise `MissingExtra` unless JAX and what stands on it can be imported; imports nothing itself."""
    if any(find_spec(name) is None for name in _NEEDED):
        raise MissingExtra(what, "train")
