"""The built-in byte tokenizer.

In: columns of text. Out: their bytes as ids, and the lengths of documents. Nothing is held.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from krill import _native
from krill.corpus.buffers import text_buffers

EOS: Final = 256


class ByteEncoder:
    """The built-in byte tokenizer: each byte of the UTF-8 text is its own id, and 256 ends a document."""

    name = "bytes"
    vocab_size = 257
    eos_id: int | None = EOS

    def encode(self, text: pa.Array) -> tuple[NDArray[Any], NDArray[np.uint32]]:
        return _native.encode_bytes(*text_buffers(text), EOS)

    def decode(self, ids: NDArray[Any]) -> str:
        """Text with EOS shown as `<|endoftext|>`; a character that a row cuts in two shows as U+FFFD."""
        pieces: list[bytes] = []
        start = 0
        for end in [*(ids == EOS).nonzero()[0].tolist(), len(ids)]:
            pieces.append(ids[start:end].astype("uint8").tobytes())
            start = end + 1
        return b"<|endoftext|>".join(pieces).decode("utf-8", "replace")

    def release(self) -> None:
        """There is no cache."""

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "vocab_size": self.vocab_size,
            "eos_id": self.eos_id,
            "fingerprint": "bytes-1",
        }
