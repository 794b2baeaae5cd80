"""What shapes a trained tokenizer. Memory and threads are not here: they never do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

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
        self._check_special_tokens()
        _check_choice("tie_break", self.tie_break, get_args(TieBreak))
        _check_choice("boundaries", self.boundaries, get_args(Boundaries))
        _check_least("min_frequency", self.min_frequency, 0)
        _check_least("max_token_length", self.max_token_length, 1)
        _check_least("limit_alphabet", self.limit_alphabet, 0)
        self._check_vocab_size()

    def _check_special_tokens(self) -> None:
        seen = set()
        for token in self.special_tokens:
            if not token:
                raise ConfigError("a special token is empty", hint="give each one at least one character")
            if token in seen:
                raise ConfigError(f"the special token `{token}` is given twice", hint="name it once")
            seen.add(token)
            try:
                token.encode()
            except UnicodeEncodeError:
                raise ConfigError(
                    f"the special token {token!a} is not Unicode text", hint="write it in UTF-8"
                ) from None

    def _check_vocab_size(self) -> None:
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


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(f"{name} is `{value}`", hint=f"give one of {', '.join(choices)}")


def _check_least(name: str, value: int | None, least: int) -> None:
    if value is not None and value < least:
        raise ConfigError(f"{name} is {value}", hint=f"give {least} or more")
