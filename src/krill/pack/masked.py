"""Tokens that know whether they are learned: 32-bit numbers whose highest bit says "not learned".

In: ids and flags. Out: numbers that are packed as any tokens are, and from a row of them its ids and labels.
Held in memory: what is asked for.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

MASKED_DTYPE: Final = "uint32"
MOST_IDS: Final = 1 << 31
IGNORED: Final = -100
_BIT: Final = np.uint32(MOST_IDS)


def masked_tokens(ids: NDArray[Any], learned: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """Ids below 2^31 with what is learned of them."""
    tokens = ids.astype(np.uint32)
    np.bitwise_or(tokens, _BIT, out=tokens, where=~learned)
    return tokens


def is_learned(tokens: NDArray[np.uint32]) -> NDArray[np.bool_]:
    return tokens < _BIT


def ids_and_labels(tokens: NDArray[np.uint32], dtype: str) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """The ids in the dataset's type, and each token's label: itself, or -100."""
    ids = tokens & (_BIT - np.uint32(1))
    return ids.astype(dtype), np.where(is_learned(tokens), ids.view(np.int32), np.int32(IGNORED))
