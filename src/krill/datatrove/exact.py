"""`ExactSignatures`: datatrove's first stage of exact dedup, by Krill's native core.

In: `Document`s. Out: none; files of hashes in `output_folder` that `ExactFindDedups` and `ExactDedupFilter`
read, byte for byte those that `ExactDedupSignature` writes when the content is the whole text. Give the
next stages `ExactSignatures.config`. Held in memory: a batch, and 14 bytes for each document of the task,
twice while they are sorted.
"""

from __future__ import annotations

import numpy as np
from datatrove.data import Document, DocumentsPipeline
from datatrove.io import DataFolderLike
from datatrove.pipeline.dedup.exact_dedup import ExactDedupConfig, ExactDedupSignature, get_sig_dtype
from datatrove.utils.typeshelper import StatHints

from krill import _native
from krill.budget import parse_size
from krill.corpus.buffers import text_buffers
from krill.datatrove.batches import BATCH_BYTES, as_valid_batch, in_batches


def _whole_text(document: Document) -> str:
    text: str = document.text
    return text


class ExactSignatures(ExactDedupSignature):
    """In the place of `ExactDedupSignature`; `finder_workers` is the number of tasks of the next stage."""

    type = "krill"
    name = "exact dedup stage 1"

    def __init__(
        self,
        output_folder: DataFolderLike,
        finder_workers: int = 1,
        batch_bytes: int | str = BATCH_BYTES,
    ) -> None:
        super().__init__(output_folder, ExactDedupConfig(content_getter=_whole_text), finder_workers)
        self.batch_bytes = parse_size(batch_bytes, name="batch_bytes")

    def run(self, data: DocumentsPipeline, rank: int = 0, world_size: int = 1) -> None:
        """Write the hashes of this task's documents."""
        signatures = []
        first = 0
        for batch in in_batches(data or (), self.batch_bytes):
            with self.track_time("batch"):
                records = np.ones(len(batch), get_sig_dtype(self.config.hash_config))
                records["hash"] = _native.xxh64_documents(*text_buffers(as_valid_batch(batch).column("text")))
                records["doc"] = np.arange(first, first + len(batch))
                signatures.append(records)
            first += len(batch)
            self.stat_update(StatHints.total, value=len(batch), unit="batch")
        if signatures:
            self.save_hashes(rank, np.concatenate(signatures))
