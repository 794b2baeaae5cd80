"""What a run will take, from a sample of its input: documents, tokens, disk, output, time.

In: the config, the corpus, and the steps and the encoder of the run, which are measured on a few blocks from
all over the input. Out: the `ExpectedInput`, of which each stage says what it takes of it, and the sum, a
`RunPrediction`, which `krill estimate` prints and a run keeps beside what it measures. Held in memory: one
block at a time.

It takes a fraction of a second. What it finds sizes estimates and shares, never the output.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from krill.config import KrillConfig
from krill.corpus import Block, Corpus
from krill.corpus.long_records import NO_LONG_RECORDS, LongRecords
from krill.dedup import MinHash
from krill.pipeline.chat_tokens import ChatTokens
from krill.pipeline.needs import InputSizes
from krill.pipeline.surviving_units import hashes_of, spill, survivors, text_bytes
from krill.text import Step
from krill.tokenizer import Encoder
from krill.tokenizer.encoder import naming_document

BLOCKS = 8
"""Blocks that are read: with default units a megabyte each."""
# Of conversations, which take a second to render what others read in a tenth of that.
CHAT_BLOCKS = 2
_START_SECONDS = 0.8


@dataclass(slots=True)
class Sample:
    """What was seen, in total. Seconds are those of one thread."""

    bytes: int = 0
    block_bytes: int = 0
    """`Block.nbytes` of the largest block, besides those of `long` records."""
    long: LongRecords = NO_LONG_RECORDS
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
        return replace(
            known,
            block_bytes=self.block_bytes or None,
            long=self.long,
            tokens_per_byte=tokens,
        )

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add what the body takes to one of the totals."""
        begun = time.perf_counter()
        yield
        setattr(self, name, getattr(self, name) + time.perf_counter() - begun)


def sample_input(
    corpus: Corpus,
    steps: Sequence[Step],
    minhash: MinHash | None,
    encoder: Encoder | None,
    chats: ChatTokens | None = None,
) -> Sample:
    """Read some blocks as a run would, and measure; `chats` says how conversations are encoded."""
    sample = Sample(long=corpus.long_records())
    for block in _blocks(corpus, BLOCKS if chats is None else CHAT_BLOCKS):
        if not (sample.long.together and block.size > corpus.block_bytes):
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
                if chats is None:
                    sample.tokens += len(encoder.encode(text)[0])
                else:
                    sample.tokens += len(chats.encode(encoder, documents.batch).tokens)
        sample.bytes += block.size
        sample.records += documents.counts.get("records", documents.batch.num_rows)
        sample.documents += documents.batch.num_rows
        sample.text_bytes += text_bytes(documents.batch)
        del block, documents, text  # not to be held beside the next
    return sample


def _blocks(corpus: Corpus, count: int) -> Iterator[Block]:
    """One block from each of some units all over the input, or the first ones if it can't be cut."""
    if corpus.sequential:
        for _, blocks in corpus.walk(lambda _: None):
            yield from islice(blocks, count)
            break
        return
    units = corpus.units()
    wanted = min(len(units), count)
    for at in range(wanted):
        yield from islice(corpus.blocks(units[at * len(units) // wanted]), -(-count // wanted))


@dataclass(frozen=True, slots=True)
class ExpectedInput:
    """All of the input as the sample suggests it, before duplicates are dropped."""

    config: KrillConfig
    sample: Sample
    sizes: InputSizes
    token_width: int
    threads: int
    """Of all workers together."""
    workers: int
    scanned: bool
    spilled: bool
    """Whether the scan keeps the documents for the stages after it."""
    scanning: int
    """Of all threads, how many run the steps at once."""

    def total(self, name: str) -> int:
        """One of the sample's totals, for all of the input."""
        return int(self.sizes.text_bytes * self.sample.per_byte(name))

    @property
    def token_bytes(self) -> int:
        """Of all tokens in rows, with their labels if they have any."""
        return self.total("tokens") * self.token_width

    @property
    def rejected_bytes(self) -> int:
        """Of documents that are dropped, compressed, if they are wanted."""
        sample = self.sample
        if not (self.config.preprocess.rejected and sample.records):
            return 0
        return int((1 - sample.documents / sample.records) * self.total("spilled_bytes"))

    def seconds(self, *names: str) -> float:
        text, sample = self.sizes.text_bytes, self.sample
        return sum(
            text * sample.per_byte(f"{name}_seconds") / (self.scanning if name == "scan" else self.threads)
            for name in names
        )

    def reading_seconds(self, name: str) -> float:
        """Of a stage that reads the documents for good, which scans them again unless they were kept."""
        return self.seconds(name) if self.spilled else self.seconds(name, "scan")


@dataclass(frozen=True, slots=True)
class StageCost:
    """What a stage takes: seconds if they are counted, bytes kept on disk until the end, bytes of output."""

    stage: str
    seconds: float | None = None
    spill_bytes: int = 0
    output_bytes: int = 0


@dataclass(frozen=True, slots=True)
class RunPrediction:
    """About what a run reads, keeps, writes, and how long its stages take."""

    sizes: InputSizes
    documents: int
    tokens: int
    spill_bytes: int
    output_bytes: int
    stages: Mapping[str, float]

    @property
    def seconds(self) -> float:
        """All stages, and the start of the program."""
        return _START_SECONDS + sum(self.stages.values())

    def to_json(self) -> dict[str, Any]:
        return {
            "text_bytes": self.sizes.text_bytes,
            "documents": self.documents,
            "tokens": self.tokens,
            "spill_bytes": self.spill_bytes,
            "output_bytes": self.output_bytes,
            "seconds": round(self.seconds, 1),
            "stages": {name: round(seconds, 2) for name, seconds in self.stages.items()},
        }
