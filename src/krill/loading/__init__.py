"""Loading: prepared rows, or raw text, as batches for training.

In: a dataset that Krill wrote, a Hugging Face folder, Parquet, a URL of these; or text and a tokenizer. Out:
rows by number, and batches of NumPy arrays, torch tensors or JAX arrays, in an order that is computed from
the seed and the epoch, resumable at every step. Held in memory: a table of the shards, a small cache, the
batches in flight; never the order, never the dataset.
"""

from typing import TYPE_CHECKING

from krill.lazy import lazy_attributes

if TYPE_CHECKING:
    from krill.compat.memory_usage import estimate_memory_usage
    from krill.dataset.rows import RowSource
    from krill.loading.dataset import LoadedDataset, load, mix
    from krill.loading.loader import Loader
    from krill.loading.stream.loader import StreamingDataLoader

__all__ = [
    "LoadedDataset",
    "Loader",
    "RowSource",
    "StreamingDataLoader",
    "estimate_memory_usage",
    "load",
    "mix",
]

# Loaded when first used: prepared rows take no tokenizer, and raw text takes no reader of shards.
__getattr__ = lazy_attributes(
    __name__,
    {
        "LoadedDataset": "krill.loading.dataset",
        "Loader": "krill.loading.loader",
        "RowSource": "krill.dataset.rows",
        "StreamingDataLoader": "krill.loading.stream.loader",
        "estimate_memory_usage": "krill.compat.memory_usage",
        "load": "krill.loading.dataset",
        "mix": "krill.loading.dataset",
    },
)
