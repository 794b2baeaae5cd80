"""datatrove's own filters, for users who want exactly their decisions.

In: cleaned documents. Out: those that datatrove's filter keeps, with the text that it leaves of them. Held in
memory: what spaCy loads, and for the document being judged its words: some 64 bytes for each of its bytes.

Its words are spaCy's, and Krill's are nearly those: `docs/filters.md` says how nearly. One document is judged
at a time, for spaCy is not for several threads at once. Counted: the reasons of Krill's own filters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import version
from threading import Lock
from typing import Any, Final

import numpy as np
import pyarrow as pa

from krill.budget import Kind, Need
from krill.config import filters
from krill.config.fields import Section
from krill.corpus.documents import Documents
from krill.errors import MissingExtra
from krill.text.quality import quality_step
from krill.text.step import drop

# The class of each section, and what its reasons are called besides.
_PEERS: Final[dict[type[Section], tuple[str, str]]] = {
    filters.GopherQuality: ("GopherQualityFilter", ""),
    filters.GopherRepetition: ("GopherRepetitionFilter", "gopher_"),
    filters.C4: ("C4QualityFilter", "c4_"),
    filters.FineWeb: ("FineWebQualityFilter", "fineweb_"),
}

# Measured with all four filters: 285 MB once spaCy was loaded and had met some words, and 59 MB more while a
# document of a megabyte was judged.
_LOADED_BYTES: Final = 300_000_000
_HELD_PER_BYTE: Final = 64

_ONE_AT_A_TIME: Final = Lock()


def judged_by_datatrove(section: Section) -> bool:
    return isinstance(section, filters.JudgedSection) and section.implementation == "datatrove"


def datatrove_need(max_document_bytes: int) -> Need:
    longest = _HELD_PER_BYTE * max_document_bytes
    return Need("datatrove's filters", _LOADED_BYTES + longest, Kind.WATCHED, expected=_LOADED_BYTES)


@dataclass(frozen=True, slots=True)
class DatatroveFilter:
    """Drops and changes documents as datatrove's filter of the section's name does."""

    section: filters.JudgedSection
    _judge: Callable[[str], tuple[str, str | None]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_judge", _judge_of(self.section))

    @property
    def reasons(self) -> Sequence[str]:
        return quality_step((self.section,), statistics=False).reasons

    def apply(self, documents: Documents) -> Documents:
        batch = documents.batch
        at = batch.schema.get_field_index("text")
        with _ONE_AT_A_TIME:
            judged = [self._judge(text) for text in batch.column(at).to_pylist()]
        found = [reason for _, reason in judged]
        reasons = sorted({reason for reason in found if reason is not None})
        codes = np.array([0 if reason is None else 1 + reasons.index(reason) for reason in found], np.uint8)
        column = pa.array([text for text, _ in judged], pa.large_string())
        changed = batch.set_column(at, pa.field("text", pa.large_string()), column)
        return drop(Documents(changed, documents.counts, documents.rejected), codes, reasons)

    def fingerprint(self) -> str:
        """What shapes its decisions besides the config."""
        return f"datatrove {version('datatrove')}, spacy {version('spacy')}"


def _judge_of(section: filters.JudgedSection) -> Callable[[str], tuple[str, str | None]]:
    """A function from a text to what is left of it, and why it is dropped if it is."""
    try:
        peers = import_module("datatrove.pipeline.filters")
        document_of = import_module("datatrove.data").Document
        import_module("spacy")
    except ImportError:
        raise MissingExtra("`implementation: datatrove`", "datatrove") from None
    name, prefix = _PEERS[type(section)]
    judge: Any = getattr(peers, name)(**section.model_dump(exclude={"name", "implementation"}))

    def reason_of(text: str) -> tuple[str, str | None]:
        document = document_of(text=text, id="")
        verdict = judge.filter(document)
        if verdict is True:
            return document.text, None
        return text, prefix + verdict[1]

    return reason_of
