"""What shapes a trained tokenizer. Memory and threads are not here: they never do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from krill.errors import ConfigError

TieBreak = Literal["huggingface", "greatest"]
Boundaries = Literal["documents", "lines"]


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """The options of one training.

    `initial_alphabet` is `bytes` (all 256, so that every text can be encoded), `seen` (only bytes that occur)
    or a text whose bytes are kept besides those that occur.
    """

    vocab_size: int = 32000
    pattern: str = "gpt2"
    special_tokens: tuple[str, ...] = ("<|endoftext|>",)
    min_frequency: int = 0
    max_token_length: int | None = None
    initial_alphabet: str = "bytes"
    limit_alphabet: int | None = None
    tie_break: TieBreak = "huggingface"
    boundaries: Boundaries = "documents"

    def check(self) -> None:
        """Faults that show before any text is read."""
        for token in self.special_tokens:
            if not token:
                raise ConfigError("a special token is empty", hint="give each one at least one character")
            if self.special_tokens.count(token) > 1:
                raise ConfigError(f"the special token `{token}` is given twice", hint="name it once")
        alphabet = 256 if self.initial_alphabet == "bytes" else 0
        if self.limit_alphabet is not None:
            alphabet = min(alphabet, self.limit_alphabet)
        least = alphabet + len(self.special_tokens)
        if self.vocab_size < max(1, least):
            raise ConfigError(
                f"a vocabulary of {self.vocab_size:,} is smaller than its alphabet: {alphabet} bytes and "
                f"{len(self.special_tokens)} special tokens",
                hint=f"set vocab_size to {max(1, least)} or more",
            )
