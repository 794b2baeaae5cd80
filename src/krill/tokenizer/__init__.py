"""Tokenizers: trained on text, and text turned into token ids.

Training: any corpus in; a vocabulary and a folder that Hugging Face opens out (count -> merge -> files).
Held in memory: a table of words within its cap, then the words as symbols within theirs.

Encoding: columns of text in; one flat array of ids per batch and the length of each document out. Held in
memory: the tokenizer, a cache of words, and what encoding one batch takes; each encoder says how much, so
that the plan can refuse before anything is read.
"""

from typing import TYPE_CHECKING

from krill.lazy import lazy_names
from krill.tokenizer.byte import ByteEncoder as ByteEncoder
from krill.tokenizer.encoder import Encoder as Encoder
from krill.tokenizer.open import open_encoder as open_encoder

if TYPE_CHECKING:
    from krill.compat.bpe import BPE as BPE
    from krill.compat.bpe import MemoryEfficientBPE as MemoryEfficientBPE
    from krill.tokenizer.count import word_counts as word_counts
    from krill.tokenizer.tokenizer import Tokenizer as Tokenizer
    from krill.tokenizer.tokenizer import load as load
    from krill.tokenizer.training import train as train

__getattr__, _lazy = lazy_names(
    __name__,
    {
        "krill.compat.bpe": ("BPE", "MemoryEfficientBPE"),
        "krill.tokenizer.count": ("word_counts",),
        "krill.tokenizer.tokenizer": ("Tokenizer", "load"),
        "krill.tokenizer.training": ("train",),
    },
)
__all__ = ["ByteEncoder", "Encoder", "open_encoder", *_lazy]
