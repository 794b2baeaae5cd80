"""What the parts of a training ask of the plan. Nothing is held."""

from __future__ import annotations

from typing import Final

from krill.budget import Need
from krill.corpus import Corpus
from krill.tokenizer.options import TrainOptions
from krill.tokenizer.reading import MAX_DOCUMENT_BYTES, MB

TEXT: Final = "text being counted"
WORDS: Final = "word counts"
VOCABULARY: Final = "vocabulary"
MERGING: Final = "merging"
LEFT: Final = "what counting has left"
SAVING: Final = "saving"

# A block being counted: its text, twice while a reader parses it.
BLOCK_COST: Final = 3 * MB
# Words grow with about the square root of the text; these give 1.6M for 480 MB of multilingual Markdown.
WORDS_FACTOR: Final = 215
WORDS_EXPONENT: Final = 0.446
COUNTED_BYTES_PER_WORD: Final = 45
MERGED_BYTES_PER_WORD: Final = 90
COUNTER_MINIMUM: Final = 4 * MB
# What Python holds of a token, beside the native trainer or while files are written.
BYTES_PER_TOKEN: Final = 700
MERGER_MINIMUM: Final = 12 * MB
# Held above the base when merging begins: 2.0 to 2.4 MB.
LEFT_BYTES: Final = 3 * MB
# Encoding the sample with the finished tokenizer.
ENCODING: Final = 24 * MB


def counting_needs(corpus: Corpus, threads: int) -> list[Need]:
    """To count the words of a corpus."""
    block = 2 * MAX_DOCUMENT_BYTES + corpus.held_bytes
    blocks = BLOCK_COST * (threads + 1)
    counted = COUNTER_MINIMUM + _words(corpus) * COUNTED_BYTES_PER_WORD
    return [
        Need(TEXT, block, useful=2**40, expected=blocks, during="count"),
        Need(WORDS, COUNTER_MINIMUM, useful=2**40, expected=counted, during="count"),
    ]


def gathering_needs() -> list[Need]:
    """To merge what others have counted."""
    return [Need(WORDS, COUNTER_MINIMUM, useful=2**40, during="gather")]


def learning_needs(corpus: Corpus, options: TrainOptions) -> list[Need]:
    """To learn from what was counted, and to save it; the counter is gone then."""
    vocabulary = options.vocab_size * BYTES_PER_TOKEN
    smaller = "set a smaller --vocab-size"
    merged = MERGER_MINIMUM + _words(corpus) * MERGED_BYTES_PER_WORD
    return [
        Need(VOCABULARY, vocabulary, expected=vocabulary, during="merge", remedy=smaller),
        Need(LEFT, LEFT_BYTES, during="merge"),
        Need(MERGING, MERGER_MINIMUM, useful=2**40, expected=merged, during="merge"),
        Need(SAVING, 2 * vocabulary + ENCODING, during="save", remedy=smaller),
    ]


def _words(corpus: Corpus) -> int:
    """How many different ones there will be."""
    text = max(1, sum(file.bytes * (4 if file.compression else 1) for file in corpus.files))
    return int(min(text / 4, WORDS_FACTOR * text**WORDS_EXPONENT))
