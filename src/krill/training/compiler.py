"""The two code generators that XLA has for a CPU, and the memory that each of them takes.

In: a lowered program. Out: the compiled one. Held in memory: while it compiles and after it, what `Compiler`
says, over what the process held with JAX imported.

XLA's newer code generator, its default, makes steps of small models up to a tenth faster, and takes hundreds
of megabytes while it compiles one; how many depends on how its threads meet. The older one takes a fourth,
always the same. So a training step gets the newer one where the budget has room for it, and whatever else is
compiled gets the older one. A reader's step is even faster with that.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

import jax
import jax.numpy as jnp

_OLDER_GENERATOR: Final[dict[str, str | bool]] = {"xla_cpu_use_fusion_emitters": False}
# For what runs once. Drawing the weights of 1.4 million parameters then takes 0.7 s to compile, not 2.9 s;
# it runs as fast and gives the same bits.
_RUNS_ONCE: Final[dict[str, str | bool]] = {**_OLDER_GENERATOR, "xla_backend_optimization_level": "1"}
# For what never runs. A step of 1.4 million parameters then takes 1.6 s to compile, not 7.5 s; what it holds
# was laid out before, and is the same.
_TRIAL: Final[dict[str, str | bool]] = {"xla_backend_optimization_level": "0"}


class CompilerMemory(NamedTuple):
    """Bytes that are freed before the program runs, and bytes that stay: programs, thread pools, the runtime,
    operands that matrix products copy.
    """

    compiling: int
    settled: int


@dataclass(frozen=True, slots=True)
class Compiler:
    """How programs are compiled; what that takes for a training step, and for a model that only runs."""

    step: CompilerMemory
    run: CompilerMemory
    older_generator: bool = False

    def compile(self, lowered: jax.stages.Lowered, *, runs_once: bool = False) -> jax.stages.Compiled:
        options = dict(_RUNS_ONCE if runs_once else _OLDER_GENERATOR)
        return lowered.compile(compiler_options=options if self.older_generator else None)

    def compile_if(
        self, fits: Callable[[jax.stages.Compiled], bool], lowered: jax.stages.Lowered
    ) -> jax.stages.Compiled:
        """The program, if it fits; else one that only shows what it would hold, in a fifth of the time."""
        generator = _OLDER_GENERATOR if self.older_generator else {}
        trial = lowered.compile(compiler_options={**generator, **_TRIAL})
        if not fits(trial):
            return trial
        del trial  # not beside the other one's compilation
        return self.compile(lowered)


# Measured over six settings of `benchmarks/train_memory.py`, and readers of two widths and 2 and 32 segments,
# on one core and on two (malloc configured, freed memory given back after compiling).
# A step: 250 to 410 MB while compiling, most with 8 bits and on one core; 97 to 152 MB stay. A model that
# runs, with 0.1, 13 and 31 million parameters: 89 to 183 MB, and 59 to 102.
FAST: Final = Compiler(CompilerMemory(430 * 10**6, 155 * 10**6), CompilerMemory(195 * 10**6, 105 * 10**6))
# A step: 73 to 112 MB, and 64 to 96 stay. A model that runs: 55 to 73, and 50 to 64.
_LOW_MEMORY: Final = Compiler(
    CompilerMemory(135 * 10**6, 110 * 10**6), CompilerMemory(105 * 10**6, 90 * 10**6), older_generator=True
)


@functools.cache
def low_memory_compiler() -> Compiler:
    """The compiler that takes less memory, where the installed JAX has both and computes on a CPU."""
    if jax.default_backend() != "cpu":
        return FAST
    try:
        _LOW_MEMORY.compile(jax.jit(jnp.negative).lower(0.0))
    except jax.errors.JaxRuntimeError:
        return FAST
    return _LOW_MEMORY
