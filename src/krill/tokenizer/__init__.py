"""Tokenizers: trained on text, and text turned into token ids.

Training: any corpus in; a vocabulary and a folder that Hugging Face opens out (count -> merge -> files).
Held in memory: a table of words within its cap, then the words as symbols within theirs.

Encoding: columns of text in; one flat array of ids per batch and the length of each document out. Held in
memory: the tokenizer, a cache of words, and what encoding one batch takes; each encoder says how much, so
that the plan can refuse before anything is read.
"""

from typing import TYPE_CHECKING

from krill.lazy import lazy_names
from krill.tokenizer.byte import ByteEncoder
from krill.tokenizer.encoder import Encoder
from krill.tokenizer.open import open_encoder

if TYPE_CHECKING:
    from krill.compat.bpe import BPE, MemoryEfficientBPE
    from krill.tokenizer.tokenizer import Tokenizer, load
    from krill.tokenizer.training import train
    from krill.tokenizer.words import word_counts

__all__ = [
    "BPE",
    "ByteEncoder",
    "Encoder",
    "MemoryEfficientBPE",
    "Tokenizer",
    "load",
    "open_encoder",
    "train",
    "word_counts",
]

__getattr__ = lazy_names(
    __name__,
    {
        "krill.compat.bpe": ("BPE", "MemoryEfficientBPE"),
        "krill.tokenizer.tokenizer": ("Tokenizer", "load"),
        "krill.tokenizer.training": ("train",),
        "krill.tokenizer.words": ("word_counts",),
    },
)
