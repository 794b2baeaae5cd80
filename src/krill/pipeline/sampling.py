"""A sample of the input: what it gives, and how fast, before the whole of it is read.

In: a corpus, the steps and the encoder of a run. Out: rates per byte of decoded input, measured on a few
blocks from all over it. Held in memory: one block at a time.

It takes a fraction of a second. What it finds sizes estimates and shares, never the output.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice

from krill.corpus import Block, Corpus
from krill.dedup import MinHash
from krill.pipeline.needs import InputSizes
from krill.pipeline.surviving_units import hashes_of, spill, survivors, text_bytes
from krill.text import Step
from krill.tokenizer import Encoder
from krill.tokenizer.encoder import naming_document

BLOCKS = 8
"""Blocks that are read: with default units a megabyte each."""


@dataclass(slots=True)
class Sample:
    """What was seen, in total. Seconds are those of one thread."""

    bytes: int = 0
    block_bytes: int = 0
    """`Block.nbytes` of the largest block."""
    records: int = 0
    documents: int = 0
    text_bytes: int = 0
    spilled_bytes: int = 0
    tokens: int = 0
    scan_seconds: float = 0.0
    spill_seconds: float = 0.0
    minhash_seconds: float = 0.0
    encode_seconds: float = 0.0

    def per_byte(self, name: str) -> float:
        """One of the totals for each byte of decoded input."""
        return float(getattr(self, name)) / self.bytes if self.bytes else 0.0

    def sizes(self, known: InputSizes) -> InputSizes:
        """What is known of the input, with what was seen of it."""
        tokens = self.tokens / self.text_bytes if self.text_bytes else known.tokens_per_byte
        return replace(known, block_bytes=self.block_bytes or None, tokens_per_byte=tokens)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add what the body takes to one of the totals."""
        begun = time.perf_counter()
        yield
        setattr(self, name, getattr(self, name) + time.perf_counter() - begun)


def sample_input(
    corpus: Corpus, steps: Sequence[Step], minhash: MinHash | None, encoder: Encoder | None
) -> Sample:
    """Read some blocks as a run would, and measure."""
    sample = Sample()
    for block in _blocks(corpus):
        sample.block_bytes = max(sample.block_bytes, block.nbytes)
        with sample.timed("scan_seconds"):
            documents = survivors(block, steps)
            hashes_of(documents)
        text = documents.batch.column("text")
        if minhash is not None:
            with sample.timed("minhash_seconds"):
                minhash.bands_of(text)
        with sample.timed("spill_seconds"):
            sample.spilled_bytes += spill(documents.batch).size
        if encoder is not None:
            positions = documents.batch.column("position")
            with sample.timed("encode_seconds"), naming_document(corpus.files, positions):
                sample.tokens += len(encoder.encode(text)[0])
        sample.bytes += block.size
        sample.records += documents.counts.get("records", documents.batch.num_rows)
        sample.documents += documents.batch.num_rows
        sample.text_bytes += text_bytes(documents.batch)
        del block, documents, text  # not to be held beside the next
    return sample


def _blocks(corpus: Corpus) -> Iterator[Block]:
    """One block from each of some units all over the input, or the first ones if it can't be cut."""
    if corpus.sequential:
        for _, blocks in corpus.walk(lambda _: None):
            yield from islice(blocks, BLOCKS)
            break
        return
    units = corpus.units()
    wanted = min(len(units), BLOCKS)
    for at in range(wanted):
        yield from islice(corpus.blocks(units[at * len(units) // wanted]), -(-BLOCKS // wanted))
