"""What a run will take, from a sample of its input: documents, tokens, disk, output, time.

In: the config, the corpus, and the steps and the encoder of the run, which are measured on a few blocks from
all over the input. Out: a `RunPrediction`, which `krill estimate` prints and a run keeps beside what it
measures. Held in memory: one block at a time.

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
from krill.dedup import MinHash
from krill.pipeline.chat_tokens import Renders
from krill.pipeline.dedup_needs import compared, dedup_disk
from krill.pipeline.needs import InputSizes, scans, sizes_of, spills_text
from krill.pipeline.surviving_units import hashes_of, spill, survivors, text_bytes
from krill.text import Step
from krill.tokenizer import Encoder
from krill.tokenizer.encoder import naming_document

BLOCKS = 8
"""Blocks that are read: with default units a megabyte each."""
# Of conversations, which take a second to render what others read in a tenth of that.
CHAT_BLOCKS = 2
# Bytes per second and thread, measured on the machine in docs/benchmarks.md: packing reads and writes token
# runs; resolving exact duplicates takes 16 bytes a document, MinHash eight for each band.
_PACK_RATE = 800e6
_RESOLVE_RATE = 60e6
_START_SECONDS = 0.8


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
    renders = any(isinstance(step, Renders) for step in steps)
    for block in _blocks(corpus, CHAT_BLOCKS if renders else BLOCKS):
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
        """For `--json` and the manifest."""
        return {
            "text_bytes": self.sizes.text_bytes,
            "documents": self.documents,
            "tokens": self.tokens,
            "spill_bytes": self.spill_bytes,
            "output_bytes": self.output_bytes,
            "seconds": round(self.seconds, 1),
            "stages": {name: round(seconds, 2) for name, seconds in self.stages.items()},
        }


def predict(
    config: KrillConfig,
    corpus: Corpus,
    sample: Sample,
    threads: int,
    token_width: int,
    workers: int = 1,
) -> RunPrediction:
    """Scale what was seen to the whole of the input; each of the workers has so many threads."""
    settings = config.preprocess
    sizes = sample.sizes(sizes_of(corpus))
    text = sizes.text_bytes
    documents = int(text * sample.per_byte("documents"))
    tokens = int(text * sample.per_byte("tokens"))
    compressed = int(text * sample.per_byte("spilled_bytes"))
    token_bytes = tokens * token_width
    deduplicating = settings.dedup.method != "none"
    spilling = scans(config, corpus) and spills_text(config, corpus)
    kept_text = int(text * sample.per_byte("text_bytes"))
    pieces = documents if settings.dedup.level == "document" else compared(settings.dedup, kept_text)
    noted = dedup_disk(settings.dedup, pieces, kept_text)
    spill = noted + (compressed if spilling else 0) + token_bytes
    if settings.shuffle:
        spill += token_bytes
    output = token_bytes + (compressed if settings.output != "tokens" else 0)
    if settings.rejected:
        dropped = 1 - sample.documents / sample.records if sample.records else 0.0
        spill += int(dropped * compressed)
        output += int(dropped * compressed)

    def seconds(*names: str) -> float:
        return sum(text * sample.per_byte(f"{name}_seconds") for name in names) / (threads * workers)

    stages = {}
    again = () if spilling else ("scan",)
    if scans(config, corpus):
        stages["scan"] = seconds("scan", "minhash", *(("spill",) if spilling else ()))
    if deduplicating:
        shared = settings.dedup.method != "bloom" and settings.dedup.verify is None
        stages["resolve"] = noted / _RESOLVE_RATE / (workers if shared else 1)
    if settings.output != "tokens":
        stages["text"] = seconds("spill", *again)
    if settings.output != "text":
        stages["encode"] = seconds("encode", *again)
        stages["pack"] = token_bytes / _PACK_RATE / (threads * workers)
    return RunPrediction(sizes, documents, tokens, spill, output, stages)
