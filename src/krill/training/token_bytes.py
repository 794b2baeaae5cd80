"""How many bytes of text a token stands for: what turns a loss into bits per byte.

In: a tokenizer, and rows of its ids. Out: bytes for each id. Held in memory: eight bytes for each id of the
vocabulary.

A byte-level vocabulary says it exactly: the bytes of labels add up to the text that was predicted. Special
tokens, such as the one that ends a document, stand for no text. Other tokenizers join tokens by rules of
their own; for these some rows are decoded, and every token counts as their mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from krill.tokenizer.encoder import EOS, ByteEncoder
from krill.tokenizer.tokenizer_file import read_tokenizer_file
from krill.tokenizer.tokenizer_json import NotNative, read_spec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class TokenBytes:
    """Bytes of text for each id."""

    table: NDArray[np.float64]
    exact: bool

    def of(self, labels: NDArray[Any]) -> float:
        """The bytes that these labels stand for; negative ones count for nothing."""
        return float(self.table[labels[labels >= 0]].sum())


def byte_tokenizer_bytes() -> TokenBytes:
    """Of the built-in byte tokenizer: one each, none for its end of a document."""
    table = np.ones(ByteEncoder.vocab_size)
    table[EOS] = 0
    return TokenBytes(table, exact=True)


def token_bytes(file: Path) -> TokenBytes | None:
    """Of a tokenizer file; None where only decoding can tell."""
    spec = read_spec(file, read_tokenizer_file(file))
    if isinstance(spec, NotNative) or not spec.byte_decoder:
        return None
    table = np.diff(spec.model.offsets).astype(np.float64)
    table[[identity for identity, token in spec.added.items() if token.special]] = 0
    return TokenBytes(table, exact=True)


def mean_token_bytes(file: Path, vocab_size: int, rows: Iterable[NDArray[Any]]) -> TokenBytes:
    """The mean over some rows, as the tokenizer's own library decodes them."""
    from krill.tokenizer.open import open_file

    encoder = open_file(file, None, 1)
    tokens = text = 0
    for row in rows:
        tokens += len(row)
        text += len(encoder.decode(row, skip_special_tokens=True).encode())
    return TokenBytes(np.full(vocab_size, text / max(1, tokens)), exact=False)
