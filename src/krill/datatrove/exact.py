"""`ExactSignatures`: datatrove's first stage of exact dedup, by Krill's native core.

In: `Document`s. Out: none; files of hashes in `output_folder` that `ExactFindDedups` and `ExactDedupFilter`
read, byte for byte those that `ExactDedupSignature` writes with the same config. Without one, the content is
the whole text and all documents have the same priority; give the next stages `ExactSignatures.config`. Held
in memory: a batch, and 14 bytes for each document of the task, twice while they are sorted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from datatrove.data import Document, DocumentsPipeline
from datatrove.io import DataFolderLike
from datatrove.pipeline.dedup.exact_dedup import ExactDedupConfig, ExactDedupSignature, get_sig_dtype
from datatrove.utils.hashing import HashConfig
from datatrove.utils.typeshelper import StatHints
from numpy.typing import NDArray

from krill import _native
from krill.budget import parse_size
from krill.corpus.buffers import text_buffers
from krill.datatrove.batches import BATCH_BYTES, as_valid_batch, in_batches
from krill.errors import ConfigError, InputError

_HIGHEST: Final = 65_535


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
        config: ExactDedupConfig | None = None,
        finder_workers: int = 1,
        batch_bytes: int | str = BATCH_BYTES,
    ) -> None:
        if not isinstance(config, ExactDedupConfig | None):
            raise ConfigError(
                f"`config` of `ExactSignatures` is `{config!r}`",
                hint="give an `ExactDedupConfig`; the number of tasks is `finder_workers=`",
            )
        if finder_workers < 1:
            raise ConfigError(f"`finder_workers` is `{finder_workers}`", hint="give a number from 1 on")
        super().__init__(
            output_folder, config or ExactDedupConfig(content_getter=_whole_text), finder_workers
        )
        self.batch_bytes = parse_size(batch_bytes, name="batch_bytes")

    def run(self, data: DocumentsPipeline, rank: int = 0, world_size: int = 1) -> None:
        signatures: list[NDArray[Any]] = [np.empty(0, get_sig_dtype(self.config.hash_config))]
        first = 0
        for batch in in_batches(data, self.batch_bytes):
            with self.track_time("batch"):
                records: NDArray[Any] = np.empty(len(batch), signatures[0].dtype)
                records["hash"] = self._hashes(batch)
                records["priority"] = self._priorities(batch)
                records["doc"] = np.arange(first, first + len(batch))
                signatures.append(records)
            first += len(batch)
            self.stat_update(StatHints.total, value=len(batch), unit="batch")
        self.save_hashes(rank, np.concatenate(signatures))

    def _hashes(self, documents: Sequence[Document]) -> NDArray[Any]:
        getter = self.config.content_getter
        if getter is _whole_text:
            return _native.xxh64_documents(*text_buffers(as_valid_batch(documents).column("text")))
        contents = [getter(document) for document in documents]
        if self.config.hash_config != HashConfig(precision=64, hash_fc="xxhash"):
            return np.array([self.hash_fc(content) for content in contents], self.config.hash_config.np_dtype)
        encoded = [_encoded(content, document) for content, document in zip(contents, documents, strict=True)]
        column = pa.array(encoded, pa.large_binary()).view(pa.large_string())
        return _native.xxh64_documents(*text_buffers(column))

    def _priorities(self, documents: Sequence[Document]) -> Any:
        if self.config.document_priority is None:
            return 1
        priorities = [self.config.document_priority(document) for document in documents]
        for document, priority in zip(documents, priorities, strict=True):
            if not 1 <= priority <= _HIGHEST:
                raise InputError(
                    f"the priority of document `{document.id}` is `{priority}`",
                    hint=f"document_priority must return whole numbers from 1 to {_HIGHEST}",
                )
        return priorities


def _encoded(content: Any, document: Document) -> bytes:
    if isinstance(content, str):
        return content.encode("utf-8", "ignore")
    if isinstance(content, bytes):
        return content
    raise InputError(
        f"content_getter returned a `{type(content).__name__}` for document `{document.id}`",
        hint="return a string or bytes",
    )
