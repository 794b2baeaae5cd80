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
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np

from krill.config import KrillConfig
from krill.corpus import Block, Corpus, Documents
from krill.corpus.buffers import text_buffers
from krill.corpus.long_records import LongRecords
from krill.corpus.rows import bounded_slices
from krill.dedup import MinHash
from krill.pipeline.chat_tokens import ChatTokens
from krill.pipeline.needs import InputSizes
from krill.pipeline.surviving_units import hashes_of, spill, survivors, text_bytes
from krill.text import Step
from krill.text.extract import ExtractPages
from krill.tokenizer import Encoder
from krill.tokenizer.encoder import naming_document

BLOCKS = 8
"""Blocks that are read: with default units a megabyte each."""
# Of conversations, which take a second to render what others read in a tenth of that. Of each, only so many
# bytes of rows are rendered, which may give a hundred times as much text, and so many encoded at once.
CHAT_BLOCKS = 2
CHAT_BYTES = 1 << 17
# What is parsed before it is cut fills a block by a little more.
_USUAL_BLOCKS = 1.5
_START_SECONDS = 0.8
# Of a byte of text that is compressed, by what a megabyte counts beside texts that were: few may be kept.
_COMPRESSED = 0.35
_COMPRESSED_BYTES = 10**6


@dataclass(slots=True)
class Sample:
    """What was seen, in total. Seconds are those of one thread."""

    full_block: int
    """Bytes of input in a block that is full."""
    long: LongRecords
    """As far as the corpus knows them without reading."""
    bytes: int = 0
    blocks: list[tuple[int, int]] = field(default_factory=list)
    """Of each block, its bytes of input and its `Block.nbytes`."""
    held_for_page: int = 0
    """While the largest page is extracted."""
    records: float = 0
    documents: float = 0
    text_bytes: int = 0
    unseen: int = 0
    """Bytes of a document that may follow, where filters judge what can only be read in order."""
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
        block_bytes, long = self._usual_block()
        made = max(1.0, self.text_bytes / self.bytes) if self.bytes else 1.0
        return replace(
            known,
            block_bytes=block_bytes,
            long=long,
            tokens_per_byte=tokens,
            made_per_byte=made,
            held_for_page=self.held_for_page,
        )

    def _usual_block(self) -> tuple[int | None, LongRecords]:
        """`Block.nbytes` of the largest block of usual size, and records that are longer. Where half of the
        blocks are such records, they are the usual ones."""
        most = _USUAL_BLOCKS * self.full_block
        usual = [nbytes for size, nbytes in self.blocks if size <= most]
        beyond = [size for size, _ in self.blocks if size > most]
        if len(beyond) >= len(usual):
            return max((nbytes for _, nbytes in self.blocks), default=0) or None, self.long
        # A document above the limit follows in pieces, of which a sample has some.
        seen = LongRecords(max(beyond, default=0), 2 * len(beyond), sum(beyond))
        unseen = LongRecords(self.unseen, min(1, self.unseen), self.unseen, self.unseen)
        return max(usual) or None, max(self.long, seen, unseen, key=lambda long: long.longest)

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
    sample = Sample(corpus.block_bytes, corpus.long_records())
    for block in _blocks(corpus, BLOCKS if chats is None else CHAT_BLOCKS):
        sample.blocks.append((block.size, block.nbytes))
        seen, weight = (block, 1.0) if chats is None else _first_rows(block, CHAT_BYTES)
        with sample.timed("scan_seconds"):
            documents = survivors(seen, steps)
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
                    for rows in bounded_slices(documents.batch, CHAT_BYTES):
                        sample.tokens += len(chats.encode(encoder, rows).tokens)
        sample.bytes += seen.size
        sample.records += weight * documents.counts.get("records", documents.batch.num_rows)
        sample.documents += weight * documents.batch.num_rows
        sample.text_bytes += text_bytes(documents.batch)
        del block, seen, documents, text  # not to be held beside the next
    pages = [step.largest.bytes for step in steps if isinstance(step, ExtractPages)]
    sample.held_for_page = max(pages, default=0)
    return sample


@dataclass(frozen=True, slots=True)
class _FirstRows:
    """The first documents of a block, and about how many bytes of input they are."""

    first: Documents
    size: int
    nbytes: int

    def documents(self) -> Documents:
        return self.first


def _first_rows(block: Block, size: int) -> tuple[_FirstRows, float]:
    """Those of up to `size` bytes, at least one; and how many rows each of them stands for, where the same
    bytes of the whole block have more or fewer: conversations differ much in length."""
    documents = block.documents()
    batch = documents.batch
    offsets, _ = text_buffers(batch.column("text"))
    rows = min(batch.num_rows, max(1, int(np.searchsorted(offsets, offsets[0] + size))))
    share = int(offsets[rows] - offsets[0]) / max(1, int(offsets[-1] - offsets[0]))
    first = Documents(batch.slice(0, rows), {"records": rows})
    weight = share * batch.num_rows / rows if rows else 1.0
    return _FirstRows(first, int(share * block.size), int(share * block.nbytes)), weight


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
        """Of documents that are dropped, compressed as those that are kept, if they are wanted."""
        sample = self.sample
        if not self.config.preprocess.rejected:
            return 0
        compressed = sample.spilled_bytes + _COMPRESSED * _COMPRESSED_BYTES
        share = compressed / (sample.text_bytes + _COMPRESSED_BYTES)
        return int(max(0, self.sizes.text_bytes - self.total("text_bytes")) * share)

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
