"""From a block of input to the documents that survive on their own merits: read, clean, filter.

The same function serves the scan, which hashes them, and every later stage that reads them again, so all
stages see the same documents in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from krill import _native
from krill.corpus import Documents
from krill.corpus.blocks import RangeBlock
from krill.corpus.buffers import text_buffers
from krill.corpus.checks import check_batch
from krill.storage.commits import damaged, reading_artifact
from krill.text import Step
from krill.text.clean import CleanText

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


class Readable(Protocol):
    """A piece of input that knows its size and how to become documents: a corpus block or a spilled one."""

    @property
    def nbytes(self) -> int: ...

    def documents(self) -> Documents: ...


@dataclass(frozen=True, slots=True)
class SpilledBlock:
    """The survivors of one block, as the scan wrote them: an Arrow stream of its own in the unit's file."""

    path: Path
    offset: int
    size: int
    text_bytes: int

    @property
    def nbytes(self) -> int:
        """What it will hold: the compressed bytes and the text they unfold to."""
        return self.size + self.text_bytes

    def documents(self) -> Documents:
        """Read them back."""
        import pyarrow as pa

        with reading_artifact(self.path), self.path.open("rb", buffering=0) as file:
            file.seek(self.offset)
            data = file.read(self.size)
        try:
            with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
                batch = reader.read_next_batch()
            check_batch(batch)
            return Documents(batch, {})
        except (pa.ArrowException, OSError, StopIteration) as error:
            raise damaged(self.path, f"is not as it was written: {error}") from error


def spill(batch: pa.RecordBatch) -> pa.Buffer:
    """A batch as a compressed Arrow stream of its own."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", 1), use_threads=False)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def survivors(block: Readable, steps: Sequence[Step], *, collect: bool = False) -> Documents:
    """The documents of `block` that pass every step, and why the others did not: with `collect`, the others
    themselves."""
    first = steps[0] if steps else None
    if isinstance(first, CleanText) and isinstance(block, RangeBlock) and block.cleans and not collect:
        documents = block.clean_documents(first.strip, first.min_chars)
        steps = steps[1:]
    else:
        documents = block.documents()
    if collect:
        documents = replace(documents, rejected=())
    for step in steps:
        documents = step.apply(documents)
    return documents


def hashes_of(documents: Documents) -> NDArray[np.uint64]:
    """The 128-bit hash of each document."""
    if documents.hashes is not None:
        return documents.hashes
    return _native.hash_documents(*text_buffers(documents.batch.column("text")))


def add_counts(total: dict[str, int], counts: Mapping[str, int]) -> None:
    """Add `counts` into `total`."""
    for name, count in counts.items():
        if count:
            total[name] = total.get(name, 0) + count
