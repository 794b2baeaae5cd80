"""`estimate_memory_usage`: the arithmetic of inputs and labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from krill.compat.memory_usage import estimate_memory_usage
from krill.errors import ConfigError


def test_megabytes_are_sequences_times_tokens_times_bytes_of_inputs_and_labels() -> None:
    usage = estimate_memory_usage(num_sequences=100_000, seq_len=128, batch_size=32)
    assert usage == {
        "full_load_mb": 102.4,
        "streaming_mb": 0.032768,
        "memory_savings": "99.97%",
        "chunk_1000": 1.024,
        "chunk_5000": 5.12,
        "chunk_10000": 10.24,
        "chunk_50000": 51.2,
    }


@pytest.mark.parametrize("dtype", [np.int64, "int64", np.dtype("int64")])
def test_the_type_decides_the_bytes_of_a_token(dtype: Any) -> None:
    assert estimate_memory_usage(1000, 128, 32, dtype)["full_load_mb"] == 2.048
    assert estimate_memory_usage(1000, 128, 32, np.uint16)["full_load_mb"] == 0.512


def test_a_chunk_is_never_more_than_all() -> None:
    usage = estimate_memory_usage(num_sequences=20, seq_len=100, batch_size=32)
    assert usage["chunk_50000"] == usage["streaming_mb"] == usage["full_load_mb"] == 0.016
    assert usage["memory_savings"] == "0.00%"


def test_it_is_what_arrays_of_that_shape_take() -> None:
    arrays = [np.zeros((700, 33), np.int32), np.zeros((700, 33), np.int32)]
    usage = estimate_memory_usage(700, 33, 32)
    assert usage["full_load_mb"] == sum(array.nbytes for array in arrays) / 10**6


@pytest.mark.parametrize("name", ["num_sequences", "seq_len", "batch_size"])
@pytest.mark.parametrize("value", [0, -1, 2.5, "many", True])
def test_what_is_no_count_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"`{name}` is `{value}`"):
        estimate_memory_usage(**{"num_sequences": 1, "seq_len": 1, "batch_size": 1, name: value})


def test_what_is_no_type_is_refused() -> None:
    with pytest.raises(ConfigError, match="`dtype` is `tokens`"):
        estimate_memory_usage(1, 1, 1, "tokens")
