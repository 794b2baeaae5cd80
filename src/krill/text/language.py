"""Language: documents in other languages are dropped, and those of which the model is not sure.

In: cleaned documents. Out: those in a language that is allowed, with a score above the least. Held in memory:
the model (`language_model.py`, or `fasttext.py`), and of a batch two numbers a document. The reference is
py3langid itself, whose answers are the same: `tests/parity/test_parity_language.py`.

Counted: `language` is rows dropped for being in another language, `language_unsure` those in an allowed one
whose score is too low. Measured: `language`, `language_score`; with `label`, of dropped rows as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from krill.config.filters import Language
from krill.config.keys import nearest
from krill.config.messages import MOST_LISTED, listed
from krill.corpus.arrays import as_arrow
from krill.corpus.buffers import offsets_of, text_buffers, text_column
from krill.corpus.documents import Documents
from krill.errors import ConfigError
from krill.text.language_model import load
from krill.text.step import drop, with_columns, with_new_statistics

REASONS: Final[Mapping[str, str]] = {
    "language": "in another language",
    "language_unsure": "in an allowed language, but min_score is not reached",
}
KEYS: Final[Mapping[str, str]] = {"language": "language.allow", "language_unsure": "language.min_score"}

DROPPED_IN: Final = "language:"
"""Before a language in counts: documents that were dropped in it, for one of these reasons."""


class Guesser(Protocol):
    """A model that says of each document the number of its language, and how sure it is."""

    @property
    def languages(self) -> tuple[str, ...]:
        """The name of each number."""

    @property
    def fingerprint(self) -> str:
        """What is known of the model besides the config; empty if nothing."""

    def classify(
        self, offsets: NDArray[np.int64], data: NDArray[np.uint8]
    ) -> tuple[NDArray[Any], NDArray[np.float32]]: ...


@dataclass(frozen=True, slots=True)
class LanguageFilter:
    """Keeps documents in the languages that `section` allows. Loads the model unless it is given one."""

    section: Language
    statistics: bool
    label: bool = False
    """Whether both columns are a part of every document, in place of any that have their names."""
    model: Guesser = field(default_factory=load, repr=False)

    def __post_init__(self) -> None:
        unknown = [code for code in self.section.allow or () if code not in self.model.languages]
        if unknown:
            named, more = unknown[:MOST_LISTED], len(unknown) - MOST_LISTED
            others = f" and {more:,} more" if more > 0 else ""
            suggestion = _suggestion(named, self.model.languages)
            known = sorted(filter(None, set(self.model.languages)))
            raise ConfigError(
                f"the language model does not know {listed(named)}{others}{suggestion}",
                hint=f"filters: language: allow takes some of {', '.join(known)}",
            )

    @property
    def reasons(self) -> Sequence[str]:
        return tuple(REASONS)

    def apply(self, documents: Documents) -> Documents:
        offsets, data = text_buffers(documents.batch.column("text"))
        languages, scores = self.model.classify(offsets, data)
        if self.statistics or self.label:
            documents = self._labelled(documents, languages, scores)
        if self.section.label_only:
            return documents
        codes = np.where(scores > self.section.min_score, 0, 2).astype(np.uint8)
        if self.section.allow is not None:
            codes[~np.isin(self.model.languages, self.section.allow)[languages]] = 1
        return self._with_languages(drop(documents, codes, self.reasons), languages[codes != 0])

    def _with_languages(self, documents: Documents, dropped: NDArray[Any]) -> Documents:
        """The documents that are left, with what languages the others were in among the counts."""
        counts = Counter(documents.counts)
        for at, number in enumerate(np.bincount(dropped).tolist()):
            if number:
                counts[f"{DROPPED_IN}{self.model.languages[at]}"] += number
        return replace(documents, counts=dict(counts))

    def fingerprint(self) -> str:
        """Changes with the file of a model; empty for the one that comes with Krill."""
        return self.model.fingerprint

    def _labelled(
        self, documents: Documents, languages: NDArray[Any], scores: NDArray[np.float32]
    ) -> Documents:
        columns = {"language": _names(self.model.languages, languages), "language_score": as_arrow(scores)}
        if not self.label:
            return with_new_statistics(documents, columns)
        batch = with_columns(documents.batch, list(columns.items()))
        return Documents(batch, documents.counts, documents.rejected)


def _suggestion(unknown: Sequence[str], known: Sequence[str]) -> str:
    near = [found for code in unknown if (found := nearest(code, known)) is not None]
    return f"; did you mean {listed(dict.fromkeys(near))}?" if near else ""


def _names(languages: Sequence[str], numbers: NDArray[Any]) -> pa.Array:
    """The name of each number, without Python per row."""
    encoded = np.array([name.encode() for name in languages], np.bytes_)
    letters = encoded.view(np.uint8).reshape(len(languages), -1)[numbers]
    return text_column(offsets_of(np.count_nonzero(letters, axis=1)), letters[letters != 0])
