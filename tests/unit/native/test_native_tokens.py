"""The byte tokenizer, the choice of token runs, and the allocator's settings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from krill import _native
from properties import tried


@given(documents=st.lists(st.binary(max_size=50), max_size=10), eos=st.sampled_from([0, 256, 65535]))
@tried(100)
def test_each_byte_is_its_id_and_eos_ends_each_document(documents: list[bytes], eos: int) -> None:
    offsets = np.cumsum([0, *map(len, documents)], dtype=np.int64)
    ids, lengths = _native.encode_bytes(offsets, b"".join(documents), eos)
    assert (ids.dtype, lengths.dtype) == (np.uint16, np.uint32)
    assert ids.tolist() == [id_ for document in documents for id_ in [*document, eos]]
    assert lengths.tolist() == [len(document) + 1 for document in documents]


def test_an_eos_beyond_16_bits_is_refused() -> None:
    with pytest.raises(TypeError):
        _native.encode_bytes(np.zeros(1, np.int64), b"", 65536)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
@given(runs=st.lists(st.tuples(st.lists(st.integers(0, 255), max_size=9), st.booleans()), max_size=20))
@tried(50)
def test_only_kept_runs_remain(dtype: type, runs: list[tuple[list[int], bool]]) -> None:
    ids = np.array([id_ for run, _ in runs for id_ in run], dtype)
    lengths = np.array([len(run) for run, _ in runs], np.uint32)
    keep = np.array([keep for _, keep in runs], np.uint8)
    kept_ids, kept_lengths = _native.select_documents(ids, lengths, keep)
    assert (kept_ids.dtype, kept_lengths.dtype) == (dtype, np.uint32)
    assert kept_ids.tolist() == [id_ for run, kept in runs if kept for id_ in run]
    assert kept_lengths.tolist() == [len(run) for run, kept in runs if kept]


@pytest.mark.parametrize("lengths", [[2], [2, 2], [2**32 - 1, 4]])
def test_lengths_that_do_not_add_up_are_refused(lengths: list[int]) -> None:
    keep = np.ones(len(lengths), np.uint8)
    with pytest.raises(ValueError, match="don't add up"):
        _native.select_documents(np.zeros(3, np.uint16), np.array(lengths, np.uint32), keep)


def test_a_keep_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="one byte for each length"):
        _native.select_documents(np.zeros(3, np.uint16), np.array([3], np.uint32), np.ones(2, np.uint8))


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_large_result_goes_back_to_the_system_with_its_array() -> None:
    text = bytes(32 << 20)
    before = resident()
    ids, _ = _native.encode_bytes(np.array([0, len(text)], np.int64), text, 256)
    held = resident() - before
    del ids
    assert held >= 60 << 20
    assert resident() - before <= 4 << 20


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_configured_malloc_gives_freed_blocks_back() -> None:
    # Blocks of 1 MiB are below the threshold to which glibc would have adapted after the first large free.
    program = """
import numpy as np
from krill import _native

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

_native.configure_malloc()
del_first = np.ones(30 << 20, np.uint8)
del del_first
before = resident()
blocks = [np.ones(1 << 20, np.uint8) for _ in range(100)]
held = resident() - before
del blocks[:-1]
_native.trim()
print(held >> 20, (resident() - before) >> 20)
"""
    output = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    held, left = map(int, output.stdout.split())
    assert held >= 95
    assert left <= 10
