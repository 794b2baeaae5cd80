"""The tokenizer of what a model is trained on: how many ids, what they are worth, where its files are.

In: the config's `tokenizer:`, and what a prepared dataset says of its own. Out: a `Vocabulary`, or the
refusal of a tokenizer that is not the dataset's. Held in memory: eight bytes for each id.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from krill.errors import InputError
from krill.tokenizer.encoder import ByteEncoder
from krill.tokenizer.open import open_encoder
from krill.tokenizer.tokenizer_file import file_fingerprint
from krill.training.token_bytes import TokenBytes, byte_tokenizer_bytes, mean_token_bytes, token_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from krill.config import TokenizerConfig


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
        """If only decoding can tell the bytes of tokens: with their mean over some rows."""
        if self.bytes is not None or not isinstance(self.source, Path):
            return self
        return replace(self, bytes=mean_token_bytes(self.source, self.size, rows))


def vocabulary_of_config(tokenizer: TokenizerConfig) -> Vocabulary:
    """Of the tokenizer that a config names."""
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
    """By what an encoder says of itself."""
    size, mark, eos = described["vocab_size"], str(described.get("fingerprint")), described.get("eos_id")
    if described.get("name") == ByteEncoder.name:
        return Vocabulary(size, mark, eos, "bytes", byte_tokenizer_bytes())
    file = Path(str(described.get("name")))
    if not file.is_file() or file_fingerprint(file) != mark:
        return Vocabulary(size, mark, eos, None, None)
    return Vocabulary(size, mark, eos, file, token_bytes(file))
