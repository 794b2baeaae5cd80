"""Byte-level BPE, slow and readable: the oracle that the fast counter, trainer and encoder are held to.

In: texts, or words with their counts. Out: a `TrainedBpe`, or ids. Held in memory: everything at once.

`train` counts all pairs anew before each merge, and yet equals Hugging Face's `BpeTrainer`, whose heap
corrects a count only when it comes to the top, never sets the count of a merged pair back, and merges a pair
only in the words where it was first seen. None of that can show, since every token is made by one pair alone:
between two token borders the same bytes are always cut the same way. (Merging two different tokens joins all
their occurrences; merging two equal ones goes through a run from its left, and where a border inside the run
stays, an even number stood before it.) So all occurrences of a pair are born in one merge and die in one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import orjson

from krill.tokenizer.options import TrainOptions
from krill.tokenizer.vocabulary import TrainedBpe, initial_ids, to_bytes

Pair = tuple[int, int]
Word = list[int]


def count_words(pieces: Iterable[str], pattern: str, special_tokens: Sequence[str] = ()) -> dict[bytes, int]:
    """How often each pretoken occurs in the pieces, special tokens cut out of them first."""
    pretokens = _splitter(pattern)
    counts: Counter[bytes] = Counter()
    for piece in pieces:
        for text, is_special in _cut_special_tokens(piece, special_tokens):
            if not is_special:
                counts.update(pretokens(text))
    return dict(counts)


def train(counts: Mapping[bytes, int], options: TrainOptions) -> TrainedBpe:
    """The tokenizer of these words, each weighted by its count."""
    tokens, byte_ids = initial_ids(_count_bytes(counts), options)
    special = len(options.special_tokens)
    alphabet = len(tokens) - special
    spellings, ids = _spellings(tokens, options)
    # A byte that the alphabet left out vanishes, and its neighbours become adjacent.
    words = [
        ([byte_ids[byte] for byte in word if byte_ids[byte] >= 0], count) for word, count in counts.items()
    ]
    merges: list[tuple[int, int, int]] = []
    while len(tokens) < options.vocab_size:
        best = _best_pair(words, spellings, options)
        if best is None:
            break
        joined = spellings[best[0]] + spellings[best[1]]
        new = ids.setdefault(joined, len(tokens))
        if new == len(tokens):
            tokens.append(joined)
            spellings.append(joined)
        merges.append((*best, new))
        words = [(_join(word, best, new), count) for word, count in words]
    return TrainedBpe(options, tokens, special, alphabet, merges)


def encode(trained: TrainedBpe, text: str) -> list[int]:
    """The ids of a text, special tokens in it included."""
    pretokens = _splitter(trained.options.pattern)
    special = {trained.text(identity): identity for identity in range(trained.special)}
    ranks = {(left, right): (rank, new) for rank, (left, right, new) in enumerate(trained.merges)}
    byte_ids = trained.byte_ids()
    ids: list[int] = []
    for part, is_special in _cut_special_tokens(text, list(special)):
        if is_special:
            ids.append(special[part])
            continue
        for pretoken in pretokens(part):
            ids += _encode_word([byte_ids[byte] for byte in pretoken if byte_ids[byte] >= 0], ranks)
    return ids


def _count_bytes(counts: Mapping[bytes, int]) -> list[int]:
    byte_counts = [0] * 256
    for word, count in counts.items():
        for byte in word:
            byte_counts[byte] += count
    return byte_counts


def _spellings(tokens: list[bytes], options: TrainOptions) -> tuple[list[bytes], dict[bytes, int]]:
    """The bytes that each id stands for inside a word, and which id a merge that makes such bytes reuses.

    Hugging Face looks tokens up as mapped text, special ones among them: a token that is spelt like a special
    one is that one. In the course's convention a special token is none of the words' tokens.
    """
    special = len(options.special_tokens)
    spellings = list(tokens)
    ids = {token: identity for identity, token in enumerate(tokens) if identity >= special}
    if options.tie_break == "huggingface":
        for identity, text in enumerate(options.special_tokens):
            spelling = to_bytes(text)
            if spelling is not None:
                spellings[identity] = spelling
                ids[spelling] = identity
    return spellings, ids


def _best_pair(
    words: Sequence[tuple[Word, int]], spellings: Sequence[bytes], options: TrainOptions
) -> Pair | None:
    """The pair to merge next: the most frequent, and of these the one the tie-break names."""
    counts: Counter[Pair] = Counter()
    for word, count in words:
        for pair in pairwise(word):
            counts[pair] += count

    def may_join(left: int, right: int) -> bool:
        length = len(spellings[left]) + len(spellings[right])
        # Hugging Face does not look at the length of what stood there from the start.
        return options.max_token_length is None or length == 2 or length < options.max_token_length

    def preference(pair: Pair) -> tuple[int, object, object]:
        left, right = pair
        if options.tie_break == "greatest":
            return counts[pair], spellings[left], spellings[right]
        return counts[pair], -left, -right

    best = max((pair for pair in counts if may_join(*pair)), key=preference, default=None)
    return None if best is None or counts[best] < max(1, options.min_frequency) else best


def _join(word: Word, pair: Pair, new: int) -> Word:
    """The word with every occurrence of the pair joined, from left to right."""
    joined: Word = []
    for symbol in word:
        # What is already joined is `new`, which is never the left part of its own pair.
        if joined and (joined[-1], symbol) == pair:
            joined[-1] = new
        else:
            joined.append(symbol)
    return joined


def _encode_word(word: Word, ranks: Mapping[Pair, tuple[int, int]]) -> Word:
    """Joins the pair of the lowest rank, the leftmost first, until none is left."""
    while True:
        known = [(ranks[pair], at) for at, pair in enumerate(pairwise(word)) if pair in ranks]
        if not known:
            return word
        (_, new), at = min(known)
        word = [*word[:at], new, *word[at + 2 :]]


def _cut_special_tokens(text: str, special_tokens: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """The text in parts, each with whether it is a special token: the leftmost, and of these the longest."""
    if not special_tokens:
        yield text, False
        return
    longest_first = sorted(special_tokens, key=len, reverse=True)
    parts = re.split(f"({'|'.join(map(re.escape, longest_first))})", text)
    for number, part in enumerate(parts):
        if part:
            yield part, number % 2 == 1


def _splitter(pattern: str) -> Callable[[str], list[bytes]]:
    """Hugging Face's own pre-tokenizer for the pattern: a text to its pretokens."""
    from tokenizers import Tokenizer

    from krill.tokenizer.patterns import pre_tokenizer

    empty = {"type": "BPE", "vocab": {}, "merges": []}
    content = orjson.dumps({"version": "1.0", "pre_tokenizer": pre_tokenizer(pattern), "model": empty})
    splitter = Tokenizer.from_str(content.decode()).pre_tokenizer

    def pretokens(text: str) -> list[bytes]:
        found = [to_bytes(pretoken) for pretoken, _ in splitter.pre_tokenize_str(text)]
        return [pretoken for pretoken in found if pretoken is not None]

    return pretokens
