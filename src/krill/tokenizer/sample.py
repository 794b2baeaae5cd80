"""How well a trained tokenizer compresses a sample of its corpus.

In: the corpus and the finished tokenizer. Out: bytes per token. Held in memory: about a megabyte of text.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from krill.corpus import Corpus
from krill.corpus.buffers import text_column_of
from krill.corpus.formats import CorpusFile, Format
from krill.corpus.streams import DecodedStream, RangeReader
from krill.errors import BudgetError

SAMPLE_BYTES: Final = 1_000_000
SAMPLES: Final = 16


def bytes_per_token(corpus: Corpus, folder: Path, memory: int) -> float | None:
    """On samples of text from all over the corpus; None where there is no text, or `memory` is too little for
    a tokenizer that the library has to run."""
    from krill.tokenizer.tokenizer import load

    texts = [text for text in sample_texts(corpus) if text]
    if not texts:
        return None
    try:
        tokenizer = load(folder, memory=memory, threads=1)
    except BudgetError:
        return None
    offsets, _ = tokenizer.encode_arrow(text_column_of(texts))
    return round(sum(len(text.encode()) for text in texts) / max(1, int(offsets[-1])), 3)


def sample_texts(corpus: Corpus) -> list[str]:
    """A few pieces of text, evenly spread over the files."""
    files = [file for file in corpus.files if file.bytes > 0]
    step = max(1, len(files) // SAMPLES)
    chosen = files[::step][:SAMPLES]
    share = SAMPLE_BYTES // max(1, len(chosen))
    return [text for file in chosen for text in _file_samples(file, corpus, share)]


def _file_samples(file: CorpusFile, corpus: Corpus, share: int) -> list[str]:
    if file.format is not Format.TEXT:
        part = corpus.only(lambda other: other.path == file.path)
        for _, blocks in part.walk(lambda position: None):
            for block in blocks:
                texts = block.documents().batch.column("text").to_pylist()[:8]
                return [str(text)[:share] for text in texts if text]
        return []
    if file.sequential:
        with DecodedStream(file) as stream:
            return [stream.read(share).decode("utf-8", "ignore")]
    pieces = min(SAMPLES, max(1, file.bytes // share))
    size = min(share // pieces, file.bytes)
    with RangeReader(file) as reader:
        starts = [(file.bytes - size) * at // pieces for at in range(pieces)]
        return [reader.read(start, start + size).decode("utf-8", "ignore") for start in starts]
