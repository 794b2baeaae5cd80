"""Tokenizers: text in, token ids out.

In: columns of cleaned text. Out: one flat array of ids per batch and the length of each document, EOS
included. Held in memory: the tokenizer, and what encoding one batch takes; each encoder says how much
through `needs`, so that the plan can refuse before anything is read.
"""

from krill.tokenizer.byte import ByteEncoder
from krill.tokenizer.encoder import Encoder
from krill.tokenizer.open import open_encoder

__all__ = ["ByteEncoder", "Encoder", "open_encoder"]
