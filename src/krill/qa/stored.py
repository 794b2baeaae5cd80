"""A cache opened: features and documents by number.

In: the folder of a cache. Out: rows of features and what is known of them: question, window and
special tokens put together by the native core, padded, labelled (`tests/oracles/qa.py` does the same one
feature at a time). Held in memory: the rows, two numbers for each unit, the pages of the units that were used
last, and a little for each unit that was used before: it stays mapped without its pages, as mapping it again
costs more than reading from it.

A document is a question with its context; its features are a run of numbers. Which unit has a number is found
among the units' first numbers, and everything inside it by arithmetic.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from krill import _native
from krill.corpus.buffers import offsets_of
from krill.dataset.fields import Fields
from krill.errors import InputError
from krill.qa.cache import COMMAND, FORMAT
from krill.qa.layout import FeatureLayout
from krill.qa.tables import SCHEMAS, FeatureUnit, read_unit, table_name, unit_path
from krill.storage.input_file import MOST_MANIFEST, read_json
from krill.storage.outputs import MANIFEST, stated_checksums

Numbers = npt.NDArray[np.int64]
_HINT: Final = "prepare it again with `krill qa prepare --overwrite`"
# A unit is some megabytes of input; its tables count in 32 bits.
_MOST_IN_UNIT: Final = 2**40
_MOST_WIDTH: Final = 2**20
# With less room than this, neighbouring batches would map the same files again and again.
LEAST_UNITS: Final = 2
# What a unit takes that is mapped without its pages, 14.2 kB as measured, and the part of the room for them.
IDLE_BYTES: Final = 16_000
IDLE_SHARE: Final = 8
_KINDS: Final = {"fixed": 0, "question": 1, "context": 2}


class FeatureRows(NamedTuple):
    """Arrays with a row for each feature. `offset_mapping` has begin and end of each context token."""

    input_ids: npt.NDArray[np.int32]
    attention_mask: npt.NDArray[np.int32]
    token_type_ids: npt.NDArray[np.int32]
    start_positions: npt.NDArray[np.int32]
    end_positions: npt.NDArray[np.int32]
    cls_index: npt.NDArray[np.int32]
    offset_mapping: npt.NDArray[np.int32] | None


class Assembler:
    """Makes rows of `width` tokens in a layout; thread-safe."""

    def __init__(self, layout: FeatureLayout, width: int) -> None:
        self._layout = layout
        self._width = width
        cls_piece, cls_place = layout.cls or (-1, 0)
        self._native = _native.FeatureLayout(
            np.array([_KINDS[piece.kind] for piece in layout.pieces], np.int32),
            np.array([piece.type_id for piece in layout.pieces], np.int32),
            np.array([len(piece.ids) for piece in layout.pieces], np.int32),
            np.array([token for piece in layout.pieces for token in piece.ids], np.int32),
            layout.pad_left,
            cls_piece,
            cls_place,
        )

    def padding(self, rows: int, *, offsets: bool = True) -> FeatureRows:
        shape = (rows, self._width)
        return FeatureRows(
            np.full(shape, self._layout.pad_id, np.int32),
            np.zeros(shape, np.int32),
            np.full(shape, self._layout.pad_type, np.int32),
            np.zeros(rows, np.int32),
            np.zeros(rows, np.int32),
            np.zeros(rows, np.int32),
            np.zeros((*shape, 2), np.int32) if offsets else None,
        )

    def fill(self, rows: FeatureRows, places: Numbers, unit: FeatureUnit, wanted: Numbers) -> None:
        """Put the features `wanted` of a unit into the rows at `places`, which are padding."""
        features, examples, contexts = unit.features, unit.examples, unit.paragraphs
        tables = _native.FeatureTables(
            features.example,
            features.begin,
            features.length,
            features.first,
            features.last,
            examples.paragraph,
            examples.tokens.starts,
            examples.tokens.values,
            contexts.tokens.starts,
            contexts.tokens.values,
            contexts.spans.values,
        )
        filled = _native.fill_feature_rows(self._native, tables, wanted, places, *rows)
        if filled < len(wanted):
            raise InputError(
                f"feature {int(wanted[filled])} of a unit contradicts the unit's tables",
                hint="the cache is damaged: remove its folder and prepare it again",
            )


class StoredFeatures:
    """A cache in `folder`; at most about `mapped_bytes` of it are held at once. Any thread may read.

    With `verify`, each unit is held against its checksums when it is first read."""

    def __init__(self, folder: Path, mapped_bytes: int, *, verify: bool = True) -> None:
        self.folder = folder
        self.manifest = read_manifest(folder)
        fields = _fields(folder, self.manifest)
        self.layout = FeatureLayout.from_fields(fields.inner("layout"))
        self.width = fields.inner("config").count("max_seq_length", least=1, most=_MOST_WIDTH)
        self.assembler = Assembler(self.layout, self.width)
        units = np.array(self.manifest["units"], np.int64).reshape(-1, 4)
        self.first_example = offsets_of(units[:, 1])
        self.first_feature = offsets_of(units[:, 2])
        self._mapped_bytes = mapped_bytes
        self._most_idle = mapped_bytes // IDLE_SHARE // IDLE_BYTES
        in_use = mapped_bytes - self._most_idle * IDLE_BYTES
        self._most_in_use = max(LEAST_UNITS, in_use // max(1, int(units[:, 3].max(initial=1))))
        self._in_use: OrderedDict[int, FeatureUnit] = OrderedDict()
        self._idle: OrderedDict[int, FeatureUnit] = OrderedDict()
        self._verify = verify
        self._checksums = _checksums_in(folder, self.manifest) if verify else {}
        self._verified: set[int] = set()
        self._lock = Lock()

    def __getstate__(self) -> dict[str, Any]:
        """A worker process opens the files itself."""
        return {"folder": self.folder, "mapped_bytes": self._mapped_bytes, "verify": self._verify}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        StoredFeatures.__init__(self, state["folder"], state["mapped_bytes"], verify=state["verify"])

    @property
    def features(self) -> int:
        return int(self.first_feature[-1])

    @property
    def documents(self) -> int:
        return int(self.first_example[-1])

    def unit(self, number: int) -> FeatureUnit:
        with self._lock:
            unit = self._in_use.get(number)
            if unit is not None:
                self._in_use.move_to_end(number)
                return unit
            unit = self._idle.pop(number, None) or self._read(number)
            self._in_use[number] = unit
            if len(self._in_use) > self._most_in_use:
                oldest, left = self._in_use.popitem(last=False)
                left.drop_pages()
                self._idle[oldest] = left
                if len(self._idle) > self._most_idle:
                    self._idle.popitem(last=False)
            return unit

    def _read(self, number: int) -> FeatureUnit:
        unit = read_unit(self.folder, number)
        if self._verify and number not in self._verified:
            unit.check(self.folder, number, self._checksums)
            self._verified.add(number)
        if list(unit.rows) != self.manifest["units"][number][:3]:
            raise InputError(f"unit {number} of `{self.folder}` is not what its manifest says", hint=_HINT)
        return unit

    def unit_of_feature(self, feature: int) -> tuple[FeatureUnit, int]:
        """A feature's unit and its row in it."""
        return self._unit_of("feature", feature, self.first_feature)

    def unit_of_document(self, document: int) -> tuple[FeatureUnit, int]:
        """A document's unit and its row in it."""
        return self._unit_of("document", document, self.first_example)

    def _unit_of(self, what: str, number: int, firsts: Numbers) -> tuple[FeatureUnit, int]:
        if not 0 <= number < firsts[-1]:
            raise IndexError(f"{what} {number} is out of range: there are {firsts[-1]}")
        unit = int(np.searchsorted(firsts, number, side="right")) - 1
        return self.unit(unit), number - int(firsts[unit])

    def document_features(self, documents: Numbers) -> tuple[Numbers, Numbers]:
        """The first feature of each document, and how many it has."""
        firsts, counts = np.empty(len(documents), np.int64), np.empty(len(documents), np.int64)
        for number, places in self._by_unit(documents, self.first_example):
            rows = documents[places] - self.first_example[number]
            unit = self.unit(number)
            firsts[places] = self.first_feature[number] + unit.features.example.searchsorted(rows)
            counts[places] = unit.examples.features[rows]
        return firsts, counts

    def rows(self, features: Numbers, *, offsets: bool = True) -> FeatureRows:
        """Features as rows of numbers; a negative number is a row of padding."""
        rows = self.assembler.padding(len(features), offsets=offsets)
        wanted = np.flatnonzero(features >= 0)
        for number, chosen in self._by_unit(features[wanted], self.first_feature):
            places = wanted[chosen]
            own = features[places] - self.first_feature[number]
            self.assembler.fill(rows, places, self.unit(number), own)
        return rows

    def _by_unit(self, numbers: Numbers, firsts: Numbers) -> list[tuple[int, Numbers]]:
        units = np.searchsorted(firsts, numbers, side="right") - 1
        return [(int(unit), np.flatnonzero(units == unit)) for unit in np.unique(units)]


def _checksums_in(folder: Path, manifest: Mapping[str, Any]) -> dict[str, str]:
    """Checksums of every table; a manifest that lists only some files was edited."""
    stated = stated_checksums(manifest)
    if "files" in manifest:
        names = (table_name(number, table) for number in range(len(manifest["units"])) for table in SCHEMAS)
        missing = next((name for name in names if name not in stated), None)
        if missing is not None:
            raise InputError(f"`{folder / MANIFEST}` states no checksum of `{missing}`", hint=_HINT)
    return stated


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a finished cache; InputError if there is none, or its files are not all there."""
    path = folder / MANIFEST
    try:
        manifest = read_json(path, MOST_MANIFEST)
    except (FileNotFoundError, NotADirectoryError):
        fact = f"has no `{MANIFEST}`, so it is not a finished cache of features"
        raise InputError(
            f"`{folder}` {fact if folder.is_dir() else 'is not a folder'}",
            hint=f"make it with `krill qa prepare SOURCE --tokenizer PATH --output {folder}`",
        ) from None
    except (OSError, ValueError) as error:
        raise InputError(f"`{path}` can't be read: {error}", hint=_HINT) from None
    fields = _fields(folder, manifest)
    if not fields.has("command") or fields.text("command") != COMMAND or fields.count("format") != FORMAT:
        raise InputError(f"`{folder}` is not a cache of features that this version reads", hint=_HINT)
    fields.text("identity")
    fields.inner("tokenizer").text("fingerprint")
    units = _check_units(fields)
    paths = (unit_path(folder, number, table) for number in range(units) for table in SCHEMAS)
    missing = next((path for path in paths if not path.is_file()), None)
    if missing is not None:
        raise InputError(f"the cache `{folder}` lacks `{missing.name}`", hint=_HINT)
    return dict(manifest)


def _fields(folder: Path, manifest: object) -> Fields:
    return Fields(manifest, source=str(folder / MANIFEST), hint=_HINT)


def _check_units(fields: Fields) -> int:
    """The number of units; each is its paragraphs, examples, features and bytes."""
    units = fields.values("units")
    for number, unit in enumerate(units):
        if not isinstance(unit, list) or len(unit) != 4:
            fields.refuse(f"units[{number}]", "is not four numbers")
        if any(type(each) is not int or not 0 <= each <= _MOST_IN_UNIT for each in unit):
            fields.refuse(f"units[{number}]", f"has a number that is not between 0 and {_MOST_IN_UNIT}")
    return len(units)
