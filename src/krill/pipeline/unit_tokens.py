"""The token files of a unit while it is encoded, and what its record says.

In: encoded blocks, in order. Out: a file of ids and one of lengths for each split, committed with counts, the
sizes of what was kept, and examples of what was dropped. Held in memory: these.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from krill.pack.masked import is_learned
from krill.pipeline.block_encoder import (
    CUT,
    DROPS,
    LONGER_THAN_ROW,
    OUTCOMES,
    OVER_MAX_TOKENS,
    OVER_QUOTA,
    TOO_FEW,
    TOO_MANY,
    TRAIN,
    BlockEncoder,
    EncodedBlock,
    SeenBlock,
    TokenQuota,
)
from krill.pipeline.distributions import KEPT, KeptSizes
from krill.pipeline.examples import DROPPED, EXAMPLES, ExampleSet, places_of
from krill.pipeline.surviving_units import add_counts
from krill.storage import CommitLog
from krill.storage.commits import UnitFiles


@dataclass(slots=True)
class UnitTokens:
    """The token files of the unit being encoded."""

    position: int
    dataset: int
    quota: TokenQuota
    encoder: BlockEncoder
    known: ExampleSet
    files: UnitFiles
    taken: dict[str, dict[str, int]]
    tokens_dropped: int = 0
    tokens_too_many: int = 0
    trained: int = 0
    bytes_read: int = 0
    full: bool = False
    counts: dict[str, int] = field(default_factory=dict)
    kept: KeptSizes = field(default_factory=KeptSizes)
    examples: ExampleSet = field(default_factory=ExampleSet)
    dropped: ExampleSet = field(default_factory=ExampleSet)
    blocks: int = 0
    documents: int = 0

    @classmethod
    def begin(
        cls,
        log: CommitLog,
        position: int,
        dataset: int,
        quota: TokenQuota,
        encoder: BlockEncoder,
        known: ExampleSet,
    ) -> UnitTokens:
        names = [name for split in encoder.splits for name in token_files(split)]
        names += [OUTCOMES] if encoder.rejected else []
        taken = {split: {"documents": 0, "tokens": 0} for split in encoder.splits}
        return cls(position, dataset, quota, encoder, known, log.begin(position, *names), taken)

    def add(self, block: EncodedBlock) -> None:
        """Append what a block gave, as far as the source's quota goes."""
        self.bytes_read += block.bytes_read
        add_counts(self.counts, block.counts)
        seen, lengths = block.seen, block.lengths
        block = self.quota.take(block)
        self.full = self.quota.full
        outcomes = np.full(seen.documents, OVER_QUOTA, np.uint8)
        outcomes[: len(block.outcomes)] = block.outcomes
        if len(lengths):  # not of a block that was only counted
            self.kept.add(seen.sizes, lengths, seen.languages, outcomes < TOO_FEW)
        self._add_examples(seen, outcomes)
        # A block that was only counted has no tokens.
        for split, (ids, lengths) in zip(self.encoder.splits, block.splits, strict=False):
            for name, values in zip(token_files(split), (ids, lengths), strict=True):
                self.files.write(name, values)
            self.taken[split]["documents"] += len(lengths)
            self.taken[split]["tokens"] += len(ids)
            if self.encoder.chats is not None:
                self.trained += int(is_learned(ids).sum())
        if self.encoder.rejected:
            self.files.write(OUTCOMES, outcomes)
        self._count_dropped(block)

    def _add_examples(self, seen: SeenBlock, outcomes: NDArray[np.uint8]) -> None:
        """Of documents that are dropped here it is noted where they are: their text is not at hand."""
        for chosen in (self.examples, self.known):
            chosen.add_all(seen.examples)
        for code, reason in enumerate(DROPS, start=TOO_FEW):
            rows = np.flatnonzero(outcomes == code)
            if len(rows):
                bound = self.dropped.bound(reason)
                self.dropped.add(reason, places_of(self.position, self.blocks, self.documents, rows, bound))
        self.blocks += 1
        self.documents += seen.documents

    def _count_dropped(self, block: EncodedBlock) -> None:
        too_few, too_many = block.outcomes == TOO_FEW, block.outcomes == TOO_MANY
        longer = block.outcomes == LONGER_THAN_ROW
        reasons = dict(enumerate(DROPS, start=TOO_FEW))
        numbers = {name: int((block.outcomes == code).sum()) for code, name in reasons.items()}
        numbers[OVER_MAX_TOKENS] = block.documents - len(block.outcomes)
        add_counts(self.counts, numbers)
        self.tokens_dropped += int(block.lengths[too_few].sum(dtype="int64"))
        self.tokens_too_many += int(block.lengths[too_many | longer].sum(dtype="int64"))
        if self.encoder.row is not None:
            longer = sum(int((lengths > self.encoder.row).sum()) for _, lengths in block.splits)
            add_counts(self.counts, {CUT: longer})

    def commit(self) -> int:
        return self.files.commit(
            {
                "dataset": self.dataset,
                **self.taken,
                "tokens_dropped": self.tokens_dropped,
                "tokens_too_many": self.tokens_too_many,
                **({} if self.encoder.chats is None else {"trained": self.trained}),
                "bytes_read": self.bytes_read,
                "full": self.full,
                "counts": self.counts,
                KEPT: self.kept.to_json(),
                **self._chosen(),
            }
        )

    def _chosen(self) -> dict[str, Any]:
        if not self.encoder.samples:
            return {}
        return {EXAMPLES: self.examples.to_json(), DROPPED: self.dropped.to_json()}

    def abort(self) -> None:
        self.files.abort()


def token_files(split: str) -> tuple[str, str]:
    """A unit's files of ids and of lengths."""
    prefix = "" if split == TRAIN else f"{split}-"
    return f"{prefix}tokens", f"{prefix}lengths"
