"""What each stage of preprocessing asks of the plan.

The costs are measured: what a stage holds at its peak for each block in flight, as a part that grows with
`Block.nbytes` (the input and the batch parsed from it) and a part that doesn't (the heap's own unevenness).
Measured with one and two threads on 50 MB and 500 MB of real JSON lines, and with one line of 200 MB;
`tests/memory` fails when a prediction is off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from krill.budget import Kind, Need
from krill.config import KrillConfig
from krill.corpus import Corpus
from krill.corpus.documents import BLOCKS_PER_UNIT
from krill.flow.object_store import PART_BYTES, is_object_url
from krill.pack import fitting_of
from krill.prepare.dedup_needs import dedup_needs
from krill.text.build import LANGUAGE_MODEL, step_needs
from krill.text.user_step import Function
from krill.tokenizer.open import encoder_needs

MB: Final = 10**6
# Pages of Parquet's and zstd's code and tables that the first row group touches, whatever its size.
PARQUET_WRITER: Final = 28 * MB
# S3's own file system at its first request, and an object of 150 MB being sent; then what a thread fetches.
OBJECT_STORE: Final = 40 * MB
FETCHED: Final = 2 * PART_BYTES
SMALLER_DOCUMENTS: Final = (
    "set preprocess.max_document_bytes lower (the longest document is held several times)"
)


def scan_cost(nbytes: int) -> int:
    """A block being scanned: the cleaned copy, and the hashes or the compressed spill."""
    return 3 * nbytes + 5 * MB


def encode_cost(nbytes: int) -> int:
    """A block being encoded: the cleaned copy, the ids in the tokenizer's type and in the dataset's."""
    return 4 * nbytes + 12 * MB


def text_cost(nbytes: int) -> int:
    """A shard of text being written: a row group gathered and compressed, beside its next block."""
    return scan_cost(nbytes) + nbytes + 16 * MB


def pack_cost(batch_bytes: int) -> int:
    """A shard being packed: a batch of rows as read and as written, its document borders and the message."""
    return 4 * batch_bytes


def block_nbytes(config: KrillConfig) -> int:
    """What `Block.nbytes` says of a full block: its input and the batch parsed from it."""
    return 2 * config.preprocess.unit_bytes // BLOCKS_PER_UNIT


def preprocess_needs(
    config: KrillConfig,
    threads: int,
    text_bytes: int | None = None,
    held_bytes: int = 0,
    *,
    own_steps: Sequence[Function] = (),
) -> list[Need]:
    """The needs of this config's stages; with `text_bytes`, what input of that size will make of them, where
    the steps are made already.

    `held_bytes` is what the corpus must hold at once besides blocks: a large Parquet page or Arrow batch.
    """
    settings = config.preprocess
    given, text_bytes = text_bytes, 2**62 if text_bytes is None else text_bytes
    block = block_nbytes(config)
    # A document of the largest size passes through whole, alone if need be.
    largest = max(block, 2 * settings.max_document_bytes)
    blocks = min(threads + 1, max(1, -(-2 * text_bytes // block)))
    needs = [
        Need(
            "the block being read",
            largest + 2 * MB,
            expected=block + 2 * MB,
            remedy=SMALLER_DOCUMENTS,
        ),
        _blocks("blocks being scanned", "scan", scan_cost(largest), scan_cost(block) * blocks),
    ]
    if held_bytes:
        needs.append(
            Need(
                "a page or batch read whole",
                held_bytes,
                remedy="write the Parquet or Arrow file in smaller pages",
            )
        )
    if is_object_url(settings.prepared_path):
        needs.append(Need("the object store", OBJECT_STORE + FETCHED * threads, Kind.WATCHED))
    needs.extend(dedup_needs(config, given))
    needs.extend(_step_needs(config, step_needs(settings, threads, own_steps, made=given is not None)))
    if settings.output != "tokens" or settings.rejected:
        cost = text_cost(block)
        shards = min(threads, max(1, -(-text_bytes // settings.shard_size)))
        needs.append(Need("the Parquet writer", PARQUET_WRITER, Kind.WATCHED, during="text"))
        needs.append(
            Need(
                "text being written",
                text_cost(largest),
                useful=cost * threads,
                expected=cost * shards,
                during="text",
                remedy=SMALLER_DOCUMENTS,
            )
        )
    if settings.output != "text":
        needs.append(
            _blocks("blocks being encoded", "encode", encode_cost(largest), encode_cost(block) * blocks)
        )
        needs.extend(encoder_needs(config.tokenizer, settings.max_document_bytes, threads))
        rows = pack_cost(max(2**20, settings.sequence_len * 4)) + _window_bytes(config)
        remedy = "set preprocess.sequence_len lower (a row is held whole)"
        needs.append(Need("rows being packed", rows, useful=rows * threads, during="pack", remedy=remedy))
    return needs


def _step_needs(config: KrillConfig, needs: Sequence[Need]) -> Iterator[Need]:
    """What the steps hold, in the stages that run them: the scan, and later ones if it keeps no survivors."""
    settings = config.preprocess
    stages = ["scan"]
    if settings.dedup.method == "none" and not settings.rejected and settings.output != "both":
        stages.append("text" if settings.output == "text" else "encode")
    for need in needs:
        if need.during == "always" and need.name != LANGUAGE_MODEL:
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


def _blocks(name: str, stage: str, largest: int, all_threads: int) -> Need:
    return Need(
        name, largest, useful=all_threads, expected=all_threads, during=stage, remedy=SMALLER_DOCUMENTS
    )
