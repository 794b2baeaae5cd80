"""Features on demand: the lazy dataset.

In: a cache. Out: one feature with everything that is known of it, a document's run of features,
columns of several. Held in memory: what `StoredFeatures` maps, within the budget; an index of ids once
somebody asks for a document by its id (16 bytes each).
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, SupportsIndex

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from krill import _native
from krill.budget import Need, make_plan, resolve_limit
from krill.corpus.buffers import text_buffers, text_column_of
from krill.errors import InputError
from krill.qa.stored import FeatureRows, StoredFeatures
from krill.qa.tables import NOWHERE, FeatureUnit, InexactSpan, inexact_spans, value

# What one unit's tables take, and the most that still helps: shuffling keeps to so many of them.
_LEAST_MAPPED: Final = 12_000_000
_USEFUL_MAPPED: Final = 1_000_000_000

ARRAYS: Final = ("input_ids", "attention_mask", "token_type_ids", "start_positions", "end_positions")
METADATA: Final = (
    "example_id",
    "segment_index",
    "total_segments",
    "context",
    "question",
    "has_answer",
    "chosen_answer_text",
    "chosen_answer_char_span",
)


class QaDataset:
    """`len(dataset)` features; `dataset[i]` is one, `dataset.document(n)` are those of a document.

    With `verify`, each unit of the cache is held against its checksums when it is first read. Safe to use
    from several threads and after a fork; can be pickled.
    """

    def __init__(self, folder: str | Path, *, memory: str | int = "auto", verify: bool = True) -> None:
        mapped = Need("mapped", _LEAST_MAPPED, useful=_USEFUL_MAPPED)
        plan = make_plan(resolve_limit(memory), 0, [mapped])
        self.stored = StoredFeatures(Path(folder), plan.share("mapped"), verify=verify)
        self._numbers: tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]] | None = None

    def __len__(self) -> int:
        return self.stored.features

    @property
    def documents(self) -> int:
        """How many documents there are: questions with their contexts."""
        return self.stored.documents

    @property
    def manifest(self) -> Mapping[str, Any]:
        return self.stored.manifest

    def __getitem__(self, key: SupportsIndex) -> dict[str, Any]:
        feature = operator.index(key)
        if not -len(self) <= feature < len(self):
            raise IndexError(f"feature {feature} is out of range: there are {len(self)}")
        unit, row = self.stored.unit_of_feature(feature % len(self))
        return self._features(unit, int(unit.features.example[row]), row, 1)[0]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[feature] for feature in range(len(self)))

    def document(self, number: int) -> list[dict[str, Any]]:
        """All features of a document, in order."""
        unit, example = self.stored.unit_of_document(number)
        return self._features(
            unit, example, unit.first_feature(example), int(unit.examples.features[example])
        )

    def _features(self, unit: FeatureUnit, example: int, first: int, count: int) -> list[dict[str, Any]]:
        rows = self.stored.assembler.padding(count)
        self.stored.assembler.fill(rows, np.arange(count), unit, np.arange(first, first + count))
        known = document_metadata(unit, example)
        return [
            {**_arrays(rows, place), **known, **segment_metadata(unit, first + place)}
            for place in range(count)
        ]

    def metadata(self, feature: int) -> dict[str, Any]:
        """Everything known of a feature besides its arrays."""
        return self.all_metadata([feature])[0]

    def all_metadata(self, features: Iterable[int]) -> list[dict[str, Any]]:
        """The same for several features; what belongs to a document is read once."""
        documents: dict[int, dict[str, Any]] = {}
        found = []
        for feature in features:
            unit, row = self.stored.unit_of_feature(feature)
            own = segment_metadata(unit, row)
            first = feature - own["segment_index"]
            if first not in documents:
                documents[first] = document_metadata(unit, int(unit.features.example[row]))
            found.append(documents[first] | own)
        return found

    def answers(self, document: int) -> dict[str, list[Any]]:
        """All valid answers of a document, for evaluation: `text` and `answer_start`."""
        unit, row = self.stored.unit_of_document(document)
        return {
            "text": value(unit.examples.answers, row),
            "answer_start": value(unit.examples.answer_starts, row),
        }

    def document_id(self, document: int) -> str:
        unit, row = self.stored.unit_of_document(document)
        return str(value(unit.examples.ids, row))

    def get_all_documents(self) -> list[str]:
        """The ids of all documents, in order."""
        return [str(value(ids, row)) for ids in self._ids() for row in range(len(ids))]

    def get_document_segments(self, example_id: str | int) -> list[int]:
        """The numbers of the features of the document with this id."""
        first, count = self.stored.document_features(np.array([self.find(example_id)]))
        return list(range(int(first[0]), int(first[0] + count[0])))

    def find(self, example_id: str | int) -> int:
        """The number of the document with this id."""
        if self._numbers is None:
            hashes = [_hashes(ids) for ids in self._ids()]
            keys = np.concatenate(hashes) if hashes else np.empty(0, np.uint64)
            order = np.argsort(keys, kind="stable")
            self._numbers = keys[order], order
        keys, order = self._numbers
        example_id = str(example_id)  # ids that were numbers are kept as text
        wanted = _hashes(text_column_of([example_id]))[0]
        places = (int(np.searchsorted(keys, wanted, side=side)) for side in ("left", "right"))
        for place in range(*places):
            if self.document_id(int(order[place])) == example_id:
                return int(order[place])
        raise InputError(f"there is no document with the id `{example_id}`", hint="see `get_all_documents()`")

    def inexact(self) -> Iterator[InexactSpan]:
        """Features whose tokens are not exactly the answer; the manifest counts them as `spans_not_exact`."""
        for number in range(len(self.stored.first_example) - 1):
            yield from inexact_spans(self.stored.unit(number), self._space_ids())

    def _space_ids(self) -> Sequence[int]:
        """As the manifest says; older caches have none."""
        described = self.manifest.get("tokenizer")
        found = described.get("space_ids", []) if isinstance(described, Mapping) else []
        return [number for number in found if type(number) is int] if isinstance(found, list) else []

    def _ids(self) -> Iterator[pa.Array]:
        for number in range(len(self.stored.first_example) - 1):
            yield self.stored.unit(number).examples.ids


def document_metadata(unit: FeatureUnit, example: int) -> dict[str, Any]:
    examples = unit.examples
    return {
        "example_id": value(examples.ids, example),
        "total_segments": int(examples.features[example]),
        "context": value(unit.paragraphs.contexts, int(examples.paragraph[example])),
        "question": value(examples.questions, example),
        "chosen_answer_text": value(examples.answer_text, example),
        "chosen_answer_char_span": (int(examples.answer_begin[example]), int(examples.answer_end[example])),
    }


def segment_metadata(unit: FeatureUnit, row: int) -> dict[str, Any]:
    features = unit.features
    return {"segment_index": int(features.segment[row]), "has_answer": int(features.first[row]) != NOWHERE}


def _arrays(rows: FeatureRows, place: int) -> dict[str, Any]:
    values = {name: getattr(rows, name)[place] for name in (*ARRAYS, "offset_mapping", "cls_index")}
    return {name: value if value.ndim else int(value) for name, value in values.items()}


def _hashes(ids: pa.Array) -> npt.NDArray[np.uint64]:
    return np.ascontiguousarray(_native.hash_documents(*text_buffers(ids))[:, 0])
