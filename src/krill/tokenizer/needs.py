"""What the parts of a training ask of the plan. Nothing is held."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from krill.budget import Meter, Need
from krill.corpus import Corpus
from krill.errors import BudgetError
from krill.tokenizer.options import TrainOptions

MB: Final = 10**6
# Documents of formats with records above this size are split, as everywhere in Krill; plain text never is.
MAX_DOCUMENT_BYTES: Final = 4 * MB

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
# The native trainer's own for each token (native/bpe/merge_trainer.cpp), and what it needs besides: with
# less, pairs are counted in thousands of passes.
MERGER_BYTES_PER_TOKEN: Final = 260
MERGER_BESIDE_TOKENS: Final = 6 * MB
# Held above the base when merging begins: up to 6.4 MB.
LEFT_BYTES: Final = 7 * MB
# Encoding the sample with the finished tokenizer, at the most.
ENCODING: Final = 24 * MB
# What merging really holds: for each symbol of the different words while pairs are first counted, or less of
# that with the tokens at the end. Measured from 0.5 to 10 million symbols, with 1,000 and 32,000 tokens.
MERGED: Final = (6 * MB, 8.5, 7.5)
MANY_SYMBOLS: Final = 4_000_000
# What several threads have counted lies in another order each time: 13 million symbols then took 163 to
# 181 MB in all, and 164 of one thread.
MERGED_OF_THREADS: Final = 8.2
LEARNED: Final = (5 * MB, 6.0, 560)
SAVED: Final = (11 * MB, 950)
# Of little text, less of it is encoded with the finished tokenizer: so much, and so much for each byte. With
# 3 MB of text and 32,000 tokens, saving held 36 to 37 MB above the base.
SAVED_OF_LITTLE: Final = (5 * MB, 2.2)


def counting_needs(corpus: Corpus | None, threads: int) -> list[Need]:
    """To count the words of a corpus, or the least for any."""
    block = 2 * MAX_DOCUMENT_BYTES + (0 if corpus is None else corpus.held_bytes)
    blocks = BLOCK_COST * (threads + 1)
    counted = COUNTER_MINIMUM + _words(corpus) * COUNTED_BYTES_PER_WORD
    return [
        Need(TEXT, block, useful=2**40, expected=blocks, during="count"),
        Need(WORDS, COUNTER_MINIMUM, useful=2**40, expected=counted, during="count"),
    ]


def gathering_needs() -> list[Need]:
    """To merge what others have counted."""
    return [Need(WORDS, COUNTER_MINIMUM, useful=2**40, during="gather")]


def learning_needs(corpus: Corpus | None, options: TrainOptions) -> list[Need]:
    """To merge what was counted, and to save it; the counter is freed by then."""
    vocabulary = options.vocab_size * BYTES_PER_TOKEN
    smaller = "set a smaller --vocab-size"
    least = max(MERGER_MINIMUM, options.vocab_size * MERGER_BYTES_PER_TOKEN + MERGER_BESIDE_TOKENS)
    merged = least + _words(corpus) * MERGED_BYTES_PER_WORD
    return [
        Need(VOCABULARY, vocabulary, expected=vocabulary, during="merge", remedy=smaller),
        Need(LEFT, LEFT_BYTES, during="merge"),
        Need(MERGING, least, useful=2**40, expected=merged, during="merge", remedy=smaller),
        Need(SAVING, 2 * vocabulary + ENCODING, during="save", remedy=smaller),
    ]


def counted_needs(
    text_bytes: int, words: int, symbols: int, options: TrainOptions, threads: int
) -> list[Need]:
    """What so much text, and so many different words and symbols in them, will make of the shares: for the
    prediction, when they are counted and before they are merged."""
    first, few, many = MERGED
    many = MERGED_OF_THREADS if threads > 1 else many
    merging = first + few * min(symbols, MANY_SYMBOLS) + many * max(0, symbols - MANY_SYMBOLS)
    last, each, token = LEARNED
    learning = last + each * symbols + token * options.vocab_size
    fixed, saved = SAVED
    little, each_byte = SAVED_OF_LITTLE
    fixed = min(fixed, little + int(each_byte * text_bytes))
    return [
        Need(WORDS, 0, expected=COUNTER_MINIMUM + words * COUNTED_BYTES_PER_WORD, during="count"),
        Need(VOCABULARY, 0, expected=0, during="merge"),
        Need(MERGING, 0, expected=int(max(merging, learning)), during="merge"),
        Need(SAVING, 0, expected=fixed + saved * options.vocab_size, during="save"),
    ]


def training_needs(corpus: Corpus | None, options: TrainOptions, threads: int | None) -> list[Need]:
    """Of a process that counts on so many threads and learns; without threads, an engine's workers count."""
    learning = learning_needs(corpus, options)
    return learning if threads is None else counting_needs(corpus, threads) + learning


def refuse_early(
    meter: Meter, needs: Callable[[Corpus | None], Sequence[Need]], opened: Callable[[], Corpus]
) -> None:
    """Refuse a budget that is too small for any corpus; the message states what the one `opened` needs."""
    try:
        meter.plan(needs(None))
    except BudgetError:
        meter.plan(needs(opened()))
        raise


def _words(corpus: Corpus | None) -> int:
    """How many different ones there will be."""
    if corpus is None:
        return 0
    text = max(1, sum(file.bytes * (4 if file.compression else 1) for file in corpus.files))
    return int(min(text / 4, WORDS_FACTOR * text**WORDS_EXPONENT))
