"""Merging: from an inventory of words to the vocabulary.

In: words and their counts, in a file. Out: a `Trained`. Held in memory: the native trainer within its cap,
and the vocabulary.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from krill import _native
from krill.flow.atomic import storage_errors
from krill.flow.progress import Progress
from krill.tokenizer.alphabet import initial_ids, to_bytes
from krill.tokenizer.block_counter import damaged_spill
from krill.tokenizer.count import Inventory
from krill.tokenizer.options import TrainOptions
from krill.tokenizer.trained import Trained

# Between two looks at the clock and at Ctrl-C.
MERGES_AT_ONCE: Final = 256


def merge(
    inventory: Inventory, options: TrainOptions, cap_bytes: int, progress: Progress
) -> tuple[Trained, dict[str, Any]]:
    """Learn the merges; also returns how the work was done."""
    tokens, byte_ids = initial_ids(inventory.byte_counts, options)
    special = len(options.special_tokens)
    scratch = Path(f"{inventory.path}.scratch")
    try:
        with storage_errors(scratch), damaged_spill(inventory.path.parent):
            trainer = _native.MergeTrainer(
                str(inventory.path),
                np.array(byte_ids, np.int32),
                [*map(_spelling(options), options.special_tokens), *tokens[special:]],
                options.vocab_size,
                options.min_frequency,
                options.max_token_length or 0,
                options.tie_break == "greatest",
                cap_bytes,
                str(scratch),
            )
            while (done := trainer.run(MERGES_AT_ONCE)) > 0:
                progress.advance(done)
    finally:
        Path(f"{scratch}.words").unlink(missing_ok=True)
    merges = [(left, right, new) for left, right, new in trainer.merges().tolist()]
    trained = Trained(
        options, tokens + trainer.tokens()[len(tokens) :], special, len(tokens) - special, merges
    )
    return trained, trainer.statistics()


def _spelling(options: TrainOptions) -> Any:
    """The bytes of a word whose token would be a special token, where there are such: see `reference`."""
    return to_bytes if options.tie_break == "huggingface" else lambda token: None
