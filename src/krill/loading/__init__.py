"""Loading: prepared rows, or raw text, as batches for training.

In: a dataset that Krill wrote, a Hugging Face folder, Parquet, a URL of these; or text and a tokenizer. Out:
rows by number, and batches of NumPy arrays, torch tensors or JAX arrays, in an order that is computed from
the seed and the epoch, resumable at every step. Held in memory: a table of the shards, a small cache, the
batches in flight; never the order, never the dataset.
"""

from typing import TYPE_CHECKING

from krill.lazy import lazy_names

if TYPE_CHECKING:
    from krill.compat.memory_usage import estimate_memory_usage as estimate_memory_usage
    from krill.dataset.rows import RowSource as RowSource
    from krill.loading.dataset import LoadedDataset as LoadedDataset
    from krill.loading.dataset import load as load
    from krill.loading.dataset import mix as mix
    from krill.loading.loader import Loader as Loader
    from krill.loading.stream.loader import StreamingDataLoader as StreamingDataLoader

# Loaded when first used: prepared rows take no tokenizer, and raw text takes no reader of shards.
__getattr__, __all__ = lazy_names(
    __name__,
    {
        "krill.compat.memory_usage": ("estimate_memory_usage",),
        "krill.dataset.rows": ("RowSource",),
        "krill.loading.dataset": ("LoadedDataset", "load", "mix"),
        "krill.loading.loader": ("Loader",),
        "krill.loading.stream.loader": ("StreamingDataLoader",),
    },
)
