"""Document hashes equal those of the package mmh3."""

from __future__ import annotations

import mmh3
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from krill import _native
from properties import tried


def offsets_of(documents: list[bytes]) -> np.ndarray:
    return np.cumsum([0, *map(len, documents)], dtype=np.int64)


@given(documents=st.lists(st.binary(max_size=70), max_size=10), seed=st.integers(0, 2**32 - 1))
@tried(80)
def test_hashes_equal_those_of_mmh3(documents: list[bytes], seed: int) -> None:
    hashes = _native.hash_documents(offsets_of(documents), b"".join(documents), seed)
    assert hashes.dtype == np.uint64
    assert hashes.shape == (len(documents), 2)
    assert [tuple(pair) for pair in hashes.tolist()] == [
        mmh3.hash64(document, seed, signed=False) for document in documents
    ]


def test_every_length_of_tail_is_hashed_as_mmh3_does() -> None:
    documents = [bytes(range(256))[:length] for length in range(256)]
    hashes = _native.hash_documents(offsets_of(documents), b"".join(documents))
    assert [tuple(pair) for pair in hashes.tolist()] == [mmh3.hash64(d, signed=False) for d in documents]


def test_a_hash_in_bytes_is_the_digest_that_goes_to_disk() -> None:
    hashes = _native.hash_documents(np.array([0, 5], np.int64), b"krill")
    assert hashes.tobytes() == mmh3.hash_bytes(b"krill")
