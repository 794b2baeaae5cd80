"""What a model takes that is only run: for the plans of `krill generate` and `krill evaluate`.

In: its shape. Out: what the plan sets aside before anything is compiled or read. Nothing is held.
"""

from __future__ import annotations

from typing import Final

from krill.budget import Kind, Need
from krill.model.sizing import ModelShape, count_parameters

# The stage of the plan after compiling and reading.
RUNNING: Final = "run"


def inference_needs(shape: ModelShape) -> list[Need]:
    """Compiling, then reading the weights; what running takes, the compiled program tells."""
    from krill.training.compiler import lean  # imports JAX

    compiling, settled = lean().run
    stack = 4 * max(shape.vocab_size * shape.width, shape.layers * shape.width * shape.hidden)
    return [
        Need("JAX", settled, Kind.WATCHED),
        Need("compiling", compiling - settled, Kind.WATCHED, during="compile"),
        Need("reading the weights", 4 * count_parameters(shape) + stack, during="read"),
    ]


def running_need(held_bytes: int, *, remedy: str = "") -> Need:
    """What a compiled program holds, its weights included."""
    return Need("weights, and what is computed", held_bytes, during=RUNNING, remedy=remedy)
