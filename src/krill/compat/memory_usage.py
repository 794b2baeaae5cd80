"""What batches of token ids take, by arithmetic: `estimate_memory_usage`.

In: how many sequences, their length, the batch. Out: megabytes (10^6 bytes). Held in memory: nothing.
Arrays of inputs and labels are counted and nothing else: what a loader holds in all, its tokenizer and the
text at hand included, is in its plan (`StreamingDataLoader.plan`).
"""

from __future__ import annotations

from typing import Any, Final, TypedDict

import numpy as np

from krill.errors import ConfigError

_ARRAYS: Final = 2  # input_ids and labels
_MB: Final = 10**6


class MemoryUsage(TypedDict):
    """Megabytes of inputs and labels."""

    full_load_mb: float
    """All sequences at once."""
    streaming_mb: float
    """One batch at a time."""
    memory_savings: str
    """How much less that is, in percent of the first."""
    chunk_1000: float
    """A thousand sequences at a time, as in a shuffle buffer of that size; or all, if there are fewer."""
    chunk_5000: float
    chunk_10000: float
    chunk_50000: float


def estimate_memory_usage(
    num_sequences: int, seq_len: int, batch_size: int, dtype: Any = np.int32
) -> MemoryUsage:
    """Megabytes for all sequences, for one batch, and for chunks of several sizes.

    >>> estimate_memory_usage(num_sequences=100_000, seq_len=128, batch_size=32)["full_load_mb"]
    102.4
    """
    for name, value in (("num_sequences", num_sequences), ("seq_len", seq_len), ("batch_size", batch_size)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise ConfigError(f"`{name}` is `{value}`", hint="give a whole number of at least 1")
    try:
        width = np.dtype(dtype).itemsize
    except TypeError:
        raise ConfigError(f"`dtype` is `{dtype}`", hint="give a NumPy type, such as int32 or int64") from None

    def megabytes(sequences: int) -> float:
        return int(min(sequences, num_sequences)) * int(seq_len) * int(width) * _ARRAYS / _MB

    full, streaming = megabytes(num_sequences), megabytes(batch_size)
    return {
        "full_load_mb": full,
        "streaming_mb": streaming,
        "memory_savings": f"{100 * (1 - streaming / full):.2f}%",
        "chunk_1000": megabytes(1_000),
        "chunk_5000": megabytes(5_000),
        "chunk_10000": megabytes(10_000),
        "chunk_50000": megabytes(50_000),
    }
