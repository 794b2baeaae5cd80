"""Distributions: how long documents are, and what each source and each language gave.

In: the sizes of the documents that are kept, as stages see them anyway. Out: exact counts, which records hold
for a unit or a shard and which add up in any order. Held in memory: a few numbers for each language.

A histogram is a list of counts: its entry 0 is of the value 0, its entry k of the values from 2^(k-1) to
2^k - 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from krill.corpus.buffers import text_buffers
from krill.pipeline.examples import grouped
from krill.pipeline.surviving_units import add_counts

KEPT: Final = "kept_sizes"
"""What a unit's record calls them."""

Languages = list[tuple[str, "NDArray[np.int64]"]]


def histogram(values: NDArray[Any]) -> list[int]:
    """How many values have how many binary digits."""
    _, digits = np.frexp(values.astype(np.float64))
    found: list[int] = np.bincount(digits).tolist()
    return found


def add_histograms(first: Iterable[int], second: Iterable[int]) -> list[int]:
    return [a + b for a, b in zip_longest(first, second, fillvalue=0)]


@dataclass(slots=True)
class KeptSizes:
    """Documents that were kept: their sizes in bytes of text and, where they are encoded, in tokens."""

    totals: dict[str, int] = field(default_factory=lambda: {"documents": 0, "bytes": 0, "tokens": 0})
    document_bytes: list[int] = field(default_factory=list)
    document_tokens: list[int] = field(default_factory=list)
    languages: dict[str, dict[str, int]] = field(default_factory=dict)

    def add(
        self,
        sizes: NDArray[np.int64],
        tokens: NDArray[np.uint32] | None,
        languages: Languages,
        kept: NDArray[np.bool_],
    ) -> None:
        """Those documents of a block that are `kept`; `languages` are the rows of each."""
        for language, rows in languages:
            own = rows[kept[rows]]
            found = _totals(sizes[own], None if tokens is None else tokens[own])
            add_counts(self.languages.setdefault(language, {}), found)
        sizes, tokens = sizes[kept], None if tokens is None else tokens[kept]
        add_counts(self.totals, _totals(sizes, tokens))
        self.document_bytes = add_histograms(self.document_bytes, histogram(sizes))
        if tokens is not None:
            self.document_tokens = add_histograms(self.document_tokens, histogram(tokens))

    def add_record(self, record: Mapping[str, Any]) -> None:
        """The same of another unit, from its record."""
        add_counts(self.totals, record["totals"])
        self.document_bytes = add_histograms(self.document_bytes, record["document_bytes"])
        self.document_tokens = add_histograms(self.document_tokens, record["document_tokens"])
        for language, totals in record["languages"].items():
            add_counts(self.languages.setdefault(language, {}), totals)

    def to_json(self) -> dict[str, Any]:
        return {
            "totals": self.totals,
            "document_bytes": self.document_bytes,
            "document_tokens": self.document_tokens,
            "languages": {name: self.languages[name] for name in sorted(self.languages)},
        }


@dataclass(slots=True)
class RowShapes:
    """Rows: how many documents each has, and how many tokens these have there."""

    row_documents: list[int] = field(default_factory=list)
    row_document_tokens: list[int] = field(default_factory=list)

    def add(self, lengths: NDArray[Any], offsets: NDArray[Any]) -> None:
        self.row_documents = add_histograms(self.row_documents, histogram(np.diff(offsets)))
        self.row_document_tokens = add_histograms(self.row_document_tokens, histogram(lengths))

    def add_record(self, record: Mapping[str, Any]) -> None:
        self.row_documents = add_histograms(self.row_documents, record["row_documents"])
        self.row_document_tokens = add_histograms(self.row_document_tokens, record["row_document_tokens"])

    def to_json(self) -> dict[str, list[int]]:
        return {"row_documents": self.row_documents, "row_document_tokens": self.row_document_tokens}


@dataclass(slots=True)
class Distributions:
    """What the records of units add up to, over all and for each source by its number."""

    counts: dict[int, dict[str, int]] = field(default_factory=dict)
    sources: dict[int, dict[str, int]] = field(default_factory=dict)
    kept: KeptSizes = field(default_factory=KeptSizes)

    def add_counts(self, source: int, counts: Mapping[str, int]) -> None:
        """Documents of a unit that were dropped or changed."""
        add_counts(self.counts.setdefault(source, {}), counts)

    def add_kept(self, source: int, record: Mapping[str, Any]) -> None:
        self.kept.add_record(record)
        add_counts(self.sources.setdefault(source, {}), record["totals"])

    def to_json(self) -> dict[str, Any]:
        found = self.kept.to_json()
        del found["totals"]
        return {**found, "sources": self.sources}


def text_sizes(batch: pa.RecordBatch) -> NDArray[np.int64]:
    return np.diff(text_buffers(batch.column("text"))[0])


def languages_of(batch: pa.RecordBatch) -> Languages:
    """The rows of each language, where a filter has measured it: the last such column."""
    names = [field.name for field in batch.schema if _is_language(field)]
    return list(grouped(batch.column(names[-1]))) if names else []


def _is_language(field: pa.Field) -> bool:
    measured = (field.metadata or {}).get(b"krill") == b"statistic"
    name = field.name.rstrip("0123456789_")
    return measured and name == "language" and pa.types.is_large_string(field.type)


def _totals(sizes: NDArray[np.int64], tokens: NDArray[np.uint32] | None) -> dict[str, int]:
    found = {"documents": len(sizes), "bytes": int(sizes.sum())}
    return found if tokens is None else {**found, "tokens": int(tokens.sum(dtype=np.int64))}
