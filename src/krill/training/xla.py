"""XLA made ready: no more threads than were asked for, and room for what it maps."""

from __future__ import annotations

import os
from typing import Final

from krill.budget.machine import require_address_space

# What JAX, its compiler and its threads map beside the arrays: 1.2 GB were enough for a small training, and
# with less the process is ended by a signal, in the compiler or in a thread that can't start.
MAPPED: Final = 1_500_000_000
# The same for private memory, of which 200 MB were too little.
PRIVATE: Final = 400_000_000


def bound_xla(threads: int, limit: int) -> None:
    """Before JAX first touches its devices: it reads its settings then."""
    require_address_space(MAPPED, PRIVATE, limit)
    os.environ["NPROC"] = str(threads)
