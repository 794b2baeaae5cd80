"""Which of how many processes this is.

Comes in: what the caller says, or nothing. Goes out: a rank and a world size. Held in memory: nothing.
Neither torch nor JAX is imported: a process that has not done so itself is not part of their worlds.
"""

from __future__ import annotations

import sys

from krill.errors import ConfigError


def find_world(rank: int | None, world: int | None) -> tuple[int, int]:
    """What is given; else torch.distributed's if it is initialised, else JAX's if it is there, else 0 of
    1."""
    if (rank is None) != (world is None):
        raise ConfigError("`rank` and `world` belong together", hint="give both, or neither")
    if rank is None or world is None:
        rank, world = _torch_world() or _jax_world() or (0, 1)
    if world < 1 or not 0 <= rank < world:
        raise ConfigError(
            f"`rank` is `{rank}` and `world` is `{world}`", hint="ranks count from 0 to below `world`"
        )
    return rank, world


def _torch_world() -> tuple[int, int] | None:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return int(distributed.get_rank()), int(distributed.get_world_size())


def _jax_world() -> tuple[int, int] | None:
    jax = sys.modules.get("jax")
    # Asking makes JAX open its devices, unless several processes were joined, which opens them anyhow.
    if jax is None or not getattr(jax.distributed, "is_initialized", lambda: False)():
        return None
    return int(jax.process_index()), int(jax.process_count())
