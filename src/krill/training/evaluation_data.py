"""Data to evaluate a model on: the rows of a prepared dataset, or text that is tokenised and cut into rows.

In: a path and the model's folder. Out: batches of rows in order, each token predicted once, the last batch
filled up with rows in which nothing is predicted. Held in memory: what `needs` says; two batches.

Text is not cleaned, only what is not UTF-8 is left out. Documents follow each other, each ended by EOS, and
are cut where a row ends; a row begins with the last token of the row before, so nothing is left unpredicted
but the first token of each document. A document that goes on in the next row has only that as its context.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from krill.budget import Need, Plan
from krill.corpus import DatasetSource, open_corpus
from krill.corpus.formats import Format
from krill.dataset.manifest import MANIFEST_NAME, Manifest
from krill.errors import InputError
from krill.loading.dataset import load
from krill.loading.stream.options import BLOCKS, UNIT_BYTES, StreamSizes, stream_needs
from krill.loading.stream.tokens import BEGINNING, text_tokens
from krill.tokenizer.open import open_file
from krill.tokenizer.tokenizer_file import DECLARATIONS, file_fingerprint, read_tokenizer_file
from krill.training.data import (
    COLUMNS,
    READING_BYTES,
    TOKEN_BYTES,
    Batch,
    check_ids,
    padded_rows,
    with_segments,
)
from krill.training.saved_model import TOKENIZER, SavedModel, check_vocabulary
from krill.training.vocabulary import (
    DECODED_ROWS,
    TokenBytes,
    byte_tokenizer_json,
    mean_token_bytes,
    token_bytes,
)
from krill.training.xla import RUNNING

# Longer documents are cut at a paragraph, line or character: reading holds several times this.
MAX_DOCUMENT_BYTES: Final = 1_000_000
_BATCHES: Final = 6


def open_rows(
    path: str, saved: SavedModel, *, split: str | None, text_column: str, threads: int, verify: bool = True
) -> PreparedRows | TextRows:
    """A folder that `krill preprocess` made of tokens, or any text that the corpus reads; with `verify`, what
    Krill wrote is verified against its checksums."""
    folder = Path(path)
    if (folder / MANIFEST_NAME).is_file():
        manifest = Manifest.load(folder)
        if manifest.tokenizer is not None and manifest.parts:
            return PreparedRows(folder, manifest, saved, split, verify=verify)
    return TextRows(
        path, saved, split=split or "train", text_column=text_column, threads=threads, verify=verify
    )


class PreparedRows:
    """Rows on disk: the validation split where there is one, unless another is named.

    `needs` is for batches of `rows`; `text_bytes` is None if the tokenizer is unknown.
    """

    def __init__(
        self, folder: Path, manifest: Manifest, saved: SavedModel, split: str | None, *, verify: bool
    ) -> None:
        described = manifest.tokenizer or {}
        check_vocabulary(saved.shape.vocab_size, int(described["vocab_size"]), f"the dataset `{folder}`")
        if saved.tokenizer_file is not None and not _same_tokenizer(described, saved.tokenizer_file):
            raise InputError(
                f"the dataset `{folder}` was made by another tokenizer than the model's, of as many tokens",
                hint="prepare it with the model's tokenizer, or score the text itself",
            )
        splits = {part.split for part in manifest.parts}
        self._folder = folder
        self._saved = saved
        self._verify = verify
        self.split = split or ("validation" if "validation" in splits else "train")
        with load(folder, memory=READING_BYTES, split=self.split) as dataset:
            self.length = dataset.source.width
            self._item_bytes = dataset.source.dtype.itemsize
            self._held = dataset.source.held_bytes
        if self.length > saved.context:
            raise InputError(
                f"the rows of `{folder}` have {self.length:,} tokens, the model was trained on"
                f" {saved.context:,}",
                hint=f"prepare the dataset with `preprocess.sequence_len: {saved.context}`, or score text",
            )

    def needs(self, rows: int) -> list[Need]:
        batches = _BATCHES * rows * self.length * (TOKEN_BYTES + self._item_bytes)
        return [Need("data", self._held + batches, during=RUNNING)]

    def batches(self, rows: int, plan: Plan) -> Iterator[Batch]:
        with load(self._folder, memory=plan.share("data"), split=self.split, verify=self._verify) as dataset:
            loader = dataset.loader(batch_size=rows, rank=0, world=1, prefetch=0, drop_last=False, **COLUMNS)
            for batch in loader:
                check_ids(batch, self._saved.shape.vocab_size, str(self._folder))
                yield padded_rows(batch, rows)

    def text_bytes(self, plan: Plan) -> TokenBytes | None:
        file = self._saved.tokenizer_file
        if file is None:
            return None
        with load(self._folder, memory=plan.share("data"), split=self.split) as dataset:
            sample = (dataset[row]["input_ids"] for row in range(min(DECODED_ROWS, len(dataset))))
            return token_bytes(file) or mean_token_bytes(file, self._saved.shape.vocab_size, sample)


class TextRows:
    """Text, tokenised by the model's own tokenizer."""

    def __init__(
        self,
        path: str,
        saved: SavedModel,
        *,
        split: str,
        text_column: str,
        threads: int,
        verify: bool,
    ) -> None:
        self._saved = saved
        self._threads = threads
        self._file = saved.require_tokenizer()
        self.split = split
        self.length = saved.context
        self._corpus = open_corpus(
            [DatasetSource(path, split=split, text_column=text_column)],
            unit_bytes=UNIT_BYTES,
            max_document_bytes=MAX_DOCUMENT_BYTES,
            default_separator="<|endoftext|>",
            verify=verify,
        )

    def needs(self, rows: int) -> list[Need]:
        files = self._corpus.files
        sizes = StreamSizes(
            MAX_DOCUMENT_BYTES,
            _BATCHES * rows * self.length * TOKEN_BYTES,
            self._corpus.held_bytes,
            decompresses=any(file.compression is not None for file in files),
            parquet=any(file.format is Format.PARQUET for file in files),
        )
        # All while the model runs; the remedies are for settings of streaming, which do not exist here.
        needs = stream_needs(sizes, self._file, self._threads)
        return [replace(need, during=RUNNING, remedy="") for need in needs]

    def batches(self, rows: int, plan: Plan) -> Iterator[Batch]:
        encoder = open_file(self._file, plan, self._threads)
        check_vocabulary(self._saved.shape.vocab_size, encoder.vocab_size, f"the tokenizer `{self._file}`")
        with closing(self._runs(encoder, plan)) as runs:
            for batch in cut_rows(runs, rows, self.length):
                yield with_segments(batch, encoder.eos_id)

    def text_bytes(self, plan: Plan) -> TokenBytes | None:
        exact = token_bytes(self._file)
        if exact is not None:
            return exact
        encoder = open_file(self._file, plan, 1)
        with closing(self._runs(encoder, plan)) as runs:
            sample = next(runs, np.zeros(0, np.int32))[: DECODED_ROWS * self.length]
            return mean_token_bytes(self._file, self._saved.shape.vocab_size, [sample])

    def _runs(self, encoder: Any, plan: Plan) -> Generator[NDArray[Any], None, None]:
        tokens = text_tokens(
            self._corpus,
            encoder,
            "int32",
            BEGINNING.position,
            threads=self._threads,
            in_flight=plan.share(BLOCKS),
            max_documents=None,
        )
        with closing(tokens):
            for _, ids, _ in tokens:
                yield ids


def cut_rows(runs: Iterable[NDArray[Any]], rows: int, length: int) -> Iterator[Batch]:
    """Batches of `rows` x `length`, in which every token of the runs but the first is a label once."""
    # What is cut at a time: `rows` rows and the label of the last one.
    wanted = rows * length
    left = np.zeros(0, np.int32)
    for run in runs:
        left = np.concatenate((left, run))
        start = 0
        while len(left) - start > wanted:
            piece = left[start : start + wanted + 1]
            yield {
                "input_ids": piece[:-1].reshape(rows, length),
                "labels": piece[1:].reshape(rows, length),
            }
            start += wanted
        left = left[start:]
    if len(left) > 1:
        missing = wanted + 1 - len(left)
        yield {
            "input_ids": np.pad(left[:-1], (0, missing)).reshape(rows, length),
            "labels": np.pad(left[1:], (0, missing), constant_values=-100).reshape(rows, length),
        }


def _same_tokenizer(described: Mapping[str, Any], file: Path) -> bool:
    """Whether a dataset's tokenizer is the one beside the model, which may have additional declarations."""
    content = read_tokenizer_file(file)
    if described.get("name") == "bytes":
        return content == byte_tokenizer_json()[TOKENIZER]
    undeclared = [None] * (2 * len(DECLARATIONS))
    bare = hashlib.sha256(content + repr(undeclared).encode()).hexdigest()
    return described.get("fingerprint") in (file_fingerprint(file), bare)
