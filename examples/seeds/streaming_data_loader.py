"""`StreamingDataLoader` and `estimate_memory_usage` where older scripts look for them."""

from krill.compat.memory_usage import estimate_memory_usage
from krill.loading.stream.loader import StreamingDataLoader

__all__ = ["StreamingDataLoader", "estimate_memory_usage"]
