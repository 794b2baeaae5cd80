"""Krill prepares text for language models inside a memory budget that you state.

>>> import krill
>>> krill.preprocess("config.yaml", memory="512MB")  # doctest: +SKIP

Everything is loaded when it is first used: `import krill` itself costs next to nothing.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from krill.lazy import lazy_names

if TYPE_CHECKING:
    from krill.budget import MemoryMonitor as MemoryMonitor
    from krill.compat.preprocess import do_preprocess as do_preprocess
    from krill.compat.preprocess import run_datatrove_pipeline as run_datatrove_pipeline
    from krill.compat.preprocess import tokenize_and_pack as tokenize_and_pack
    from krill.config import KrillConfig as KrillConfig
    from krill.dataset.export import export as export
    from krill.loading.dataset import load as load
    from krill.loading.dataset import mix as mix
    from krill.pipeline import estimate as estimate
    from krill.pipeline import preprocess as preprocess
    from krill.training.job import train as train


# Arrow reads this once, when it is first imported. Its own allocators keep what was freed: 40 MB after
# writing Parquet on two threads; the system's gives it back and is one heap with our kernels.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

__version__ = "0.1.0"
_load, _lazy = lazy_names(
    __name__,
    {
        "krill.budget": ("MemoryMonitor",),
        "krill.compat.preprocess": ("do_preprocess", "run_datatrove_pipeline", "tokenize_and_pack"),
        "krill.config": ("KrillConfig",),
        "krill.dataset.export": ("export",),
        "krill.loading.dataset": ("load", "mix"),
        "krill.pipeline": ("estimate", "preprocess"),
        "krill.training.job": ("train",),
    },
)
# Packages that are used by their own name: `krill.tokenizer.train(...)`.
_PACKAGES = ("qa", "tokenizer")
__all__ = ["__version__", *_lazy, *_PACKAGES]


def __getattr__(name: str) -> Any:
    return import_module(f"krill.{name}") if name in _PACKAGES else _load(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
