"""Every row and every checksum of an output folder.

In: a folder. Out: what was checked, or an InputError for the first fault, with file, row and value. Each file
is read once, and decoded by pyarrow, not by the reader's own arithmetic. Held in memory: the manifest and one
record batch (about a mebibyte), or one row group of a text shard.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from krill.corpus.arrays import as_numpy
from krill.dataset.dataset_files import all_dataset_files
from krill.dataset.fields import Fields
from krill.dataset.layout import Layout
from krill.dataset.manifest import MANIFEST_NAME, DatasetPart, Manifest, TextPart
from krill.dataset.shard import ShardInfo, is_plain_name
from krill.dataset.shard_file import END_OF_STREAM, ShardFile, VerifiedReads, reading
from krill.dataset.text_shard import check_names
from krill.errors import InputError
from krill.faults import first_line
from krill.storage.input_file import read_input
from krill.storage.outputs import DAMAGED_HINT, refuse_checksum
from krill.threads import ordered_map

_LONGEST_SCHEMA = 2**16
IGNORED = -100


@dataclass(frozen=True, slots=True)
class Report:
    """What was read and found whole."""

    files: int
    bytes: int
    rows: int
    tokens: int
    documents: int

    def to_json(self) -> dict[str, int]:
        return asdict(self)


def validate(path: str | Path, *, threads: int = 1) -> Report:
    """Check everything in `path`, an output folder of Krill; the first fault in its order is raised."""
    folder = Path(path)
    manifest = Manifest.load(folder)
    if manifest.command == "export":
        return _validate_export(folder, manifest)
    _check_examples(folder, manifest)
    checks: list[_TokenShard | _TextShard] = []
    if manifest.parts:
        assert manifest.tokenizer is not None, "Manifest.load refuses a dataset without its tokenizer"
        _check_dataset_files(folder, manifest.parts)
        vocab_size = int(manifest.tokenizer["vocab_size"])
        checks += [
            _TokenShard(ShardFile(part.folder(folder), shard), part.layout, vocab_size)
            for part in manifest.parts
            for shard in part.shards
        ]
    texts = [part for part in (manifest.text, manifest.rejected) if part is not None]
    checks += [_TextShard(ShardFile(folder, shard)) for part in texts for shard in part.shards]
    for _ in ordered_map(
        lambda shard: shard.check(), checks, threads=threads, bytes_in_flight=threads, size=lambda _: 1
    ):
        pass
    written: list[DatasetPart | TextPart] = [*manifest.parts, *texts]
    shards = [shard for part in written for shard in part.shards]
    return Report(
        files=len(shards),
        bytes=sum(shard.bytes for shard in shards),
        rows=sum(part.rows for part in manifest.parts),
        tokens=sum(part.tokens for part in manifest.parts),
        documents=manifest.text.rows if manifest.text else 0,
    )


def _validate_export(folder: Path, manifest: Manifest) -> Report:
    """Every file of an export has the size and checksum that the manifest states."""
    source = str(folder / MANIFEST_NAME)
    listed = Fields(dict(manifest.extra), source=source).mappings("files")
    # What a file holds is another count in each format: here they only have to be whole.
    placed = [_in_a_folder(entry) for entry in listed]
    fields = Fields({"files": [{"rows": 0, **entry} for _, entry in placed]}, source=source)
    entries = fields.inners("files")
    documents = sum(entry.count("documents") for entry in entries if entry.has("documents"))
    files = [ShardInfo.from_fields(entry) for entry in entries]
    if not files:
        fields.refuse("files", "is empty")
    for index, ((inside, _), file) in enumerate(zip(placed, files, strict=True)):
        if inside and (folder / inside).is_symlink():
            fields.refuse(f"files[{index}].file", f"is in a folder that is a link: `{inside}`")
        VerifiedReads(ShardFile(folder / inside, file)).finish(hint=DAMAGED_HINT)
    return Report(
        files=len(files),
        bytes=sum(file.bytes for file in files),
        rows=sum(file.rows for file in files),
        tokens=sum(file.tokens or 0 for file in files),
        documents=documents,
    )


def _in_a_folder(entry: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The folder of a split that a file is in, if it is in one, and its entry with the name inside of it."""
    name = entry.get("file")
    folder, _, plain = name.rpartition("/") if isinstance(name, str) else ("", "", "")
    return (folder, {**entry, "file": plain}) if is_plain_name(folder) else ("", entry)


def _check_examples(folder: Path, manifest: Manifest) -> None:
    """The examples of dropped documents are as they were written, where a run has kept some."""
    fields = Fields(dict(manifest.extra), source=str(folder / MANIFEST_NAME))
    if fields.has("examples"):
        file = ShardInfo.from_fields(fields.inner("examples"))
        VerifiedReads(ShardFile(folder, file)).finish(hint=DAMAGED_HINT)


def _check_dataset_files(folder: Path, parts: Sequence[DatasetPart]) -> None:
    for name, expected in all_dataset_files(parts).items():
        with reading(folder / name):
            found = read_input(folder / name, _LONGEST_SCHEMA + len(expected))
        if found != expected:
            raise InputError(
                f"`{folder / name}` differs from what the manifest describes",
                hint="the file was changed after it was written; write the folder again with `--overwrite`",
            )


class _TokenShard:
    """One Arrow shard, walked from its first byte to its last, hashing along the way."""

    def __init__(self, file: ShardFile, layout: Layout, vocab_size: int) -> None:
        self._file = file
        self._layout = layout
        self._vocab_size = vocab_size
        self._hash = hashlib.sha256()
        self._tokens = 0

    def check(self) -> None:
        shard = self._file.shard
        self._check_schema(shard.batches[0] if shard.batches else shard.bytes - len(END_OF_STREAM))
        for batch in range(len(shard.batches)):
            self._check_batch(batch)
        if self._take(shard.bytes - len(END_OF_STREAM), shard.bytes) != END_OF_STREAM:
            self._file.fail("does not end with Arrow's end-of-stream marker")
        if shard.tokens is not None and shard.tokens != self._tokens:
            self._file.fail(f"has {self._tokens} tokens, and the manifest says {shard.tokens}")
        if (found := self._hash.hexdigest()) != shard.sha256:
            refuse_checksum(str(self._file.path), found, shard.sha256, hint=DAMAGED_HINT)

    def _take(self, start: int, end: int) -> bytearray:
        content = self._file.read(start, max(0, end - start))
        self._hash.update(content)
        return content

    def _check_schema(self, end: int) -> None:
        if end > _LONGEST_SCHEMA:
            self._file.fail("does not begin with an Arrow schema")
        content = self._take(0, end)
        try:
            schema = pa.ipc.read_schema(pa.py_buffer(content))
            shown = ", ".join(f"{column.name}: {column.type}" for column in schema)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            self._file.fail(f"does not begin with an Arrow schema: {first_line(error)}")
        if not schema.equals(self._layout.schema, check_metadata=True):
            self._file.fail(f"has another schema than the manifest: `{shown}`")

    def _check_batch(self, number: int) -> None:
        first = number * self._layout.rows_per_batch
        rows = self._layout.rows_in_batch(self._file.shard.rows, number)
        content = self._take(self._file.shard.batches[number], self._file.batch_end(number))
        try:
            message = pa.ipc.read_message(pa.py_buffer(content))
            batch = pa.ipc.read_record_batch(message, self._layout.schema)
            batch.validate(full=True)
        except (pa.ArrowException, OSError, EOFError) as error:
            self._file.fail(f"cannot be decoded at rows {first} to {first + rows - 1}: {first_line(error)}")
        if batch.num_rows != rows:
            self._file.fail(f"has {batch.num_rows} rows in the record batch of row {first}, not {rows}")
        self._check_rows(batch, first)

    def _check_rows(self, batch: pa.RecordBatch, first: int) -> None:
        tokens, documents = batch.column("input_ids"), batch.column("seq_lengths")
        if any(column.null_count or column.values.null_count for column in batch.columns):
            self._file.fail(f"has a null in the record batch of row {first}")
        starts = self._row_starts(tokens, first)
        # `values` rather than `flatten()`, which copies, and imports 9 MB of kernels to do so.
        ids = as_numpy(tokens.values, self._layout.dtype)[starts[0] : starts[-1]]
        wrong = np.flatnonzero((ids < 0) | (ids >= self._vocab_size))
        if len(wrong):
            row = first + int(np.searchsorted(starts - starts[0], wrong[0], side="right")) - 1
            self._file.fail(
                f"row {row} has token id {ids[wrong[0]]}, outside a vocabulary of {self._vocab_size}"
            )
        self._tokens += len(ids)
        offsets = as_numpy(documents.offsets, "int32")
        lengths = as_numpy(documents.values, "int32")[offsets[0] : offsets[-1]]
        self._check_lengths(lengths, offsets - offsets[0], np.diff(starts), first)
        if self._layout.labels:
            self._check_labels(batch, ids, lengths, starts, first)

    def _check_labels(
        self,
        batch: pa.RecordBatch,
        ids: npt.NDArray[Any],
        lengths: npt.NDArray[np.int32],
        starts: npt.NDArray[np.int64],
        first: int,
    ) -> None:
        """A label is the token, or -100, as it is where a conversation begins; each has something to
        learn."""
        for name in batch.schema.names[2:]:
            if not np.array_equal(as_numpy(batch.column(name).offsets, "int32"), starts):
                self._file.fail(
                    f"has other numbers of `{name}` than of tokens in the record batch of row {first}"
                )
        own = slice(starts[0], starts[-1])
        labels = as_numpy(batch.column("labels").values, "int32")[own]
        ends = np.cumsum(lengths, dtype=np.int64)
        learned = labels != IGNORED
        wrong = learned & (labels != ids)
        wrong[ends - lengths] |= learned[ends - lengths]
        if self._layout.attention_mask:
            wrong |= as_numpy(batch.column("attention_mask").values, "int8")[own] != 1
        before = np.concatenate(([0], np.cumsum(learned)))
        nothing = before[ends] == before[ends - lengths]
        places = np.concatenate((np.flatnonzero(wrong), (ends - lengths)[nothing]))
        if len(places):
            row = first + int(np.searchsorted(starts - starts[0], places[0], side="right")) - 1
            fault = "a label that is neither its token nor -100" if wrong.any() else "nothing to learn"
            self._file.fail(f"row {row} has {fault}, in a conversation")

    def _row_starts(self, tokens: pa.Array, first: int) -> npt.NDArray[np.int64]:
        """Where rows begin among the batch's tokens, one number more than rows."""
        length = self._layout.sequence_len
        if self._layout.fixed:
            return np.arange(len(tokens) + 1, dtype=np.int64) * length
        starts = as_numpy(tokens.offsets, "int32").astype(np.int64)
        widths = np.diff(starts)
        wrong = np.flatnonzero((widths < 1) | (widths > length))
        if len(wrong):
            self._file.fail(
                f"row {first + wrong[0]} has {widths[wrong[0]]} tokens, not between 1 and {length}"
            )
        return starts

    def _check_lengths(
        self,
        lengths: npt.NDArray[np.int32],
        offsets: npt.NDArray[np.int32],
        widths: npt.NDArray[np.int64],
        first: int,
    ) -> None:
        wrong = np.flatnonzero(lengths <= 0)
        if len(wrong):
            row = first + int(np.searchsorted(offsets, wrong[0], side="right")) - 1
            self._file.fail(f"row {row} has a document of length {lengths[wrong[0]]} in `seq_lengths`")
        ends = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
        sums = np.diff(ends[offsets])
        wrong = np.flatnonzero(sums != widths)
        if len(wrong):
            self._file.fail(
                f"row {first + wrong[0]} has {widths[wrong[0]]} tokens, "
                f"but its `seq_lengths` add up to {sums[wrong[0]]}"
            )


class _TextShard:
    """One Parquet shard: the checksum first, so that only what Krill wrote is decoded."""

    def __init__(self, file: ShardFile) -> None:
        self._file = file

    def check(self) -> None:
        VerifiedReads(self._file).finish(hint=DAMAGED_HINT)

        import pyarrow.parquet as pq  # not at the top: a dataset without text is checked without it

        try:
            with pq.ParquetFile(self._file.path, pre_buffer=False) as parquet:
                self._check_rows(parquet)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            self._file.fail(f"cannot be decoded: {first_line(error)}")

    def _check_rows(self, parquet: Any) -> None:
        rows = parquet.metadata.num_rows
        if rows != self._file.shard.rows:
            self._file.fail(f"has {rows} rows, and the manifest says {self._file.shard.rows}")
        schema = parquet.schema_arrow
        check_names(self._file, schema.names)
        if "text" not in schema.names or schema.field("text").type not in (pa.string(), pa.large_string()):
            self._file.fail("has no column `text` of strings")
        first = 0
        for group in range(parquet.num_row_groups):
            table = parquet.read_row_group(group, use_threads=False)
            for batch in table.to_batches():
                self._check_batch(batch, first)
                first += batch.num_rows

    def _check_batch(self, batch: pa.RecordBatch, first: int) -> None:
        try:
            batch.validate(full=True)
        except pa.ArrowInvalid as error:
            self._file.fail(f"row {first + _first_invalid(batch.column('text'))}: {first_line(error)}")


def _first_invalid(texts: Any) -> int:
    """The first row that is not valid UTF-8; by hand, since this runs once, on a fault that was found."""
    for row, content in enumerate(texts.cast(pa.large_binary())):
        try:
            (content.as_py() or b"").decode()
        except UnicodeDecodeError:
            return row
    return 0
