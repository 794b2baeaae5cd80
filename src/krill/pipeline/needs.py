"""What each stage of preprocessing asks of the plan.

The costs are measured: what a stage holds at its peak for each block in flight, as a part that grows with
`Block.nbytes` (the input and the batch parsed from it) and a part that doesn't (the heap's own unevenness).
Measured with one and two threads on 50 MB and 500 MB of real JSON lines, and with one line of 200 MB;
`tests/memory` fails when a prediction is off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from krill.budget import Kind, Need
from krill.config import KrillConfig
from krill.corpus import Corpus
from krill.corpus.corpus import LARGE_PIECE
from krill.corpus.documents import BLOCKS_PER_UNIT
from krill.corpus.formats import Format
from krill.pack import fitting_of
from krill.pipeline.dedup_needs import dedup_needs, index_needs
from krill.storage.object_store import PART_BYTES, is_object_url
from krill.text.build import HELD_ALWAYS, step_needs
from krill.text.user_step import Function
from krill.tokenizer.open import encoder_needs

MB: Final = 10**6
# Pages of Parquet's and zstd's code and tables that the first row groups touch; then what little input
# touches of them and of the text being written: so much, and so much for each byte of text.
PARQUET_WRITER: Final = 23 * MB
EXPECTED_WRITING: Final = (9 * MB, 2.2)
# What reading holds besides the block: buffers on the way, and what the sample of the input has left. Then
# what is expected on top, at least, for each byte of text, and at the most: of Arrow, whose files are mapped;
# of Parquet, whose pages leave gaps in the heap; of decoders, and of text kept for the stages after the scan.
READING: Final = 9 * MB
EACH_THREAD: Final = 2 * MB
EXPECTED_READING: Final = {
    Format.ARROW: (0, 0.4, 21 * MB),
    Format.PARQUET: (9 * MB, 0.05, 29 * MB),
    Format.JSON_ARRAY: (0, 0.02, 6 * MB),
}
EXPECTED_DECODING: Final = (0, 0.05, 4 * MB)
# Freed memory between blocks in use, which only a trim gives back: it grows over the 128 MB between two of
# them. Near the limit it is trimmed more often.
HEAP_SLACK: Final = 10 * MB
LEAST_SLACK: Final = 2 * MB
# S3's own file system at its first request, and an object of 150 MB being sent; then what a thread fetches.
OBJECT_STORE: Final = 40 * MB
FETCHED: Final = 2 * PART_BYTES
# Each of very many files, besides its place in the table of files: its part of a unit, and of the unit's
# record; then as an object and as text while the manifest is written. Measured with 50,000.
FEW_FILES: Final = 1000
FILE_BYTES: Final = 300
LISTED_FILE_BYTES: Final = 1200
FEWER_FILES: Final = "join small files"
# Each of very many columns, for each block in flight: its array and what Arrow writes it with. Measured with
# 1,000 and 10,000 columns of JSON lines.
FEW_COLUMNS: Final = 100
COLUMN_BYTES: Final = 2500
EXPECTED_COLUMN_BYTES: Final = 4000
# A token in a shard, most often.
TOKEN_BYTES: Final = 2
SMALLER_DOCUMENTS: Final = (
    "set preprocess.max_document_bytes lower (the longest document is held several times)"
)


@dataclass(frozen=True, slots=True)
class InputSizes:
    """What is known of the input: its decoded bytes, and what the corpus must hold at once besides blocks, a
    large Parquet page or Arrow batch or a decoder's window; how many files there are, and columns carried
    along; after some of it was sampled, `Block.nbytes` of the largest block and the tokens of a byte."""

    text_bytes: int
    held: Need | None = None
    files: int = 1
    columns: int = 0
    reading: int = 0
    each_batch: int = 0
    block_bytes: int | None = None
    tokens_per_byte: float = 1.0


def sizes_of(corpus: Corpus) -> InputSizes:
    """What is known before any of it is read."""
    text_bytes = sum(file.decoded_bytes for file in corpus.files)
    formats = {(file.format, file.compression) for file in corpus.files}
    found = [EXPECTED_READING[format] for format, _ in formats if format in EXPECTED_READING]
    if any(compression is not None for _, compression in formats):
        found.append(EXPECTED_DECODING)
    reading = max((min(most, least + int(rate * text_bytes)) for least, rate, most in found), default=0)
    return InputSizes(
        text_bytes,
        corpus.held_need(),
        len(corpus.files),
        corpus.columns,
        reading,
        corpus.each_batch_bytes,
    )


def input_needs(sizes: InputSizes, threads: int) -> Iterator[Need]:
    """What the input makes a run hold besides its blocks."""
    if sizes.held is not None:
        # One thread has one piece of it at a time.
        few = threads == 1 and sizes.held.minimum < LARGE_PIECE and sizes.held.expected is not None
        yield replace(sizes.held, expected=sizes.held.minimum) if few else sizes.held
    if sizes.each_batch:
        # Those being read, and those gathered for a row group of text.
        held = sizes.each_batch * (threads + 3)
        yield Need("dictionaries of Arrow batches", held, remedy="write the Arrow file without dictionaries")
    if sizes.files > FEW_FILES:
        yield Need(f"{sizes.files:,} files", FILE_BYTES * sizes.files, remedy=FEWER_FILES)
        listed = LISTED_FILE_BYTES * sizes.files
        yield Need("the list of files in the manifest", listed, during="manifest", remedy=FEWER_FILES)
    if sizes.columns > FEW_COLUMNS:
        wide = sizes.columns * (threads + 2)
        least, most, fewer = COLUMN_BYTES * wide, EXPECTED_COLUMN_BYTES * wide, "name fewer `columns:`"
        for during, name in (("scan", "columns"), ("text", "columns being written")):
            name = f"{sizes.columns:,} {name}"
            yield Need(name, least, useful=most, expected=most, during=during, remedy=fewer)


def scan_cost(nbytes: int) -> int:
    """A block being scanned, at the most: itself, the cleaned copy, its hashes, the compressed spill."""
    return 4 * nbytes + 2 * MB


def encode_cost(nbytes: int) -> int:
    """A block being encoded, at the most: itself, the cleaned copy, ids in the tokenizer's and the dataset's
    type."""
    return 9 * nbytes // 2 + 4 * MB


def expected_scan(nbytes: int) -> int:
    """The same of most blocks, which are neither spilled nor matched."""
    return 3 * nbytes // 2 + MB // 2


def expected_encode(nbytes: int, tokens_per_byte: float) -> int:
    """The same with so many tokens."""
    return nbytes + int(1.5 * tokens_per_byte * nbytes) + MB


def text_cost(nbytes: int) -> int:
    """A shard of text being written: a row group gathered and compressed, beside its next block."""
    return 5 * nbytes + 3 * MB


def expected_text(nbytes: int, shards: int) -> int:
    """The same of most blocks, with so many being written at once."""
    return (4 * nbytes + 2 * MB) * shards + 3 * MB * (shards - 1)


def pack_cost(batch_bytes: int) -> int:
    """A shard being packed: a batch of rows as read and as written, its document borders and the message."""
    return 4 * batch_bytes


def block_nbytes(config: KrillConfig) -> int:
    """What `Block.nbytes` says of a full block: its input and the batch parsed from it."""
    return 2 * config.preprocess.unit_bytes // BLOCKS_PER_UNIT


def largest_nbytes(config: KrillConfig) -> int:
    """The same of any block: a document of the largest size passes through whole, alone if need be."""
    return max(block_nbytes(config), 2 * config.preprocess.max_document_bytes)


def preprocess_needs(
    config: KrillConfig,
    threads: int,
    sizes: InputSizes | None = None,
    *,
    own_steps: Sequence[Function] = (),
    made: bool | None = None,
) -> list[Need]:
    """The needs of this config's stages; with `sizes`, what such input will make of them. Steps are `made`
    already, unless nothing is known of the input."""
    made = sizes is not None if made is None else made
    settings = config.preprocess
    given = None if sizes is None else sizes.text_bytes
    text_bytes, reading = (2**62, 0) if sizes is None else (sizes.text_bytes, sizes.reading)
    full = block_nbytes(config)
    largest = largest_nbytes(config)
    block = full if sizes is None or sizes.block_bytes is None else sizes.block_bytes
    # One for each thread, and the next one; of little input, few are there at once.
    blocks = min(threads + 1, max(1, -(-text_bytes // block)))
    needs = [
        Need(
            "the block being read",
            largest + READING,
            useful=largest + READING + reading + EACH_THREAD * (threads - 1),
            expected=block + READING + reading + EACH_THREAD * (threads - 1),
            remedy=SMALLER_DOCUMENTS,
        ),
        Need(
            "freed memory that is used again",
            LEAST_SLACK,
            Kind.WATCHED,
            useful=HEAP_SLACK,
            expected=min(HEAP_SLACK, text_bytes // 8),
        ),
    ]

    def in_flight(name: str, stage: str, cost: Callable[[int], int], expected: int) -> Need:
        return Need(
            name,
            cost(largest),
            useful=cost(largest) * (threads + 1),
            expected=expected * blocks,
            during=stage,
            remedy=SMALLER_DOCUMENTS,
        )

    needs.append(in_flight("blocks being scanned", "scan", scan_cost, expected_scan(block)))
    if sizes is not None:
        needs.extend(input_needs(sizes, threads))
    if is_object_url(settings.prepared_path):
        needs.append(Need("the object store", OBJECT_STORE + FETCHED * threads, Kind.WATCHED))
    needs.extend(dedup_needs(config, given))
    needs.extend(index_needs(config))
    needs.extend(_step_needs(config, step_needs(settings, threads, own_steps, made=made)))
    if settings.output != "tokens" or settings.rejected:
        shards = min(threads, max(1, -(-text_bytes // settings.shard_size)))
        least, rate = EXPECTED_WRITING
        touched = least + int(rate * text_bytes)
        code = min(PARQUET_WRITER, touched)
        needs.append(Need("the Parquet writer", PARQUET_WRITER, Kind.WATCHED, expected=code, during="text"))
        needs.append(
            Need(
                "text being written",
                text_cost(largest),
                useful=text_cost(largest) * threads,
                expected=min(expected_text(block, shards), touched - code),
                during="text",
                remedy=SMALLER_DOCUMENTS,
            )
        )
    if settings.output != "text":
        tokens_per_byte = 1.0 if sizes is None else sizes.tokens_per_byte
        # Most of what filters have passed is in blocks that are not full.
        expected = expected_encode(block, tokens_per_byte) // (2 if settings.filters else 1)
        needs.append(in_flight("blocks being encoded", "encode", encode_cost, expected))
        needs.extend(encoder_needs(config.tokenizer, settings.max_document_bytes, threads))
        rows = pack_cost(max(2**20, settings.sequence_len * 4)) + _window_bytes(config)
        remedy = "set preprocess.sequence_len lower (a row is held whole)"
        token_bytes = int(TOKEN_BYTES * tokens_per_byte * text_bytes)
        packing = rows * min(threads, max(1, -(-token_bytes // settings.shard_size)))
        needs.append(
            Need(
                "rows being packed",
                rows,
                useful=rows * threads,
                expected=packing,
                during="pack",
                remedy=remedy,
            )
        )
    return needs


def _step_needs(config: KrillConfig, needs: Sequence[Need]) -> Iterator[Need]:
    """What the steps hold, in the stages that run them: the scan, and later ones if it keeps no survivors."""
    settings = config.preprocess
    stages = ["scan"]
    if settings.dedup.method == "none" and not settings.rejected and settings.output != "both":
        stages.append("text" if settings.output == "text" else "encode")
    for need in needs:
        if need.during == "always" and need.name not in HELD_ALWAYS:
            yield from (replace(need, during=stage) for stage in stages)
        else:
            yield need


def spills_text(config: KrillConfig, corpus: Corpus) -> bool:
    """Whether the scan keeps the surviving documents: where reading them again would cost more.

    Input that is read in order would have to be decoded again from its beginning; filters would run again.
    """
    return corpus.sequential or bool(config.preprocess.filters)


def scans(config: KrillConfig, corpus: Corpus) -> bool:
    """Whether documents are read once before those that are kept are read for good."""
    settings = config.preprocess
    twice = settings.output == "both" and bool(settings.filters)
    return settings.dedup.method != "none" or corpus.sequential or settings.rejected or twice


def _window_bytes(config: KrillConfig) -> int:
    """What fitting documents into rows holds of a window."""
    settings = config.preprocess
    if settings.packing == "wrapped":
        return 0
    return fitting_of(settings.packing, settings.sequence_len, settings.pack_window).held_bytes
