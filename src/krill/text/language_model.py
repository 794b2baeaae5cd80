"""The language model: py3langid's tables, read from its wheel and made small.

Comes in: `model.npz.xz` of the installed py3langid, NumPy arrays in a zip in an xz stream, no pickle. Goes
out: a native model that any thread may ask. The file is decoded once, from its beginning to its end, a few
hundred kilobytes at a time: of the 28 MB of weights only what differs from each language's background is
kept, and of the 39 MB of automaton only what differs from its first row. Held in memory: `LANGUAGE_BYTES` for
as long as the process lives, `LANGUAGE_LOADING_BYTES` more while it is read.
"""

from __future__ import annotations

import lzma
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO, Final, cast

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from krill import _native
from krill.errors import ConfigError

# Measured with `VmRSS` and `VmHWM` around `load` in a process that had imported all else: 20.5 to 22.3 MB
# stayed, and 41 to 44 MB was the peak. py3langid itself keeps 78 MB and peaks at 108 MB.
LANGUAGE_BYTES: Final = 23_000_000
LANGUAGE_LOADING_BYTES: Final = 25_000_000
# While a batch is classified: 12 bytes for each of 100,000 features, and copies of a document.
LANGUAGE_THREAD_BYTES: Final = 1_300_000

# Weights are half-precision numbers of 1 and more, so whole multiples of this, and differ by less than 32.
_STEP: Final = 2.0**-10
# A feature that says something of more languages than this is kept as a whole row, which adds up faster.
_MOST_PAIRS: Final = 40
_FEATURES_AT_ONCE: Final = 1024
_ROWS_AT_ONCE: Final = 256
_BYTES: Final = 256
_MOST_LANGUAGES: Final = 256
# Of a zip file: the header of a member, and what it may say.
_LOCAL_HEADER: Final = struct.Struct("<4s5H3I2H")
_MEMBER: Final = b"PK\x03\x04"
_STORED: Final = 0
_SIZES_FOLLOW: Final = 8  # the flag of a member whose size stands behind it
_REINSTALL: Final = "pip install --force-reinstall 'py3langid>=0.4,<0.5'"


@dataclass(frozen=True, slots=True)
class LanguageModel:
    languages: tuple[str, ...]
    """The name of each number that `native.classify` gives; the scripts of one language share its name."""
    native: _native.LanguageModel

    @property
    def fingerprint(self) -> str:
        return ""  # a part of the installation, as Krill's own code is

    def classify(
        self, offsets: NDArray[np.int64], data: NDArray[np.uint8]
    ) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """The number of each document's language, and the score."""
        return self.native.classify(offsets, data)


_Differences = tuple[NDArray[np.uint32], NDArray[np.uint8], NDArray[np.uint32]]
_OwnEntries = tuple[
    NDArray[np.uint32], NDArray[np.uint8], NDArray[np.uint32], NDArray[np.uint8], NDArray[np.uint32]
]

_lock = Lock()
_loaded: dict[Path, LanguageModel] = {}


def load(path: Path | None = None) -> LanguageModel:
    """The model, read once in a process; by default that of the installed py3langid."""
    path = _installed() if path is None else path
    with _lock:
        if path not in _loaded:
            _loaded[path] = _read(path)
            _native.trim()
        return _loaded[path]


def _installed() -> Path:
    package = find_spec("py3langid")  # its code is not run
    if package is None or not package.submodule_search_locations:
        raise ConfigError("the language model is missing: py3langid is not installed", hint=_REINSTALL)
    return Path(package.submodule_search_locations[0], "data", "model.npz.xz")


def _read(path: Path) -> LanguageModel:
    try:
        with lzma.open(path) as stream:
            languages, tables = _tables(_ordered(cast(BinaryIO, stream)))
        return LanguageModel(languages, _native.LanguageModel(*tables))  # the decoder is gone by now
    except (OSError, EOFError, ValueError, lzma.LZMAError) as fault:
        raise ConfigError(f"the language model `{path}` can't be read: {fault}", hint=_REINSTALL) from fault


_KINDS: Final = {
    "ptc": "f2",  # for each feature, what it says of each language: the logarithm of a probability
    "pc": "f4",  # what is known of each language beforehand
    "classes": "U",  # the languages
    "nextmove": "u",  # rows of the automaton: 256 states
    "nextmove_row": "u",  # the row of each state
    "out_feat": "i",  # the feature of each state, -1 for none
}


def _ordered(stream: BinaryIO) -> Iterator[ArrayStream]:
    """The arrays that a model is made of, in the order in which they must be stored."""
    stored = npz_arrays(stream)
    for name, kind in _KINDS.items():
        array = next(stored, None)
        if array is None or array.name != name or not array.dtype.str[1:].startswith(kind):
            raise ValueError(f"there is no array {name} of the expected kind in its place")
        yield array


def _tables(stored: Iterator[ArrayStream]) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """The languages, and what the native model is made of."""
    weights = _Weights.read(next(stored))
    prior = next(stored).whole()
    languages = tuple(str(name) for name in next(stored).whole())
    if not len(languages) == len(prior) == len(weights.background):
        raise ValueError("its arrays are for different numbers of languages")
    changes = _Changes.read(next(stored))
    row_of = next(stored).whole().astype(np.uint32)
    feature_of = next(stored).whole()
    if feature_of.max(initial=-1) >= len(weights.number_of):
        raise ValueError("a state has a feature without weights")
    # Features are numbered anew; -1 for none takes the last number.
    number_of = np.append(weights.number_of, np.uint32(len(weights.number_of)))
    numbers = np.array([languages.index(name) for name in languages], np.uint8)
    rows = (*_own_entries(changes, row_of), row_of, number_of[feature_of])
    return languages, (*rows, *weights.tables(), prior, weights.background, _STEP, numbers)


class _Gathered:
    """Numbers that come piece by piece, in one buffer that grows."""

    def __init__(self, dtype: str) -> None:
        self.dtype = np.dtype(dtype)
        self.data = bytearray()

    def add(self, numbers: NDArray[Any]) -> None:
        self.data += np.ascontiguousarray(numbers, self.dtype).reshape(-1).view(np.uint8).data

    def array(self) -> NDArray[Any]:
        return np.frombuffer(self.data, self.dtype)


@dataclass(frozen=True, slots=True)
class _Weights:
    """What features say, as steps from each language's background: whole rows, and pairs for the others."""

    background: NDArray[np.float32]
    number_of: NDArray[np.uint32]
    dense: NDArray[np.int16]
    pairs: NDArray[np.uint8]
    """For each feature that is not dense, how many pairs it has."""
    pair_languages: NDArray[np.uint8]
    pair_steps: NDArray[np.int16]

    @classmethod
    def read(cls, array: ArrayStream) -> _Weights:
        if len(array.shape) != 2 or not 0 < array.shape[1] <= _MOST_LANGUAGES:
            raise ValueError(f"weights of the shape {array.shape} are not for languages")
        background: NDArray[np.float32] | None = None
        gathered = [_Gathered(dtype) for dtype in ("bool", "i2", "u1", "u1", "i2")]
        for weights in array.slices(_FEATURES_AT_ONCE):
            if background is None:
                background = _most_frequent(weights).astype(np.float32)
            for whole, part in zip(gathered, _split(_steps(weights, background)), strict=True):
                whole.add(part)
        if background is None:
            raise ValueError("there are no features")
        is_dense, *tables = (whole.array() for whole in gathered)
        number_of = np.where(is_dense, np.cumsum(is_dense) - 1, is_dense.sum() + np.cumsum(~is_dense) - 1)
        return cls(background, number_of.astype(np.uint32), *tables)

    def tables(self) -> tuple[NDArray[np.int16], NDArray[np.uint32], NDArray[np.uint8], NDArray[np.int16]]:
        return self.dense, _starts(self.pairs), self.pair_languages, self.pair_steps


def _most_frequent(weights: NDArray[np.float16]) -> NDArray[np.float16]:
    """For each language the weight of features that say nothing of it, by far its most frequent one."""
    found = np.empty(weights.shape[1], np.float16)
    for language in range(weights.shape[1]):
        values, counts = np.unique(weights[:, language], return_counts=True)
        found[language] = values[counts.argmax()]
    return found


def _steps(weights: NDArray[np.float16], background: NDArray[np.float32]) -> NDArray[np.int16]:
    exact = (weights - background) / np.float32(_STEP)
    if not (np.abs(exact) <= np.iinfo(np.int16).max).all() or not np.array_equal(exact, np.rint(exact)):
        raise ValueError("its weights are of another range")
    return exact.astype(np.int16)


def _split(steps: NDArray[np.int16]) -> tuple[NDArray[Any], ...]:
    """Which features are dense and their rows; of the others the number of pairs, languages and steps."""
    said = steps != 0
    counts = said.sum(axis=1)
    is_dense = counts > _MOST_PAIRS
    said[is_dense] = False
    return (
        is_dense,
        steps[is_dense],
        counts[~is_dense].astype(np.uint8),
        np.nonzero(said)[1].astype(np.uint8),
        steps[said],
    )


@dataclass(frozen=True, slots=True)
class _Changes:
    """The rows of the automaton as what differs from the first of them."""

    first: NDArray[np.uint32]
    starts: NDArray[np.uint32]
    bytes: NDArray[np.uint8]
    targets: NDArray[np.uint32]

    @classmethod
    def read(cls, array: ArrayStream) -> _Changes:
        if len(array.shape) != 1 or array.shape[0] == 0 or array.shape[0] % _BYTES:
            raise ValueError("the automaton's rows have not 256 states")
        slices = array.slices(_ROWS_AT_ONCE * _BYTES)
        rows = (part.reshape(-1, _BYTES).astype(np.uint32, copy=False) for part in slices)
        before = next(rows)
        first = before[0].copy()
        return cls(first, *_differences((rows_, first) for rows_ in chain((before,), rows)))

    def row_slices(self) -> Iterator[tuple[slice, NDArray[np.uint32]]]:
        """The rows again, some at a time, with their numbers."""
        for begin in range(0, len(self.starts) - 1, _ROWS_AT_ONCE):
            numbers = slice(begin, min(begin + _ROWS_AT_ONCE, len(self.starts) - 1))
            yield numbers, self.rows(np.arange(numbers.start, numbers.stop))

    def rows(self, numbers: NDArray[np.int64]) -> NDArray[np.uint32]:
        rows = np.tile(self.first, (len(numbers), 1))
        begins = self.starts[numbers].astype(np.int64)
        counts = self.starts[numbers + 1] - begins
        before = np.cumsum(counts) - counts
        own = np.arange(counts.sum()) + np.repeat(begins - before, counts)
        rows[np.repeat(np.arange(len(numbers)), counts), self.bytes[own]] = self.targets[own]
        return rows


def _own_entries(changes: _Changes, row_of: NDArray[np.uint32]) -> _OwnEntries:
    """Default rows, the default of each row, and what each row has of its own.

    A state is what was read last, as far as any feature begins with it. So its row is much like the row of
    the state that its last byte alone leads to.
    """
    states, rows = len(row_of), len(changes.starts) - 1
    if max(changes.first.max(), changes.targets.max(initial=0)) >= states or row_of.max() >= rows:
        raise ValueError("the automaton leads to a state that is not there")
    last_byte = np.zeros(states, np.uint8)
    last_byte[changes.first] = np.arange(_BYTES)
    last_byte[changes.targets] = changes.bytes
    default_of = np.zeros(rows, np.uint8)
    default_of[row_of] = last_byte
    (from_root,) = changes.rows(row_of[:1].astype(np.int64))
    defaults = changes.rows(row_of[from_root].astype(np.int64))
    own = _differences((some, defaults[default_of[numbers]]) for numbers, some in changes.row_slices())
    return defaults.reshape(-1), default_of, *own


def _differences(
    pairs: Iterable[tuple[NDArray[np.uint32], NDArray[np.uint32]]],
) -> _Differences:
    """Of entries that differ from another row's: where those of each row begin, and byte and target."""
    counts, bytes_, targets = _Gathered("u4"), _Gathered("u1"), _Gathered("u4")
    for rows, others in pairs:
        differs = rows != others
        counts.add(differs.sum(axis=1))
        bytes_.add(np.nonzero(differs)[1])
        targets.add(rows[differs])
    return _starts(counts.array()), bytes_.array(), targets.array()


def _starts(counts: NDArray[Any]) -> NDArray[np.uint32]:
    starts = np.zeros(len(counts) + 1, np.uint32)
    np.cumsum(counts, out=starts[1:])
    return starts


@dataclass(frozen=True, slots=True)
class ArrayStream:
    """One array of a `.npz` file, an uncompressed zip of `.npy` files, that is read from a stream.

    It must be read to its end before the next one. Arrays of objects are refused: nothing is unpickled.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    stream: BinaryIO

    def slices(self, rows: int) -> Iterator[NDArray[Any]]:
        """All of it, up to `rows` of the first dimension at a time."""
        width = int(np.prod(self.shape[1:]))
        for begin in range(0, self.shape[0], rows):
            count = min(rows, self.shape[0] - begin)
            data = _read_exactly(self.stream, count * width * self.dtype.itemsize)
            yield np.frombuffer(data, self.dtype).reshape(count, *self.shape[1:])

    def whole(self) -> NDArray[Any]:
        return next(self.slices(max(1, self.shape[0])), np.empty(self.shape, self.dtype))


def npz_arrays(stream: BinaryIO) -> Iterator[ArrayStream]:
    """The arrays of a `.npz`, in the order in which they are stored; `ValueError` if it is not one."""
    while True:
        header = _read_exactly(stream, _LOCAL_HEADER.size)
        mark, _, flags, method, *_, name_bytes, extra_bytes = _LOCAL_HEADER.unpack(header)
        if mark != _MEMBER:
            return  # the zip's directory: nothing after it is needed
        if method != _STORED or flags & _SIZES_FOLLOW:
            raise ValueError("a member of the .npz is compressed or of unknown size")
        name = _read_exactly(stream, name_bytes).decode()
        _read_exactly(stream, extra_bytes)
        yield _npy_array(name.removesuffix(".npy"), stream)


def _npy_array(name: str, stream: BinaryIO) -> ArrayStream:
    version = npy.read_magic(stream)
    if version == (1, 0):
        shape, columns_first, dtype = npy.read_array_header_1_0(stream)
    else:
        shape, columns_first, dtype = npy.read_array_header_2_0(stream)
    if dtype.hasobject or columns_first or not shape:
        raise ValueError(f"the array {name} is not made of plain rows")
    return ArrayStream(name, dtype, shape, stream)


def _read_exactly(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise ValueError("the .npz ends too early")
    return data
