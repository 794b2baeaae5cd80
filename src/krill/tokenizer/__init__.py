"""Tokenizers: trained on text, and text turned into token ids.

Training: any corpus in; a vocabulary and a folder that Hugging Face opens out (count -> merge -> files).
Held in memory: a table of words within its cap, then the words as symbols within theirs.

Encoding: columns of text in; one flat array of ids per batch and the length of each document out. Held in
memory: the tokenizer, a cache of words, and what encoding one batch takes; each encoder says how much, so
that the plan can refuse before anything is read.
"""

from typing import TYPE_CHECKING

from krill.lazy import lazy_attributes
from krill.tokenizer.byte import ByteEncoder
from krill.tokenizer.encoder import Encoder
from krill.tokenizer.open import open_encoder

if TYPE_CHECKING:
    from krill.compat.bpe import BPE, MemoryEfficientBPE
    from krill.tokenizer.count import word_counts
    from krill.tokenizer.tokenizer import Tokenizer, load
    from krill.tokenizer.training import train

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

__getattr__ = lazy_attributes(
    __name__,
    {
        "BPE": "krill.compat.bpe",
        "MemoryEfficientBPE": "krill.compat.bpe",
        "Tokenizer": "krill.tokenizer.tokenizer",
        "load": "krill.tokenizer.tokenizer",
        "train": "krill.tokenizer.training",
        "word_counts": "krill.tokenizer.count",
    },
)
