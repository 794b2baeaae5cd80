"""XLA made ready: no more threads than were asked for, and room for what it maps and holds."""

from __future__ import annotations

import os
import sys
from typing import Final

from krill.budget import Kind, Meter, Need, format_size
from krill.budget.machine import require_address_space
from krill.errors import BudgetError

# What JAX, its compiler and its threads map beside the arrays: 1.2 GB were enough for a small training, and
# with less the process is ended by a signal, in the compiler or in a thread that can't start.
MAPPED: Final = 1_500_000_000
# The same for private memory, of which 200 MB were too little.
PRIVATE: Final = 400_000_000
# Importing JAX and starting its backend adds 150 to 165 MB where its libraries are in the page cache; here is
# the least, since what is refused by it is refused for good.
LOADED: Final = 140_000_000
# The least that any program takes while it compiles: `compiler.py` has the figures.
COMPILING: Final = 105_000_000
# Enough to prepare, train, score and run the smallest models with any tokenizer.
_SMALL_MODEL: Final = 600_000_000


def bound_xla(threads: int, meter: Meter) -> None:
    """Before JAX is imported and first touches its devices: it reads its settings then.

    A budget that JAX alone does not fit in is refused here, while the process is still small; from here on
    nothing goes beyond the budget.
    """
    require_address_space(MAPPED, PRIVATE, meter.limit)
    os.environ["NPROC"] = str(threads)
    if "jax" in sys.modules:  # it is a part of what is held
        return
    loading = Need("JAX", LOADED, Kind.WATCHED)
    try:
        meter.plan([loading, Need("compiling", COMPILING, Kind.WATCHED, during="compile")])
    except BudgetError as refusal:
        small = f"--memory {_SMALL_MODEL // 10**6}MB would do for a small model"
        raise BudgetError(
            refusal.message, hint=f"{small}; with {format_size(meter.limit)} not even JAX can be loaded"
        ) from None
