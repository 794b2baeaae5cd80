"""Krill prepares text for language models inside a memory budget that you state.

>>> import krill
>>> krill.preprocess("config.yaml", memory="512MB")  # doctest: +SKIP

Everything is loaded when it is first used: `import krill` itself costs next to nothing.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from krill.budget import MemoryMonitor
    from krill.compat.preprocess import run_datatrove_pipeline, tokenize_and_pack
    from krill.config import KrillConfig
    from krill.dataset.export import export
    from krill.loading.dataset import load, mix
    from krill.pipeline import estimate, preprocess
    from krill.pipeline import preprocess as do_preprocess
    from krill.training.job import train


# Arrow reads this once, when it is first imported. Its own allocators keep what was freed: 40 MB after
# writing Parquet on two threads; the system's gives it back and is one heap with our kernels.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

__version__ = "0.1.0"
__all__ = [
    "KrillConfig",
    "MemoryMonitor",
    "__version__",
    "do_preprocess",
    "estimate",
    "export",
    "load",
    "mix",
    "preprocess",
    "qa",
    "run_datatrove_pipeline",
    "tokenize_and_pack",
    "tokenizer",
    "train",
]

_HOMES = {
    "KrillConfig": ("krill.config", "KrillConfig"),
    "MemoryMonitor": ("krill.budget", "MemoryMonitor"),
    "do_preprocess": ("krill.pipeline", "preprocess"),
    "estimate": ("krill.pipeline", "estimate"),
    "export": ("krill.dataset.export", "export"),
    "load": ("krill.loading.dataset", "load"),
    "mix": ("krill.loading.dataset", "mix"),
    "preprocess": ("krill.pipeline", "preprocess"),
    "run_datatrove_pipeline": ("krill.compat.preprocess", "run_datatrove_pipeline"),
    "tokenize_and_pack": ("krill.compat.preprocess", "tokenize_and_pack"),
    "train": ("krill.training.job", "train"),
}


# Rooms that are used by their own name: `krill.tokenizer.train(...)`.
_ROOMS = {"qa", "tokenizer"}


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"krill.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module `krill` has no attribute `{name}`")
    module, attribute = _HOMES[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES, *_ROOMS])
