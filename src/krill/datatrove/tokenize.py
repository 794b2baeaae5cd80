"""`Tokenize`: datatrove's `DocumentTokenizer` without its shuffling, by Krill's native encoder.

In: `Document`s. Out: none; for each task the files `00000_unshuffled.ds`, `.ds.index` and `.ds.metadata` in
`output_folder`, as `DocumentTokenizer(shuffle_documents=False)` writes them. `PackDataset` makes one
dataset of them; datatrove's `DocumentTokenizerMerger` and `DatatroveFolderDataset` read them too. Held in
memory: a batch of documents and its ids, and the tokenizer with a cache of words, within `memory`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from datatrove.data import DocumentsPipeline
from datatrove.io import DataFolderLike, get_datafolder
from datatrove.pipeline.base import PipelineStep
from datatrove.pipeline.tokens.tokenizer import get_output_filename
from datatrove.utils.typeshelper import StatHints

from krill.budget import parse_size
from krill.dataset.export.token_files import END_DTYPE, INDEX_SUFFIX, METADATA_SUFFIX, metadata_of
from krill.datatrove.batches import BATCH_BYTES, as_valid_batch, in_batches
from krill.tokenizer import load
from krill.tokenizer.tokenizer_file import tokenizer_file


class Tokenize(PipelineStep):
    """`tokenizer` is a `tokenizer.json` or its folder; its EOS, where it has one, ends each document. Files
    are called after `save_filename`, if it is given, and the task."""

    type = "krill"
    name = "tokenize"

    def __init__(
        self,
        output_folder: DataFolderLike,
        tokenizer: str | Path,
        save_filename: str | None = None,
        memory: int | str = "256MB",
        batch_bytes: int | str = BATCH_BYTES,
    ) -> None:
        super().__init__()
        self.output_folder = get_datafolder(output_folder)
        self.save_filename = save_filename
        self.tokenizer = str(tokenizer_file(tokenizer))
        self.memory = parse_size(memory, name="memory")
        self.batch_bytes = parse_size(batch_bytes, name="batch_bytes")

    def run(self, data: DocumentsPipeline, rank: int = 0, world_size: int = 1) -> None:
        encoder = load(self.tokenizer, memory=self.memory, threads=1).encoder
        dtype = np.dtype("<u2" if encoder.vocab_size <= 2**16 else "<u4")
        name = get_output_filename(self.save_filename, rank, "unshuffled")
        tokens = 0
        with (
            self.output_folder.open(name, mode="wb") as token_file,
            self.output_folder.open(name + INDEX_SUFFIX, mode="wb") as index_file,
        ):
            for batch in in_batches(data, self.batch_bytes):
                with self.track_time("batch"):
                    ids, lengths = encoder.encode(as_valid_batch(batch).column("text"))
                    ends = tokens + np.cumsum(lengths, dtype=np.int64)
                    token_file.write(np.ascontiguousarray(ids, dtype).data.cast("B"))
                    index_file.write(ends.astype(END_DTYPE).data.cast("B"))
                tokens = int(ends[-1])
                self.stat_update(StatHints.total, value=len(batch), unit="batch")
                self.stat_update("tokens", value=len(ids), unit="batch")
        with self.output_folder.open(name + METADATA_SUFFIX, mode="wt") as metadata_file:
            metadata_file.write(metadata_of(self.tokenizer, tokens, dtype.itemsize))
