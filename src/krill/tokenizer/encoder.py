"""The one interface that every tokenizer is used through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


class Encoder(Protocol):
    """Encodes batches of documents, on any number of threads at once.

    Ids equal Hugging Face's `encode(text, add_special_tokens=True)` without truncation or padding, followed
    by EOS where the tokenizer has one.
    """

    name: str
    vocab_size: int
    eos_id: int | None

    def encode(self, text: pa.Array) -> tuple[NDArray[Any], NDArray[np.uint32]]:
        """All ids of a `large_string` column one after the other, and how many each document has."""
        ...

    def decode(self, ids: NDArray[Any]) -> str:
        """The text of some ids, special tokens included, for people to look at."""
        ...

    def describe(self) -> dict[str, Any]:
        """What `krill-run.json` says of this tokenizer; `fingerprint` is of its content."""
        ...
