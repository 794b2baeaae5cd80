"""How many threads XLA computes with. In: a number. Out: nothing. Nothing is held."""

from __future__ import annotations

import os


def bound_xla_threads(threads: int) -> None:
    """XLA's pools are as large as this says; read when JAX first touches its devices, so before that."""
    os.environ["NPROC"] = str(threads)
