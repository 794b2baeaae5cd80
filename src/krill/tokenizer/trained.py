"""What a training makes, before it is written to any file.

In: what a trainer or a reader of files found. Out: plain lists that other parts take. Held in memory: the
vocabulary, about 150 bytes a token.
"""

from __future__ import annotations

from dataclasses import dataclass

from krill.tokenizer.alphabet import BYTE_ORDER, to_text
from krill.tokenizer.options import TrainOptions


@dataclass(frozen=True)
class Trained:
    """A trained byte-level BPE: special tokens, then single bytes, then what merges made."""

    options: TrainOptions
    tokens: list[bytes]
    """By id; a special token is the UTF-8 of its text."""
    special: int
    """How many of the first ids are special tokens, in the order given."""
    alphabet: int
    """How many ids after those are single bytes."""
    merges: list[tuple[int, int, int]]
    """(left id, right id, new id) by rank; each pair once."""

    def text(self, identity: int) -> str:
        """A token as files spell it: special tokens as they are, others in mapped text."""
        token = self.tokens[identity]
        return token.decode("utf-8") if identity < self.special else to_text(token)

    def byte_ids(self) -> list[int]:
        """The id of each byte, -1 if the alphabet has it not."""
        ids = [-1] * 256
        letters = range(self.special, self.special + self.alphabet)
        for identity in letters:
            ids[self.tokens[identity][0]] = identity
        if self.options.tie_break == "huggingface":
            special = {token: identity for identity, token in enumerate(self.tokens[: self.special])}
            for byte in BYTE_ORDER:
                shared = special.get(to_text(bytes([byte])).encode("utf-8"))
                if shared is not None:
                    ids[byte] = shared
        return ids
