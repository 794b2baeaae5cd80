"""The files of an export, format by format.

In: an opened source, the options, and a folder that is published later. Out: the files in it. Held in memory:
what the plan's shares allow: the items in flight and what each format's sink holds; `costs` states the needs.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa

from krill.budget import Need, Plan, format_size
from krill.corpus.buffers import text_column
from krill.dataset.export.documents import DocumentBatch, EndedTokens, documents, ended_tokens
from krill.dataset.export.json_lines import id_lines, record_lines, row_lines, text_lines
from krill.dataset.export.options import ExportOptions
from krill.dataset.export.sample_files import LitDataFormat, MdsFormat, SampleSink
from krill.dataset.export.sink import (
    Content,
    ExportedFile,
    ExportFlow,
    FileSink,
    ParquetSink,
    Prepared,
    Sink,
    write_in_order,
)
from krill.dataset.export.source import ExportSource
from krill.dataset.export.token_files import (
    BIN_NAMES,
    DsSink,
    MegatronSink,
    bin_tokens,
    token_dtype,
    write_meta,
)
from krill.dataset.manifest import DatasetPart
from krill.dataset.rows import RowBatch
from krill.dataset.shard import ShardInfo
from krill.errors import StorageError
from krill.tokenizer import Encoder
from krill.tokenizer.open import encoder_needs

# Bytes held for each byte of tokens from being read to being written: the batch and what is made of it. Of
# 630 MB of 16-bit tokens in batches of 1 MiB, one and two threads held above the base: 6 and 8 MB as bin and
# as megatron, 17 and 37 MB as rows of JSON, seldom 50 (four batches at once), 30 and 45 MB as documents of
# ids. Of 150 MB of tokens, decoded with a vocabulary of 16,000, up to 37 and 67 MB; of 200 MB of bytes, whose
# text is a quarter of that, up to 19 and 26 MB.
_COST: Final = {
    **{"bin": 4, "megatron": 4, "datatrove": 4, "parquet": 2, "jsonl": 13},
    **dict.fromkeys(("mds", "litdata", "litdata-tokens"), 4),
}
_DECODED_COST: Final = 16
_DECODED_BYTES_COST: Final = 7
# A row group of 8 MB and what Arrow makes of it: of the same tokens, 42 to 47 MB, rows in flight included.
_ROW_GROUP: Final = 42_000_000
# A row group of 8 MB of kept documents, and some of them as Python strings: 42 and 47 MB of 300 MB of text.
_DOCUMENTS: Final = 60_000_000
# A document on its way to a line: its ids, twice while they are joined, its text, and the line.
_PER_TOKEN: Final = 24

_IN_FLIGHT: Final = "rows in flight"
_LONGEST: Final = "the longest document"


@dataclass(frozen=True, slots=True)
class Costs:
    each: int
    per_byte: int
    needs: list[Need]

    def bytes_in_flight(self, plan: Plan) -> int:
        """What may be worked on: one item besides waits, already read, and one is being written."""
        return plan.share(_IN_FLIGHT) - 2 * self.each

    def longest_document(self, plan: Plan) -> int:
        """How many tokens of one document fit their share."""
        return plan.share(_LONGEST) // _PER_TOKEN


def costs(source: ExportSource, options: ExportOptions, threads: int, tokenizer: Path | None) -> Costs:
    if options.what == "text":
        return Costs(_DOCUMENTS // 3, 4, [Need(_IN_FLIGHT, _DOCUMENTS)])
    decoder = source.tokenizer_config(tokenizer) if options.text else None
    per_byte = _COST[options.to]
    if decoder is not None:  # how much text a token becomes depends on the vocabulary
        per_byte = _DECODED_COST if decoder.builtin is None else _DECODED_BYTES_COST
    layouts = [part.layout for part in source.parts(options.split).values()]
    batch = max(layout.rows_per_batch * layout.row_bytes for layout in layouts)
    each = per_byte * batch
    needs = [Need(_IN_FLIGHT, 3 * each, useful=(threads + 2) * each)]
    if options.to == "parquet":
        needs.append(Need("a row group", max(_ROW_GROUP, 5 * batch)))
    if options.by_documents:
        longest = _PER_TOKEN * source.max_document_bytes  # hardly a tokenizer makes more tokens than bytes
        needs.append(Need(_LONGEST, longest // 4, useful=longest, expected=0))
    if decoder is not None:
        # A tokenizer that decodes holds its tables, and nothing of what encoding takes.
        held = encoder_needs(decoder, source.max_document_bytes, threads)
        needs += [need for need in held if need.during != "encode"]
    return Costs(each, per_byte, needs)


Tokens = TypeVar("Tokens", RowBatch, EndedTokens, DocumentBatch)


@dataclass(frozen=True, slots=True)
class ExportWriter:
    source: ExportSource
    options: ExportOptions
    costs: Costs
    plan: Plan
    folder: Path
    flow: ExportFlow

    def write(self, tokenizer: Path | None) -> list[ExportedFile]:
        """All files; `tokenizer` says where it is now if not where the dataset's config has it."""
        progress = self.flow.progress
        progress.begin("export", sum(shard.bytes for shard in self._shards_read()))
        files = self._records() if self.options.what == "text" else self._tokens(tokenizer)
        progress.end("export")
        return files

    def _shards_read(self) -> Iterable[ShardInfo]:
        if self.options.what == "text" and self.source.manifest.text is not None:
            return self.source.manifest.text.shards
        return (shard for part in self.source.parts(self.options.split).values() for shard in part.shards)

    def _records(self) -> list[ExportedFile]:
        sink = FileSink[pa.RecordBatch](self.folder / "documents.jsonl", record_lines)
        batches = self.source.documents(self.flow.progress)
        return write_in_order(batches, sink, lambda batch: self.costs.per_byte * batch.nbytes, self.flow)

    def _tokens(self, tokenizer: Path | None) -> list[ExportedFile]:
        encoder = None
        if self.options.text:
            config = self.source.tokenizer_config(tokenizer)
            encoder = self.source.open_tokenizer(config, self.flow.threads)
        dtype = token_dtype(self.options, self.source.vocab_size)
        parts = self.source.parts(self.options.split)
        self._check_space(parts.values(), dtype)
        files = [
            replace(file, split=split)
            for split, part in parts.items()
            for file in self._split(split, part, dtype, encoder)
        ]
        if self.options.to == "bin":
            files.append(write_meta(self.folder, dtype, files, self.source.manifest.tokenizer or {}))
        return files

    def _split(
        self, split: str, part: DatasetPart, dtype: str, encoder: Encoder | None
    ) -> list[ExportedFile]:
        rows = self.source.rows(split, self.flow.progress)
        match self.options.to:
            case "bin":
                path = self.folder / BIN_NAMES.get(split, f"{split}.bin")
                return self._pour(rows, FileSink(path, partial(bin_tokens, dtype=dtype), ("rows", "tokens")))
            case "parquet":
                return self._pour(rows, ParquetSink(self.folder, split, part.layout))
            case "megatron":
                ended = ended_tokens(rows, self.source.joining(part))
                return self._pour(ended, MegatronSink(self.folder, split, dtype))
            case "datatrove":
                ended = ended_tokens(rows, self.source.joining(part))
                name = str((self.source.manifest.tokenizer or {}).get("name") or "unknown")
                return self._pour(ended, DsSink(self.folder, split, dtype, name))
            case "mds":
                return self._pour(rows, SampleSink(self.folder, split, MdsFormat(part.layout)))
            case "litdata" | "litdata-tokens":
                chunks = LitDataFormat(part.layout, only_tokens=self.options.to == "litdata-tokens")
                return self._pour(rows, SampleSink(self.folder, split, chunks))
            case "jsonl":
                path = self.folder / f"{split}.jsonl"
                if not self.options.by_documents:
                    return self._pour(rows, FileSink(path, row_lines))
                longest = self.costs.longest_document(self.plan)
                whole = documents(rows, self.source.joining(part), longest)
                return self._pour(whole, FileSink(path, self._document_lines(encoder)))

    def _document_lines(self, encoder: Encoder | None) -> Callable[[DocumentBatch], Content]:
        if encoder is None:
            return id_lines
        bos_id = self.source.token("bos_id")
        bos_id = _begins_every_text(encoder) if bos_id is None else bos_id
        return partial(text_lines, decode=encoder.decode, bos_id=bos_id, eos_id=self.source.token("eos_id"))

    def _pour(self, items: Iterable[Tokens], sink: Sink[Tokens, Prepared]) -> list[ExportedFile]:
        return write_in_order(items, sink, lambda item: self.costs.per_byte * item.tokens.nbytes, self.flow)

    def _check_space(self, parts: Iterable[DatasetPart], dtype: str) -> None:
        """Refuse at once what can't fit: the least that the files will take is known."""
        if self.options.to in ("parquet", "jsonl"):
            return  # compressed, or of a size that depends on the tokens
        samples = self.options.to in ("mds", "litdata")
        size = np.dtype(dtype).itemsize
        least = sum(part.tokens * (part.layout.token_bytes if samples else size) for part in parts)
        free = shutil.disk_usage(self.folder).free
        if least > free:
            raise StorageError(
                f"the export takes at least {format_size(least)}, and {format_size(free)} are free where "
                f"`{self.folder.parent.parent}` is",
                hint="free some space, or choose an --output on another device",
            )


def _begins_every_text(encoder: Encoder) -> int | None:
    """The token that a tokenizer puts before any text by itself; None if it has no such."""
    nothing_and_a_letter = text_column(np.array([0, 0, 1], np.int64), np.frombuffer(b"a", np.uint8))
    ids, lengths = encoder.encode(nothing_and_a_letter)
    added = int(lengths[0]) - (0 if encoder.eos_id is None else 1)
    return int(ids[0]) if added and ids[0] == ids[lengths[0]] else None
