"""What `Clean` and `Filters` have in common: batches of documents through steps of Krill's.

In: `Document`s. Out: those that no step drops, with the text that the steps leave of them. What is dropped
goes to the `exclusion_writer`, if there is one, with its reason in `metadata["filter_reason"]`, as from
datatrove's own filters. Held in memory: a batch, its column of texts, and what the steps hold.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any

from datatrove.data import Document, DocumentsPipeline
from datatrove.pipeline.base import PipelineStep
from datatrove.pipeline.writers.disk_base import DiskWriter
from datatrove.utils.typeshelper import StatHints

from krill.budget import parse_size
from krill.corpus.arrays import as_numpy
from krill.corpus.documents import Documents
from krill.datatrove.batches import as_batch, as_valid_batch, in_batches
from krill.text import Step


class TextStep(PipelineStep):
    """Holds settings alone: executors copy and pickle steps, and native objects can be neither."""

    type = "krill"
    changes_text = True
    """Whether texts may be others afterwards; if not, they are not read back."""
    cleans = False
    """Whether the steps themselves remove what is not UTF-8, and count it."""

    def __init__(self, exclusion_writer: DiskWriter | None, batch_bytes: int | str) -> None:
        super().__init__()
        self.exclusion_writer = exclusion_writer
        self.batch_bytes = parse_size(batch_bytes, name="batch_bytes")

    @abstractmethod
    def steps(self) -> Sequence[Step]:
        """The steps, made anew for each task."""

    def run(self, data: DocumentsPipeline, rank: int = 0, world_size: int = 1) -> DocumentsPipeline:
        """The documents that survive, in their order."""
        steps = self.steps()
        with self.exclusion_writer or nullcontext() as writer:
            for batch in in_batches(data or (), self.batch_bytes):
                with self.track_time("batch"):
                    reasons = self._apply(steps, batch)
                yield from self._kept(batch, reasons, writer, rank)

    def _apply(self, steps: Sequence[Step], documents: list[Document]) -> dict[int, str]:
        """Why documents are dropped, by their places; the others get the texts that are left of them."""
        batch = as_batch(documents) if self.cleans else as_valid_batch(documents)
        result = Documents(batch, {}, ())
        for step in steps:
            result = step.apply(result)
        if self.changes_text:
            places = as_numpy(result.batch.column("position"), "uint64").tolist()
            for place, text in zip(places, result.batch.column("text").to_pylist(), strict=True):
                documents[place].text = text
        assert result.rejected is not None
        return {
            place: reason
            for rows in result.rejected
            for place, reason in zip(
                as_numpy(rows.column("position"), "uint64").tolist(),
                rows.column("reason").to_pylist(),
                strict=True,
            )
        }

    def _kept(
        self, documents: list[Document], reasons: dict[int, str], writer: Any, rank: int
    ) -> Iterator[Document]:
        """Counted as datatrove's filters count."""
        for place, document in enumerate(documents):
            self.stat_update(StatHints.total)
            reason = reasons.get(place)
            if reason is None:
                self.stat_update(StatHints.forwarded)
                self.update_doc_stats(document)
                yield document
                continue
            self.stat_update(StatHints.dropped, f"dropped_{reason}")
            if writer is not None:
                document.metadata["filter_reason"] = reason
                writer.write(document, rank)
