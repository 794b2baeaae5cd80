"""What a model takes that is only run: for the plans of `krill generate` and `krill evaluate`.

In: its shape. Out: what the plan sets aside before anything is compiled or read. Nothing is held.
"""

from __future__ import annotations

from typing import Final

from krill.budget import Kind, Need
from krill.model.sizing import ModelShape, count_parameters

# What the process grows by, beside what the programs themselves hold, over what it held with JAX imported;
# measured with models of 0.1, 13 and 31 million parameters (malloc configured, freed memory given back).
# While XLA compiles: 87 to 183 MB. It is over before the weights are read.
COMPILE_BYTES: Final = 195 * 10**6
# What stays: programs, thread pools, the runtime; 67 to 102 MB.
SETTLED_BYTES: Final = 105 * 10**6
# The stage of the plan after compiling and reading.
RUNNING: Final = "run"


def inference_needs(shape: ModelShape) -> list[Need]:
    """Compiling, then reading the weights; what running takes, the compiled program tells."""
    stack = 4 * max(shape.vocab_size * shape.width, shape.layers * shape.width * shape.hidden)
    return [
        Need("JAX", SETTLED_BYTES, Kind.WATCHED),
        Need("compiling", COMPILE_BYTES - SETTLED_BYTES, Kind.WATCHED, during="compile"),
        Need("reading the weights", 4 * count_parameters(shape) + stack, during="read"),
    ]


def running_need(held_bytes: int, *, remedy: str = "") -> Need:
    """What a compiled program holds, its weights included."""
    return Need("weights, and what is computed", held_bytes, during=RUNNING, remedy=remedy)
