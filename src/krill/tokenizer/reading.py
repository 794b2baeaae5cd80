"""The corpus as a training reads it: raw bytes, nothing cleaned, nothing dropped.

In: sources, or files that were found before. Out: a corpus. Held in memory: what a corpus holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from krill.corpus import Corpus, CorpusFile, DatasetSource, open_corpus
from krill.corpus.opening import Openers
from krill.corpus.readers import Limits
from krill.tokenizer import count as counting
from krill.tokenizer.options import TrainOptions

MB: Final = 10**6
# Documents of formats with records above this size are split, as everywhere in Krill; plain text never is.
MAX_DOCUMENT_BYTES: Final = 4 * MB


def open_sources(
    sources: Sequence[DatasetSource], options: TrainOptions, output: Path | None, *, verify: bool = True
) -> Corpus:
    """All files of the sources, but for those that the training itself has written."""
    return open_corpus(
        sources,
        unit_bytes=counting.UNIT_BYTES,
        max_document_bytes=MAX_DOCUMENT_BYTES,
        drop_oversize=False,
        skip_malformed=False,
        default_separator=_separator(options),
        batch_rows=None,
        exclude=[] if output is None else [output],
        verify=verify,
    )


def corpus_of(files: Sequence[CorpusFile], options: TrainOptions, *, verify: bool = True) -> Corpus:
    """The same of some of the files, numbered as they stand here, where somebody else has found them."""
    limits = Limits(
        counting.UNIT_BYTES,
        MAX_DOCUMENT_BYTES,
        drop_oversize=False,
        skip_malformed=False,
        default_separator=_separator(options),
        batch_rows=None,
    )
    return Corpus(files, limits, Openers(limits, verify=verify))


def _separator(options: TrainOptions) -> str:
    return (options.special_tokens or ("",))[0]
