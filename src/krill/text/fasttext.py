"""fastText models: documents are scored, and kept or dropped by the scores of labels.

In: cleaned documents, and the file of a supervised model (`.bin`, quantised `.ftz`; versions 11 and 12).
Out: the documents that `keep` or `remove` leave, with the scores as columns if asked; or their languages,
for `language.py`. Held in memory: the model (`model_bytes`, known from its header and size before it is
read), and scratch for a document (`SCRATCH_PER_BYTE`). The reference is `tests/oracles/fasttext.py`;
fastText itself gives the same scores: `tests/parity/test_parity_fasttext.py`.

Counted: `fasttext_not_kept` is rows that reach no threshold of `keep`, `fasttext_removed` those that reach
one of `remove`. Measured: `fasttext_LABEL`, the score of each label that is named.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from krill import _native
from krill.budget import Need
from krill.config import filters
from krill.config.fields import Section
from krill.config.keys import nearest
from krill.config.messages import MOST_LISTED, listed
from krill.config.web_filters import LABEL_PREFIX, FastText
from krill.corpus.arrays import as_arrow
from krill.corpus.buffers import text_buffers
from krill.corpus.documents import Documents
from krill.corpus.long_records import LongRecords
from krill.errors import ConfigError, InputError
from krill.text.step import drop, with_new_statistics

REASONS: Final[Mapping[str, str]] = {
    "fasttext_not_kept": "fastText: no label of `keep` is likely enough",
    "fasttext_removed": "fastText: a label of `remove` is likely",
}

FASTTEXT_MODELS: Final = "fastText models"
# Of a model in memory, besides the bytes of its file: an entry's place and its slots in a table that is
# at least 3/8 full, then the slots of a pruned bucket, then what every model has.
ENTRY_BYTES: Final = 28
PRUNED_BYTES: Final = 22
MODEL_BYTES: Final = 3_000_000
# While a document is scored: the hashes of its words, at most one for every two bytes, in a buffer that
# grows by halves; and the document without its line ends.
SCRATCH_PER_BYTE: Final = 4
EXPECTED_SCRATCH_BYTES: Final = 300_000

_HEADER: Final = struct.Struct("<2i12id3i2q")
_LEAST_ENTRY: Final = 10
_PAIR: Final = 8
_FIX: Final = "name a supervised model of fastText, a .bin or .ftz file"


@dataclass(frozen=True, slots=True, weakref_slot=True)
class FastTextModel:
    """A model in memory; the same file is read once for all steps that have it."""

    path: str
    labels: tuple[str, ...]
    """Without `__label__`."""
    native: _native.FastTextModel = field(repr=False, compare=False)

    @classmethod
    def load(cls, path: str) -> FastTextModel:
        with _lock, _open(path) as (descriptor, found):
            key = (os.path.realpath(path), found.st_size, found.st_mtime_ns)
            model = _loaded.get(key)
            if model is None:
                model = _loaded[key] = cls._read(path, descriptor, found.st_size)
            return model

    @classmethod
    def _read(cls, path: str, descriptor: int, size: int) -> FastTextModel:
        try:
            native = _native.FastTextModel(descriptor, size)
        except ValueError as fault:
            raise _unusable(path, str(fault)) from None
        labels = [label.decode("utf-8", "replace").removeprefix(LABEL_PREFIX) for label in native.labels]
        return cls(path, tuple(labels), native)

    def numbers(self, labels: Sequence[str]) -> NDArray[np.int32]:
        """The number of each label; `ConfigError` if the model has no such label."""
        unknown = [label for label in labels if label not in self.labels]
        if unknown:
            near = nearest(unknown[0], self.labels)
            meant = "" if near is None else f"; did you mean `{near}`?"
            known, more = self.labels[:MOST_LISTED], len(self.labels) - MOST_LISTED
            raise ConfigError(
                f"the fastText model `{self.path}` has no label {listed(unknown[:MOST_LISTED])}{meant}",
                hint=f"it has {listed(known)}{f' and {more:,} more' if more > 0 else ''}",
            )
        return np.array([self.labels.index(label) for label in labels], np.int32)


_lock: Final = Lock()
_loaded: Final[WeakValueDictionary[tuple[str, int, int], FastTextModel]] = WeakValueDictionary()


@dataclass(frozen=True, slots=True)
class FastTextFilter:
    """Drops documents by the scores of a model's labels. Reads the model when it is made."""

    section: FastText
    statistics: bool
    model: FastTextModel = field(init=False, repr=False)
    _labels: tuple[str, ...] = field(init=False, repr=False)
    _numbers: NDArray[np.int32] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        section = self.section
        labels = tuple(dict.fromkeys((*section.keep, *section.remove, *section.scores)))
        model = FastTextModel.load(section.model)
        object.__setattr__(self, "model", model)
        object.__setattr__(self, "_labels", labels)
        object.__setattr__(self, "_numbers", model.numbers(labels))

    @property
    def reasons(self) -> Sequence[str]:
        return tuple(REASONS)

    def apply(self, documents: Documents) -> Documents:
        offsets, data = text_buffers(documents.batch.column("text"))
        join_lines = self.section.newline == ""
        scores, _, _ = self.model.native.score(offsets, data, self._numbers, join_lines)
        columns = {label: scores[at :: len(self._labels)].copy() for at, label in enumerate(self._labels)}
        if self.statistics:
            measured = {f"fasttext_{label}": as_arrow(column) for label, column in columns.items()}
            documents = with_new_statistics(documents, measured)
        codes = np.zeros(documents.batch.num_rows, np.uint8)
        if self.section.keep:
            codes[~_reached(columns, self.section.keep)] = 1
        if self.section.remove:
            codes[_reached(columns, self.section.remove)] = 2
        return drop(documents, codes, self.reasons)

    def fingerprint(self) -> str:
        """Changes with the file of the model."""
        return f"fasttext {self.model.native.fingerprint:016x}"


def _reached(
    columns: Mapping[str, NDArray[np.float32]], thresholds: Mapping[str, float]
) -> NDArray[np.bool_]:
    """Which documents reach one of the thresholds, which are numbers of 64 bits as in Python."""
    reached = [columns[label].astype(np.float64) >= least for label, least in thresholds.items()]
    found: NDArray[np.bool_] = np.any(reached, axis=0)
    return found


@dataclass(frozen=True, slots=True)
class FastTextLanguages:
    """A model whose labels are languages, as `LanguageFilter` asks one."""

    model: FastTextModel
    languages: tuple[str, ...]
    """The last is that of documents in which the model knows nothing."""

    @classmethod
    def load(cls, path: str) -> FastTextLanguages:
        model = FastTextModel.load(path)
        return cls(model, (*model.labels, ""))

    @property
    def fingerprint(self) -> str:
        return f"fasttext {self.model.native.fingerprint:016x}"

    def classify(
        self, offsets: NDArray[np.int64], data: NDArray[np.uint8]
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        _, best, scores = self.model.native.score(offsets, data, np.empty(0, np.int32), False)
        return np.where(best < 0, len(self.languages) - 1, best), scores


def fasttext_needs(
    sections: Sequence[Section], max_document_bytes: int, threads: int, *, made: bool, long: LongRecords
) -> Iterator[Need]:
    """What the models of these sections hold, each file once, and what threads hold beside them."""
    paths = {
        section.model
        for section in sections
        if isinstance(section, FastText | filters.Language) and section.model is not None
    }
    if not paths:
        return
    scratch = threads * SCRATCH_PER_BYTE * max_document_bytes
    likely = threads * EXPECTED_SCRATCH_BYTES
    likely += SCRATCH_PER_BYTE * long.longest * min(threads, long.together)
    yield Need("words for fastText", scratch, expected=likely)
    if not made:
        yield Need(
            FASTTEXT_MODELS, sum(map(model_bytes, sorted(paths))), remedy="use a quantised model (.ftz)"
        )


def model_bytes(path: str) -> int:
    """What a model will take in memory, from its header and the size of its file."""
    with _open(path) as (descriptor, found):
        header = os.pread(descriptor, _HEADER.size, 0)
    if len(header) < _HEADER.size:
        raise _unusable(path, "it is cut short, or it is not a fastText model")
    *_, entries, _, _, _, pruned = _HEADER.unpack(header)
    entries, pruned = max(int(entries), 0), max(int(pruned), 0)
    if entries * _LEAST_ENTRY + pruned * _PAIR > found.st_size:
        raise _unusable(path, "it is cut short, or a size in it is wrong")
    return found.st_size + ENTRY_BYTES * entries + PRUNED_BYTES * pruned + MODEL_BYTES


@contextmanager
def _open(path: str) -> Iterator[tuple[int, os.stat_result]]:
    """The descriptor of a model's file, and what the system knows of it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as fault:
        raise _unusable(path, f"it can't be read: {fault.strerror}") from fault
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _unusable(path, "it is not a file")
        yield descriptor, found
    finally:
        os.close(descriptor)


def _unusable(path: str, said: str) -> InputError:
    return InputError(f"the fastText model `{path}` can't be used: {said}", hint=_FIX)
