"""`Clean` and `Filters`: Krill's text steps as steps of datatrove.

In: `Document`s. Out: those that no step drops, with the text that the steps leave of them, and the columns
that they add in `metadata`. What is dropped goes to the `exclusion_writer`, if there is one, with its reason
in `metadata["filter_reason"]`, as from datatrove's own filters. Held in memory: a batch, its texts twice as
UTF-8, scratch that grows with the longest document, and for `language` its model.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Final

import pyarrow as pa
from datatrove.data import Document, DocumentsPipeline
from datatrove.pipeline.filters.base_filter import BaseFilter
from datatrove.pipeline.writers.disk_base import DiskWriter
from datatrove.utils.typeshelper import StatHints

from krill.budget import parse_size
from krill.config import load_config
from krill.config.filters import Url
from krill.corpus.arrays import as_numpy
from krill.corpus.documents import Documents
from krill.datatrove.batches import BATCH_BYTES, as_batch, as_valid_batch, in_batches, metadata_column
from krill.errors import ConfigError
from krill.text import CleanText, Step, language
from krill.text.build import changes_text, filter_steps
from krill.text.quality import QualityFilter

# Krill has the names of some of datatrove's filters before their reasons.
_NAMED: Final = ("gopher_", "c4_", "fineweb_", "url_")
_GOPHER_REPETITION: Final = ("gopher_empty", "gopher_dup", "gopher_top_")


class TextStep(BaseFilter):
    """A filter of datatrove's, in batches of its own. What executors copy and pickle are the settings alone:
    native objects can be neither."""

    type = "krill"
    changes_text = True
    """Whether texts may be others afterwards; if not, they are not read back."""
    metadata: tuple[str, ...] = ()
    """Keys of documents' metadata that the steps take as columns."""
    cleans = False
    """Whether the steps themselves remove what is not UTF-8, and count it."""

    def __init__(self, exclusion_writer: DiskWriter | None, batch_bytes: int | str) -> None:
        super().__init__(exclusion_writer)
        self.batch_bytes = parse_size(batch_bytes, name="batch_bytes")
        self._made: Sequence[Step] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": None}

    @abstractmethod
    def steps(self) -> Sequence[Step]:
        """The steps, made when the first document comes."""

    def reason(self, reason: str) -> str | None:
        """What a reason of the steps is called here; None is no reason."""
        return reason

    def filter(self, doc: Document) -> bool | tuple[bool, str]:
        """Whether a document is kept, or False with the reason why not; slow, for one alone."""
        return self.filter_batch([doc])[0]

    def filter_batch(self, batch: list[Document]) -> list[bool | tuple[bool, str]]:
        """The same of each document of a batch."""
        dropped = self._apply(batch)
        verdicts: list[bool | tuple[bool, str]] = [True] * len(batch)
        for place, reason in dropped.items():
            verdicts[place] = False if reason is None else (False, reason)
        return verdicts

    def run(self, data: DocumentsPipeline, rank: int = 0, world_size: int = 1) -> DocumentsPipeline:
        with self.exclusion_writer or nullcontext() as writer:
            for batch in in_batches(data, self.batch_bytes):
                with self.track_time("batch"):
                    dropped = self._apply(batch)
                yield from self._kept(batch, dropped, writer, rank)

    def _apply(self, documents: list[Document]) -> dict[int, str | None]:
        """Why documents are dropped, by their places; the others get the texts that are left of them."""
        if self._made is None:
            self._made = self.steps()
        batch = as_batch(documents) if self.cleans else as_valid_batch(documents)
        for name in self.metadata:
            batch = batch.append_column(name, metadata_column(documents, name))
        result = Documents(batch, {}, ())
        for step in self._made:
            result = step.apply(result)
        self._count_lines(self._made)
        if self.changes_text:
            for place, text in zip(_places(result.batch), result.batch["text"].to_pylist(), strict=True):
                documents[place].text = text
        _annotate(documents, result.batch, self.metadata)
        assert result.rejected is not None
        dropped: dict[int, str | None] = {}
        for rows in result.rejected:
            _annotate(documents, rows, self.metadata)
            reasons = map(self.reason, rows["reason"].to_pylist())
            dropped.update(zip(_places(rows), reasons, strict=True))
        return dropped

    def _count_lines(self, steps: Sequence[Step]) -> None:
        for step in steps:
            if isinstance(step, QualityFilter):
                for name, count in step.filters.take_line_counts().items():
                    self.stat_update(name, value=count)

    def _kept(
        self, documents: list[Document], dropped: dict[int, str | None], writer: Any, rank: int
    ) -> Iterator[Document]:
        """Counted as datatrove's filters count."""
        for place, document in enumerate(documents):
            self.stat_update(StatHints.total)
            if place not in dropped:
                self.stat_update(StatHints.forwarded)
                self.update_doc_stats(document)
                yield document
                continue
            reason = dropped[place]
            self.stat_update(StatHints.dropped, *(() if reason is None else (f"dropped_{reason}",)))
            if writer is not None:
                if reason is not None:
                    document.metadata["filter_reason"] = reason
                writer.write(document, rank)


class Clean(TextStep):
    """Removes lone surrogates and, with `strip`, whitespace at both ends, as Krill does first with every
    document; then drops what has fewer than `min_chars` characters, as `too_short`."""

    name = "clean"
    cleans = True

    def __init__(
        self,
        strip: bool = True,
        min_chars: int = 100,
        exclusion_writer: DiskWriter | None = None,
        batch_bytes: int | str = BATCH_BYTES,
    ) -> None:
        super().__init__(exclusion_writer, batch_bytes)
        if min_chars < 0:
            raise ConfigError(f"`min_chars` is `{min_chars}`", hint="give a number from 0 on")
        self.strip = strip
        self.min_chars = min_chars

    def steps(self) -> Sequence[Step]:
        return [CleanText(self.strip, self.min_chars)]


class Filters(TextStep):
    """Filters as `preprocess.filters` of a config names them, in their order. Reasons and statistics are
    datatrove's where it has the same filter; a document dropped for its language has no reason there.

    `Filters("gopher_quality", {"c4": {"filter_no_terminal_punct": False}}, {"language": {"allow": ["en"]}})`;
    also a preset such as `web-en`, and a function of your own as `module:function`.
    """

    name = "filters"

    def __init__(
        self,
        *filters: str | Mapping[str, Any],
        exclusion_writer: DiskWriter | None = None,
        batch_bytes: int | str = BATCH_BYTES,
    ) -> None:
        super().__init__(exclusion_writer, batch_bytes)
        if not filters:
            raise ConfigError("`Filters` names no filter", hint='name some, as in Filters("gopher_quality")')
        self.filters = filters
        self.settings = load_config({"preprocess": {"filters": list(filters), "min_chars": 0}}).preprocess
        self.changes_text = changes_text(self.settings)
        urls = (section.column for section in self.settings.filters if isinstance(section, Url))
        self.metadata = tuple(dict.fromkeys(urls))

    def steps(self) -> Sequence[Step]:
        return filter_steps(self.settings, label=True)

    def reason(self, reason: str) -> str | None:
        """What datatrove's filter calls it."""
        if reason in language.REASONS:
            return None
        if reason.startswith("gopher_") and not reason.startswith(_GOPHER_REPETITION):
            return reason
        return next((reason.removeprefix(name) for name in _NAMED if reason.startswith(name)), reason)


def _places(batch: pa.RecordBatch) -> list[int]:
    places: list[int] = as_numpy(batch.column("position"), "uint64").tolist()
    return places


def _annotate(documents: Sequence[Document], batch: pa.RecordBatch, given: Sequence[str]) -> None:
    """What steps have added to documents, such as their language, becomes metadata of theirs."""
    added = [name for name in batch.schema.names if name not in ("text", "position", "reason", *given)]
    if not added:
        return
    places = _places(batch)
    for name in added:
        for place, value in zip(places, batch.column(name).to_pylist(), strict=True):
            documents[place].metadata[name] = value
