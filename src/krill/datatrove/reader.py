"""`KrillReader`: any source that Krill reads, as datatrove's documents.

In: files, globs, folders, URLs and hub ids, in any format of Krill's. Out: `Document`s in input order, with
the other columns and `file_path` in their metadata. A task takes every `world_size`-th file, as from
datatrove's readers. Held in memory: a block of the input, about a megabyte, and the documents of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain, repeat
from typing import Any, Literal

import orjson
from datatrove.data import Document, DocumentsPipeline
from datatrove.pipeline.base import PipelineStep

from krill.budget import parse_size
from krill.corpus import Corpus, DatasetSource, Documents, open_corpus
from krill.corpus.arrays import as_numpy
from krill.corpus.documents import file_and_offset
from krill.text.clean import valid_text


class KrillReader(PipelineStep):
    """`columns` are carried as metadata, by default all: those of tables with their types, those of JSON
    lines as text, what stands in a column `metadata` as it is; documents above `max_document_bytes` come in
    pieces, or not at all with `oversize="drop"`. With `verify`, files that Krill wrote are held against their
    checksums, each once in a task."""

    type = "krill"
    name = "reader"

    def __init__(
        self,
        path: str,
        split: str = "train",
        text_key: str = "text",
        id_key: str = "id",
        columns: Sequence[str] = ("*",),
        limit: int = -1,
        max_document_bytes: int | str = "4MB",
        oversize: Literal["split", "drop"] = "split",
        on_error: Literal["fail", "skip"] = "fail",
        unit_bytes: int | str = "32MB",
        verify: bool = True,
    ) -> None:
        super().__init__()
        self.source = DatasetSource(path=str(path), split=split, text_column=text_key, columns=tuple(columns))
        self.id_key = id_key
        self.limit = limit
        self.max_document_bytes = parse_size(max_document_bytes, name="max_document_bytes")
        self.oversize = oversize
        self.on_error = on_error
        self.unit_bytes = parse_size(unit_bytes, name="unit_bytes")
        self.verify = verify

    def run(self, data: DocumentsPipeline = None, rank: int = 0, world_size: int = 1) -> DocumentsPipeline:
        """The documents of this task's files, after those that come in."""
        if data is not None:
            yield from data
        own = self._corpus().only(lambda file: file.ordinal % world_size == rank)
        left = self.limit
        for block in chain.from_iterable(blocks for _, blocks in own.walk(lambda _: None)):
            with self.track_time("batch"):
                batch = block.documents()
            for document in self._documents(own, batch):
                if left == 0:
                    return
                left -= 1
                self.update_doc_stats(document)
                yield document
            self.stat_update("documents", value=batch.batch.num_rows, unit="batch")

    def _corpus(self) -> Corpus:
        return open_corpus(
            [self.source],
            unit_bytes=self.unit_bytes,
            max_document_bytes=self.max_document_bytes,
            drop_oversize=self.oversize == "drop",
            skip_malformed=self.on_error == "skip",
            verify=self.verify,
        )

    def _documents(self, corpus: Corpus, documents: Documents) -> Iterator[Document]:
        """Those that have a text, as datatrove's readers give them."""
        batch = valid_text(documents.batch)
        names = [name for name in batch.schema.names if name not in ("text", "position")]
        columns = {name: batch.column(name).to_pylist() for name in names}
        ids: Any = columns.pop(self.id_key, None) or repeat(None)
        rows = zip(*columns.values(), strict=True) if columns else repeat(())
        positions = as_numpy(batch.column("position"), "uint64").tolist()
        texts = batch.column("text").to_pylist()
        for text, position, given, row in zip(texts, positions, ids, rows, strict=False):
            if not text:
                continue
            file, offset = file_and_offset(position)
            path = corpus.files[file].path
            metadata = _unfolded(dict(zip(columns, row, strict=True)))
            metadata.setdefault("file_path", path)
            yield Document(text, f"{path}/{offset}" if given is None else str(given), [], metadata)


def _unfolded(columns: dict[str, Any]) -> dict[str, Any]:
    """Columns, with what stands in one called `metadata`, as datatrove's writers write it, beside them.

    Objects of JSON lines are carried as JSON.
    """
    given = columns.get("metadata")
    if isinstance(given, str) and given.startswith("{"):
        with suppress(orjson.JSONDecodeError):
            given = orjson.loads(given)
    if not isinstance(given, dict):
        return columns
    del columns["metadata"]
    return given | columns
