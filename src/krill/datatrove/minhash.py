"""`MinhashSignatures`: datatrove's first stage of MinHash, by Krill's native core.

In: `Document`s. Out: none; files of signatures in `output_folder` that datatrove's next stages read, byte
for byte those that `MinhashDedupSignature` writes for the same words (`MinhashDedupBuckets`,
`MinhashDedupCluster` and `MinhashDedupFilter` follow with the same config). Words are those of spaCy's
English tokenizer in all but rare cases, so files of both kinds may stand together.

Held in memory: a batch of documents and its signatures; at the end the signatures of one bucket, 68 bytes a
document with the default config, and twice as much while they are sorted. Before that they wait in unnamed
files, in the folder for temporary files.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from typing import IO, Any, Final

import numpy as np
from datatrove.data import Document, DocumentsPipeline
from datatrove.io import DataFolderLike
from datatrove.pipeline.dedup.minhash import MinhashConfig, MinhashDedupSignature
from datatrove.utils.hashing import HashConfig
from datatrove.utils.text import TextNormConfig
from datatrove.utils.typeshelper import StatHints
from numpy.typing import NDArray

from krill import _native
from krill.budget import parse_size
from krill.corpus.buffers import text_buffers
from krill.datatrove.batches import BATCH_BYTES, as_valid_batch, in_batches
from krill.datatrove.simplification import lowered, simplification
from krill.errors import ConfigError, StorageError

_CHECKED_BYTES: Final = 1 << 20


class MinhashSignatures(MinhashDedupSignature):
    """In the place of `MinhashDedupSignature`; give all stages the same `config`. With `skip_existing_sigs` a
    task whose files are there and whole computes none, and only sorts them again."""

    type = "krill"
    name = "MinHash stage 1"

    def __init__(
        self,
        output_folder: DataFolderLike,
        config: MinhashConfig | None = None,
        skip_existing_sigs: bool = False,
        batch_bytes: int | str = BATCH_BYTES,
    ) -> None:
        super().__init__(output_folder, config, skip_existing_sigs=skip_existing_sigs)
        self.batch_bytes = parse_size(batch_bytes, name="batch_bytes")
        _check(self.config)

    def run(self, data: DocumentsPipeline, rank: int = 0, world_size: int = 1) -> None:
        """Write the signatures of this task's documents."""
        config = self.config
        record = np.dtype([("hashes", "<u8", config.hashes_per_bucket), ("document", "<u4")])
        paths = [f"bucket_{bucket:03d}/{rank:05d}.minhash.sig" for bucket in range(config.num_buckets)]
        if self.check_can_skip_sig_writing(rank)[0]:
            for path in paths:
                with self.output_folder.open(path, mode="rb") as there:
                    written = there.read()
                self._write_sorted(written, record, path)
            return
        # The permutations are drawn by datatrove itself.
        factors, addends = (np.ascontiguousarray(numbers.reshape(-1)) for numbers in self.parameters)
        signer = _native.DatatroveSigner(*simplification(), factors, addends, config.n_grams)
        with ExitStack() as opened:
            waiting = [opened.enter_context(tempfile.TemporaryFile()) for _ in range(config.num_buckets)]
            first = 0
            for batch in in_batches(data, self.batch_bytes):
                with self.track_time("batch"):
                    self._append(signer, batch, first, record, waiting)
                first += len(batch)
                self.stat_update(StatHints.total, value=len(batch), unit="batch")
            for file, path in zip(waiting, paths, strict=True):
                file.seek(0)
                self._write_sorted(file.read(), record, path)

    def _append(
        self,
        signer: _native.DatatroveSigner,
        documents: list[Document],
        first: int,
        record: np.dtype[Any],
        waiting: Sequence[IO[bytes]],
    ) -> None:
        """The signatures of a batch, whose first document has the number `first`, to each bucket's file."""
        small = [Document(lowered(document.text), document.id) for document in documents]
        numbers, has_shingle = signer.sign(*text_buffers(as_valid_batch(small).column("text")))
        kept = np.flatnonzero(has_shingle)
        hashes = numbers[kept].reshape(len(kept), self.config.num_buckets, self.config.hashes_per_bucket)
        records = np.empty(len(kept), record)
        records["document"] = first + kept
        for bucket, file in enumerate(waiting):
            records["hashes"] = hashes[:, bucket]
            file.write(records.data.cast("B"))

    def _write_sorted(self, data: bytes, record: np.dtype[Any], path: str) -> None:
        records: NDArray[Any] = np.frombuffer(data, record)
        keys = [
            records["document"],
            *(records["hashes"][:, at] for at in reversed(range(record["hashes"].shape[0]))),
        ]
        ordered = records[np.lexsort(keys)].tobytes()
        with self.output_folder.open(path, mode="wb") as out:
            out.write(ordered)
        # As datatrove does: what is damaged or unsorted would be told by the next stage only, or not at all.
        at = 0
        with self.output_folder.open(path, mode="rb") as there:
            while piece := there.read(_CHECKED_BYTES):
                if piece != ordered[at : at + len(piece)]:
                    break
                at += len(piece)
        if at != len(ordered):
            raise StorageError(
                f"the signatures in `{path}` are not those that were written",
                hint="look after the disk or the store, and run the task again",
            )


def _check(config: MinhashConfig) -> None:
    """Refuse what the native core doesn't know."""
    unknown = None
    if config.hash_config != HashConfig(precision=64, hash_fc="xxhash"):
        unknown = f"`{config.hash_config}`"
    elif config.norm_config != TextNormConfig():
        unknown = f"`{config.norm_config}`"
    if unknown is not None:
        raise ConfigError(
            f"`MinhashSignatures` can't work with {unknown}",
            hint="leave it at its default, or use datatrove's MinhashDedupSignature",
        )
