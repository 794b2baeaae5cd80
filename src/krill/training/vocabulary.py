"""The tokenizer of what a model is trained on: how many ids, how many bytes each stands for, its files.

In: the config's `tokenizer:`, and what a prepared dataset says of its own. Out: a `Vocabulary`, or the
refusal of a tokenizer that is not the dataset's. Held in memory: eight bytes for each id.

Bytes turn a loss into bits per byte. A byte-level vocabulary has them exactly: the bytes of labels add up
to the text that was predicted. Special tokens, such as the one that ends a document, stand for no text. Other
tokenizers join tokens by rules of their own; for these some rows are decoded, and every token counts as their
mean.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from krill.errors import InputError
from krill.storage.atomic import encode_json
from krill.tokenizer.byte import EOS, ByteEncoder
from krill.tokenizer.files import CONFIG_FILE, TOKENIZER_FILE, tokenizer_json
from krill.tokenizer.open import open_encoder, open_file
from krill.tokenizer.options import TrainOptions
from krill.tokenizer.tokenizer_file import EOS_NAMES, file_fingerprint, read_tokenizer_file
from krill.tokenizer.tokenizer_json import NotNative, read_spec
from krill.tokenizer.vocabulary import TrainedBpe, to_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from krill.config import TokenizerConfig

# Rows that are decoded where only that shows how many bytes a token stands for.
DECODED_ROWS: Final = 64


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
    """Of a tokenizer file; None where only decoding shows them."""
    spec = read_spec(file, read_tokenizer_file(file))
    if isinstance(spec, NotNative) or not spec.joins_bytes:
        return None
    table = np.diff(spec.model.offsets).astype(np.float64)
    table[[token.id for token in spec.added if token.special]] = 0
    return TokenBytes(table, exact=True)


def mean_token_bytes(file: Path, vocab_size: int, rows: Iterable[NDArray[Any]]) -> TokenBytes:
    """The mean over some rows, as the tokenizer's own library decodes them."""
    encoder = open_file(file, None, 1)
    tokens = text = 0
    for row in rows:
        tokens += len(row)
        text += len(encoder.decode(row, skip_special_tokens=True).encode())
    return TokenBytes(np.full(vocab_size, text / max(1, tokens)), exact=False)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What training needs to know of a tokenizer. `source` is its file, or `bytes` for the built-in one, or
    None where the file that made a dataset is gone; then `bytes` is None, too: there are no bits per byte."""

    size: int
    fingerprint: str
    eos_id: int | None
    source: Path | Literal["bytes"] | None
    bytes: TokenBytes | None

    def with_mean_bytes(self, rows: Iterable[NDArray[Any]]) -> Vocabulary:
        """With the mean over some rows, if only decoding shows the bytes of tokens."""
        if self.bytes is not None or not isinstance(self.source, Path):
            return self
        return replace(self, bytes=mean_token_bytes(self.source, self.size, rows))


def vocabulary_of_config(tokenizer: TokenizerConfig) -> Vocabulary:
    # Opened for a moment: only an encoder knows the ids of tokenizers that are not ours.
    return _vocabulary(open_encoder(tokenizer).describe())


def vocabulary_of_dataset(path: Path, described: Mapping[str, Any], tokenizer: TokenizerConfig) -> Vocabulary:
    """Of the tokenizer that a dataset was made by; one that the config names must be the same."""
    if not tokenizer.is_given:
        return _vocabulary(described)
    named = vocabulary_of_config(tokenizer)
    if named.fingerprint != described.get("fingerprint"):
        raise InputError(
            f"`{path}` was made by another tokenizer than the config's:"
            f" its vocabulary has {described['vocab_size']:,} tokens, the config's {named.size:,}",
            hint="set `tokenizer` to the one that made the dataset, or prepare it again",
        )
    return named


def _vocabulary(described: Mapping[str, Any]) -> Vocabulary:
    """From what `Encoder.describe` returned."""
    size, mark, eos = described["vocab_size"], str(described.get("fingerprint")), described.get("eos_id")
    if described.get("name") == ByteEncoder.name:
        return Vocabulary(size, mark, eos, "bytes", byte_tokenizer_bytes())
    file = Path(str(described.get("name")))
    if not file.is_file() or file_fingerprint(file) != mark:
        return Vocabulary(size, mark, eos, None, None)
    return Vocabulary(size, mark, eos, file, token_bytes(file))


def byte_tokenizer_json() -> dict[str, bytes]:
    """The built-in byte tokenizer as files, for an exported model: a byte-level vocabulary without merges."""
    end = EOS_NAMES[0]
    options = TrainOptions(vocab_size=EOS + 1, pattern="gpt2", special_tokens=(end,))
    tokens = [end.encode(), *(bytes([byte]) for byte in range(EOS))]
    content = tokenizer_json(TrainedBpe(options, tokens, special=1, alphabet=EOS, merges=[]))
    # A trained tokenizer begins with its special tokens; this one's comes last.
    content["added_tokens"][0]["id"] = EOS
    content["model"]["vocab"] = {to_text(bytes([byte])): byte for byte in range(EOS)} | {end: EOS}
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "eos_token": end,
    }
    return {TOKENIZER_FILE: encode_json(content), CONFIG_FILE: encode_json(config)}
