"""What a reader is trained or scored on: features, their tokenizer, endless batches.

In: a cache of features, its tokenizer, the settings; or a saved reader and a cache. Out: the shape of the
reader, or the reason why they don't belong together; for each step the columns of some documents, (documents,
segments, tokens), always of the same size: what a document lacks in segments is masked. Held in memory: the
tokenizer for a moment, the units of the caches that are mapped, and two batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from krill.errors import ConfigError, InputError
from krill.loading.order import Shuffled
from krill.model.recurrent import MemoryTokens, ReaderShape
from krill.qa.batches import BLOCK_ROWS, WINDOW_ROWS, choose_begins
from krill.qa.encoding import open_tokenizer
from krill.qa.layout import memory_token_ids
from krill.qa.stored import StoredFeatures
from krill.qa.tables import NOWHERE
from krill.tokenizer.huggingface import open_library
from krill.tokenizer.tokenizer_file import tokenizer_file
from krill.training.data import Batch, BatchSource
from krill.training.qa.settings import DEFAULT_SLOTS, ReaderSettings

Numbers = npt.NDArray[np.int64]
# Mapped units of the cache: enough that a shuffled window does not read them repeatedly.
MAPPED_BYTES: Final = 64_000_000
# Batches in memory: the one in training, the next one, and what the allocator keeps of earlier ones.
_BATCHES: Final = 4
_COLUMN_BYTES: Final = 4
# What an evaluation's cache may have mapped: it is read in order.
EVALUATION_BYTES: Final = 32_000_000


@dataclass(frozen=True, slots=True)
class ReaderTokenizer:
    """What a reader needs to know of the tokenizer of its features."""

    file: Path
    fingerprint: str
    vocab_size: int
    reads: tuple[int, ...]
    writes: tuple[int, ...]


def inspect_tokenizer(path: str | Path) -> ReaderTokenizer:
    file = tokenizer_file(path)
    library = open_library(file)
    reads, writes = memory_token_ids(library)
    size = int(library.get_vocab_size(with_added_tokens=True))
    return ReaderTokenizer(file, open_tokenizer(file).fingerprint, size, tuple(reads), tuple(writes))


def design_for(stored: StoredFeatures, tokenizer: ReaderTokenizer, settings: ReaderSettings) -> ReaderShape:
    """The reader of some features; refused if another tokenizer made them."""
    remedy = "give the tokenizer.json that `krill qa prepare` was given, or prepare the features again"
    check_tokenizer(stored, tokenizer.fingerprint, f"the tokenizer `{tokenizer.file}`", remedy)
    memory = _memory_tokens(tokenizer, settings.memory_tokens)
    own_ids = 2 * memory.slots if memory.around else 0
    encoder = settings.encoder(tokenizer.vocab_size + own_ids)
    types = (stored.layout.pad_type, *(piece.type_id for piece in stored.layout.pieces))
    return ReaderShape(encoder, stored.width, memory, max(types) + 1)


def check_tokenizer(stored: StoredFeatures, fingerprint: str, what: str, remedy: str) -> None:
    """Refuse features that were made by another tokenizer: their ids would mean other words."""
    if stored.manifest["tokenizer"]["fingerprint"] != fingerprint:
        raise InputError(
            f"the features `{stored.folder}` were made by another tokenizer than {what}", hint=remedy
        )


def check_fits(stored: StoredFeatures, design: ReaderShape, fingerprint: str, model: str) -> None:
    """Refuse features that a trained reader can't read."""
    remedy = "prepare them with the tokenizer.json beside the model"
    check_tokenizer(stored, fingerprint, f"that of {model}", remedy)
    if stored.width > design.length:
        raise InputError(
            f"the features `{stored.folder}` have {stored.width:,} tokens, {model} was trained on"
            f" {design.length:,}",
            hint=f"prepare them with --max-seq-length {design.length}",
        )


def _memory_tokens(tokenizer: ReaderTokenizer, wanted: int | None) -> MemoryTokens:
    own = len(tokenizer.reads)
    if wanted == 0:
        return MemoryTokens()
    if own == 0:
        return MemoryTokens.behind(tokenizer.vocab_size, DEFAULT_SLOTS if wanted is None else wanted)
    if wanted is not None and wanted != own:
        raise ConfigError(
            f"`memory_tokens` is `{wanted}`, and the features have {own} memory tokens to read",
            hint=f"leave it out, give {own}, or 0 for a reader without memory",
        )
    return MemoryTokens(tokenizer.reads, tokenizer.writes)


class ReaderData(BatchSource):
    """Batches over a cache of features; the documents of a step follow from seed and step alone."""

    def __init__(self, folder: Path, settings: ReaderSettings, *, verify: bool = True) -> None:
        self.stored = StoredFeatures(folder, MAPPED_BYTES, verify=verify)
        self.documents = settings.batch_size
        self._settings = settings
        self._taken = 0
        _check(self.stored, folder)
        longest = most_segments(self.stored)
        self.segments = min(longest, settings.max_segments or longest)
        self.held_bytes = self.expected_bytes = self._most_held()
        self._order = Shuffled(self.stored.documents, BLOCK_ROWS, WINDOW_ROWS)

    @property
    def length(self) -> int:
        return self.stored.width

    @property
    def steps_per_epoch(self) -> int:
        """Batches of an epoch; the last is filled up from the next one."""
        return -(-self.stored.documents // self.documents)

    def _most_held(self) -> int:
        rows = self.documents * self.segments
        units = np.array(self.stored.manifest["units"], np.int64).reshape(-1, 4)[:, 3]
        mapped = min(int(units.sum()), max(MAPPED_BYTES, 2 * int(units.max(initial=0))))
        return mapped + _BATCHES * rows * (3 * self.length + 4) * _COLUMN_BYTES

    def batches(self) -> Iterator[Batch]:
        while True:
            batch = self._batch(self._taken)
            self._taken += 1
            yield batch

    def state_dict(self) -> dict[str, Any]:
        return {"batches": self._taken}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._taken = int(state["batches"])

    def _batch(self, number: int) -> Batch:
        """The documents at their places in the endless row of epochs, with what is drawn for each epoch."""
        places = np.arange(number * self.documents, (number + 1) * self.documents)
        epochs = places // self.stored.documents
        chosen = []
        for epoch in np.unique(epochs).tolist():
            own = places[epochs == epoch] - epoch * self.stored.documents
            key = self._settings.seed, epoch
            documents = self._order.rows(key, int(own[0]), int(own[-1]) + 1)
            chosen.append(self._features(documents, key))
        return columns_of(self.stored, np.concatenate(chosen))

    def _features(self, documents: Numbers, key: tuple[int, int]) -> Numbers:
        """Which features are read of each document, (documents, segments); -1 where it has ended."""
        firsts, counts = self.stored.document_features(documents)
        begins = choose_begins(
            self._settings.segment_selection,
            counts,
            self.segments,
            answered=lambda place: self._answered(int(firsts[place]), int(counts[place])),
            documents=documents,
            key=key,
        )
        segment = np.arange(self.segments)
        return np.where(segment < counts[:, None], (firsts + begins)[:, None] + segment, -1)

    def _answered(self, first: int, count: int) -> list[int]:
        unit, row = self.stored.unit_of_feature(first)
        return [int(found) for found in np.flatnonzero(unit.features.first[row : row + count] != NOWHERE)]


def columns_of(stored: StoredFeatures, features: Numbers) -> Batch:
    """Features as a reader takes them: columns (documents, segments, …)."""
    rows = stored.rows(features.reshape(-1), offsets=False)
    return {
        "input_ids": rows.input_ids.reshape(*features.shape, -1),
        "attention_mask": rows.attention_mask.reshape(*features.shape, -1),
        "token_type_ids": rows.token_type_ids.reshape(*features.shape, -1),
        "start_positions": rows.start_positions.reshape(features.shape),
        "end_positions": rows.end_positions.reshape(features.shape),
        "cls_index": rows.cls_index.reshape(features.shape),
        "document_mask": features >= 0,
    }


def most_segments(stored: StoredFeatures) -> int:
    """The segments of the longest document."""
    return max(
        int(np.bincount(stored.unit(number).features.example).max(initial=0))
        for number in range(len(stored.first_example) - 1)
    )


def _check(stored: StoredFeatures, folder: Path) -> None:
    """Refuse features without documents or answers."""
    if stored.documents == 0:
        raise InputError(f"`{folder}` has no features", hint="prepare it from a source with questions")
    units = range(len(stored.first_example) - 1)
    if not any((stored.unit(number).features.first != NOWHERE).any() for number in units):
        raise InputError(
            f"no feature of `{folder}` has an answer: there is nothing to learn",
            hint="prepare it from questions with `answers`; see what `krill qa prepare` counted",
        )
