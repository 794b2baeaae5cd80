"""Encode: the kept documents of each unit become runs of tokens, one for each split.

Leaves for each unit a file of ids in the dataset's token type and a file of document lengths, and two more
for a validation split. Documents with fewer than `min_length` or more than `max_length` tokens, BOS and EOS
included, are dropped here and counted. So are those of a source beyond its `max_tokens`: it ends before the
first document of the training split that would exceed them, in all splits.

Whether a document is for validation is told by a hash of its cleaned text alone: it stays where it is when
the corpus grows, and copies stay together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from krill.corpus.buffers import text_buffers
from krill.corpus.documents import OFFSET_BITS
from krill.pack import TokenRuns
from krill.pipeline.context import Context
from krill.pipeline.kept import KeptBlock, KeptUnits
from krill.pipeline.needs import encode_cost
from krill.pipeline.survivors import add_counts
from krill.storage import CommitLog
from krill.storage.commits import UnitFiles, reading_artifact
from krill.tokenizer import Encoder
from krill.tokenizer.document_errors import naming_document

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from krill.corpus import CorpusFile

TRAIN: Final = "train"
VALIDATION: Final = "validation"
# What becomes of a document: one of the splits by its place, or one of the reasons.
_SPLITS: Final = (TRAIN, VALIDATION)
_TOO_FEW: Final = 2
_TOO_MANY: Final = 3
_OVER: Final = 4
OVER_MAX_TOKENS: Final = "over_max_tokens"
DROPS: Final = ("too_few_tokens", "too_many_tokens", OVER_MAX_TOKENS)
"""Reasons for which documents are dropped in this stage and in no other."""
FATES: Final = "fates"
"""A unit's file of what became of each document, where somebody wants to see those that were dropped."""
CUT: Final = "cut_into_rows"
"""Counts documents that are longer than a row, where rows end with documents."""
# Of the hash that chooses the split; that of dedup has another.
_SPLIT_SEED: Final = 0x5EED


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a block is encoded. `bos` is put before each document, `validation` is the share of documents that
    are kept apart, and documents above `row` tokens are counted, where they are cut."""

    encoder: Encoder
    dtype: str
    min_length: int
    max_length: int | None
    bos: int | None
    validation: float
    row: int | None
    rejected: bool = False
    """Whether the documents that are dropped are wanted."""

    @property
    def splits(self) -> tuple[str, ...]:
        return _SPLITS if self.validation else (TRAIN,)

    def encode(self, text: pa.Array) -> tuple[NDArray[Any], NDArray[np.uint32]]:
        """Ids and lengths with BOS and EOS, in the type that the tokenizer gives."""
        from krill import _native

        ids, lengths = self.encoder.encode(text)
        return (ids, lengths) if self.bos is None else _native.begin_runs(ids, lengths, self.bos)

    def fates(self, text: pa.Array, lengths: NDArray[np.uint32]) -> NDArray[np.uint8]:
        """What becomes of each document."""
        import numpy as np

        from krill import _native

        fates = np.zeros(len(lengths), np.uint8)
        if self.validation:
            hashes = _native.hash_documents(*text_buffers(text), _SPLIT_SEED)[:, 0]
            fates[hashes < np.uint64(int(self.validation * 2**64))] = _SPLITS.index(VALIDATION)
        if self.max_length is not None:
            fates[lengths > self.max_length] = _TOO_MANY
        fates[lengths < max(1, self.min_length)] = _TOO_FEW
        return fates


@dataclass(frozen=True, slots=True)
class Encoded:
    """What one block gave: all documents' fates and lengths, and the ids and lengths of each split.

    Of a block that was only counted, as its source is full, there is no fate and no run.
    """

    documents: int
    bytes_read: int
    counts: Mapping[str, int]
    fates: NDArray[np.uint8]
    lengths: NDArray[np.uint32]
    runs: tuple[tuple[NDArray[Any], NDArray[np.uint32]], ...] = ()

    def until(self, document: int) -> Encoded:
        """The same without the documents from this one on."""
        fates, lengths = self.fates[:document], self.lengths[:document]
        runs = []
        for split, (ids, run_lengths) in enumerate(self.runs):
            chosen = fates == split
            runs.append((ids[: lengths[chosen].sum(dtype="int64")], run_lengths[: chosen.sum()]))
        return Encoded(self.documents, self.bytes_read, self.counts, fates, lengths, tuple(runs))


class Ration:
    """What a source may still give to the training split; blocks must come in order."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._taken = 0
        self.full = False

    def resume(self, record: Mapping[str, Any]) -> None:
        """Count what a unit that is done has taken."""
        self._taken += record[TRAIN]["tokens"]
        self.full = self.full or record["full"]

    def take(self, piece: Encoded) -> Encoded:
        """The documents of a block that are still within the ration."""
        import numpy as np

        if self.full:
            return piece.until(0)
        if self._most is None:
            return piece
        ends = self._taken + np.cumsum(np.where(piece.fates == 0, piece.lengths, 0), dtype=np.int64)
        cut = int(ends.searchsorted(self._most, side="right"))
        if cut < len(ends):
            self.full = True
            piece = piece.until(cut)
        self._taken = int(ends[cut - 1]) if cut else self._taken
        return piece


def encode(
    context: Context, log: CommitLog, units: KeptUnits, recipe: Recipe, positions: Sequence[int]
) -> None:
    """Encode those of the units at `positions` that `log` doesn't have.

    Of a source that is rationed, they are all of its units.
    """
    rations = [Ration(dataset.max_tokens) for dataset in context.config.datasets]
    if any(dataset.max_tokens is not None for dataset in context.config.datasets):
        for _, record in log:
            rations[record["dataset"]].resume(record)

    def dataset_of(position: int) -> int:
        return context.corpus.files[position >> OFFSET_BITS].dataset

    def work(item: tuple[Ration, KeptBlock]) -> Encoded:
        return _encode_block(item[1], recipe, context.corpus.files, counting=item[0].full)

    def begin(position: int) -> _UnitRun:
        dataset = dataset_of(position)
        return _UnitRun.begin(log, position, dataset, rations[dataset], recipe)

    todo = (
        (position, zip(repeat(rations[dataset_of(position)]), units.blocks(position), strict=False))
        for position in positions
        if position not in log
    )
    context.make_units(
        todo,
        begin,
        work,
        in_flight=context.plan.share("blocks being encoded"),
        size=lambda item: encode_cost(item[1].nbytes),
    )


def _encode_block(
    block: KeptBlock, recipe: Recipe, files: Sequence[CorpusFile], *, counting: bool
) -> Encoded:
    import numpy as np

    from krill import _native

    batch, counts = block.read()
    text = batch.column("text")
    read = int(text.nbytes)
    if counting:  # its source is full: nothing of it is wanted but its number
        return Encoded(len(text), read, counts, np.empty(0, np.uint8), np.empty(0, np.uint32))
    with naming_document(files, batch.column("position")):
        ids, lengths = recipe.encode(text)
    fates = recipe.fates(text, lengths)
    runs = []
    for split in range(len(recipe.splits)):
        chosen = fates == split
        run = (ids, lengths)
        if not chosen.all():
            run = _native.select_runs(ids, lengths, chosen.view(np.uint8))
        runs.append((run[0].astype(recipe.dtype, copy=False), run[1]))
    return Encoded(len(text), read, counts, fates, lengths, tuple(runs))


@dataclass(slots=True)
class _UnitRun:
    """The runs of the unit being encoded."""

    dataset: int
    ration: Ration
    recipe: Recipe
    files: UnitFiles
    taken: dict[str, dict[str, int]]
    tokens_dropped: int = 0
    tokens_too_many: int = 0
    bytes_read: int = 0
    full: bool = False
    counts: dict[str, int] = field(default_factory=dict)

    @classmethod
    def begin(cls, log: CommitLog, position: int, dataset: int, ration: Ration, recipe: Recipe) -> _UnitRun:
        """Open the files of a unit."""
        names = [name for split in recipe.splits for name in run_files(split)]
        names += [FATES] if recipe.rejected else []
        taken = {split: {"documents": 0, "tokens": 0} for split in recipe.splits}
        return cls(dataset, ration, recipe, log.begin(position, *names), taken)

    def add(self, piece: Encoded) -> None:
        """Append what a block gave, as far as the source's ration goes."""
        self.bytes_read += piece.bytes_read
        add_counts(self.counts, piece.counts)
        piece = self.ration.take(piece)
        self.full = self.ration.full
        # A block that was only counted has no runs.
        for split, (ids, lengths) in zip(self.recipe.splits, piece.runs, strict=False):
            for name, values in zip(run_files(split), (ids, lengths), strict=True):
                self.files.write(name, values)
            self.taken[split]["documents"] += len(lengths)
            self.taken[split]["tokens"] += len(ids)
        if self.recipe.rejected:
            self.files.write(FATES, piece.fates)
            self.files.write(FATES, bytes([_OVER]) * (piece.documents - len(piece.fates)))
        self._count_dropped(piece)

    def _count_dropped(self, piece: Encoded) -> None:
        too_few, too_many = piece.fates == _TOO_FEW, piece.fates == _TOO_MANY
        add_counts(
            self.counts,
            {
                "too_few_tokens": int(too_few.sum()),
                "too_many_tokens": int(too_many.sum()),
                OVER_MAX_TOKENS: piece.documents - len(piece.fates),
            },
        )
        self.tokens_dropped += int(piece.lengths[too_few].sum(dtype="int64"))
        self.tokens_too_many += int(piece.lengths[too_many].sum(dtype="int64"))
        if self.recipe.row is not None:
            longer = sum(int((lengths > self.recipe.row).sum()) for _, lengths in piece.runs)
            add_counts(self.counts, {CUT: longer})

    def commit(self) -> int:
        """The unit is done; returns what it keeps on disk."""
        return self.files.commit(
            {
                "dataset": self.dataset,
                **self.taken,
                "tokens_dropped": self.tokens_dropped,
                "tokens_too_many": self.tokens_too_many,
                "bytes_read": self.bytes_read,
                "full": self.full,
                "counts": self.counts,
            }
        )

    def abort(self) -> None:
        """Leave nothing behind."""
        self.files.abort()


def dropped_codes(log: CommitLog, unit: int) -> NDArray[np.uint8]:
    """For each document of a unit 0, or the number (from 1) of the reason in `DROPS` why it was dropped."""
    import numpy as np

    path = log.path(unit, FATES)
    with reading_artifact(path):
        fates = np.fromfile(path, np.uint8)
    return np.where(fates < _TOO_FEW, 0, fates - np.uint8(_TOO_FEW - 1)).astype(np.uint8)


def run_files(split: str) -> tuple[str, str]:
    """A unit's files of ids and of lengths."""
    prefix = "" if split == TRAIN else f"{split}-"
    return f"{prefix}tokens", f"{prefix}lengths"


def run_path(log: CommitLog, split: str, unit: int, name: str) -> Path:
    """Where a unit's `tokens` or `lengths` of a split are."""
    return log.path(unit, run_files(split)[("tokens", "lengths").index(name)])


def token_runs(log: CommitLog, split: str, dataset: int | None = None) -> TokenRuns:
    """The finished runs of a split, for packing: of one source, or of all."""
    import numpy as np

    records = [
        (unit, record[split]["tokens"], record[split]["documents"])
        for unit, record in log
        if dataset is None or record["dataset"] == dataset
    ]
    units, tokens, documents = zip(*records, strict=True) if records else ((), (), ())
    return TokenRuns(
        partial(run_path, log, split),
        np.array(units, np.uint64),
        np.array(tokens, np.int64),
        np.array(documents, np.int64),
    )
