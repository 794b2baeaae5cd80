"""Merging: from word counts to the vocabulary.

In: words and their counts, in a file. Out: a `TrainedBpe`. Held in memory: the native trainer within its cap,
and the vocabulary.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from krill import _native
from krill.budget import format_size
from krill.storage.atomic import storage_errors
from krill.threads.progress import Progress
from krill.tokenizer.count import WordCounts
from krill.tokenizer.options import TrainOptions
from krill.tokenizer.vocabulary import TrainedBpe, initial_ids, to_bytes
from krill.tokenizer.word_counter import damaged_spill

# Between two checks for Ctrl-C, whichever comes first.
MERGES_AT_ONCE: Final = 256
SECONDS_AT_ONCE: Final = 0.5
# How fast words are scanned: 110 MB of them took about 0.3 s from a file in the page cache, and 20 ms in
# memory, where 743 merges of 54 MB of Chinese took 7 s, 240 scans and four searches for the best pairs.
_DISK_RATE: Final = 350e6
_MEMORY_RATE: Final = 6e9
# A merging that will take less is not worth a line.
_SLOW_SECONDS: Final = 20


def merge(
    word_counts: WordCounts, options: TrainOptions, cap_bytes: int, progress: Progress
) -> tuple[TrainedBpe, dict[str, Any]]:
    """Learn the merges; also returns how the work was done."""
    tokens, byte_ids = initial_ids(word_counts.byte_counts, options)
    special = len(options.special_tokens)
    scratch = Path(f"{word_counts.path}.scratch")
    try:
        with storage_errors(scratch), damaged_spill(word_counts.path.parent):
            trainer = _native.MergeTrainer(
                str(word_counts.path),
                np.array(byte_ids, np.int32),
                [*map(_spelling(options), options.special_tokens), *tokens[special:]],
                options.vocab_size,
                options.min_frequency,
                options.max_token_length or 0,
                options.tie_break == "greatest",
                cap_bytes,
                str(scratch),
            )
            slow = _slow_notice(trainer.statistics(), options.vocab_size - len(tokens), cap_bytes)
            if slow is not None:
                progress.note(slow)
            while (done := trainer.run(MERGES_AT_ONCE, SECONDS_AT_ONCE)) > 0:
                progress.advance(done)
    finally:
        Path(f"{scratch}.words").unlink(missing_ok=True)
    merges = [(left, right, new) for left, right, new in trainer.merges().tolist()]
    trained = TrainedBpe(
        options, tokens + trainer.tokens()[len(tokens) :], special, len(tokens) - special, merges
    )
    return trained, trainer.statistics()


def _slow_notice(statistics: dict[str, Any], to_learn: int, cap_bytes: int) -> str | None:
    """A notice where most merges must scan all words: what that costs, and how much memory would avoid it."""
    words, on_disk = statistics["word_bytes"], statistics["on_disk"]
    each = words / (_DISK_RATE if on_disk else _MEMORY_RATE)
    more = -(-(statistics["ample_bytes"] - cap_bytes) // 10**6)
    if more <= 0 or 4 * statistics["posted_pairs"] >= to_learn or each * to_learn < _SLOW_SECONDS:
        return None
    where = "stay on disk" if on_disk else "leave no room for the places of pairs"
    return (
        f"merging will be slow: the different words ({format_size(words)}) {where}, so many merges scan"
        f" all of them, about {max(1, int(1 / each)):,} a second; with {more:,} MB more --memory"
        " they would not"
    )


def _spelling(options: TrainOptions) -> Any:
    """The bytes of a word whose token would be a special token, where there are such."""
    return to_bytes if options.tie_break == "huggingface" else lambda token: None
