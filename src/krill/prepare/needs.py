"""What each stage of preprocessing asks of the plan.

Costs are measured: bytes held at the peak of a stage for each byte that `Block.nbytes` counts (the input
and the batch parsed from it). `benchmarks/memory_constants.py` measures them again.
"""

from __future__ import annotations

from typing import Final

from krill.budget import Need
from krill.config import KrillConfig
from krill.dedup import MIN_SHARE, table_bytes
from krill.shards import Layout, smallest_dtype
from krill.tokenizer.open import encoder_needs

# The cleaned copy, and the hashes or the compressed spill.
SCAN_COST: Final = 1.6
# The cleaned copy, the ids in the tokenizer's type and in the dataset's, and the run being written.
ENCODE_COST: Final = 3.0
# Of each batch of rows: the ids as read and as written, the document borders and the message.
PACK_COST: Final = 4
# A row group of text gathered, encoded and compressed, beside the block being read.
TEXT_ROW_GROUP: Final = 8_000_000 * 3
# Documents are assumed to be at least this long on average when the table of hashes is sized before the scan.
ASSUMED_DOCUMENT_BYTES: Final = 1000
BLOCKS_PER_UNIT: Final = 8

SMALLER_UNITS: Final = "set preprocess.unit_bytes lower (an eighth of it is read at a time)"


def block_nbytes(config: KrillConfig) -> int:
    """What `Block.nbytes` says of a full block: its input and the batch parsed from it."""
    return 2 * config.preprocess.unit_bytes // BLOCKS_PER_UNIT


def pack_cost(batch_bytes: int) -> int:
    """What one shard being packed holds."""
    return PACK_COST * batch_bytes


def text_cost(config: KrillConfig) -> int:
    """What one shard of text being written holds."""
    return int(block_nbytes(config) * SCAN_COST) + TEXT_ROW_GROUP


def preprocess_needs(config: KrillConfig, threads: int, input_bytes: int | None = None) -> list[Need]:
    """The needs of this config's stages; with `input_bytes`, what this input will make of them."""
    settings = config.preprocess
    input_bytes = 2**62 if input_bytes is None else input_bytes
    block = block_nbytes(config)
    # A document of the largest size passes through whole, alone if need be.
    largest = max(block, 2 * settings.max_document_bytes)
    blocks = min(threads + 1, max(1, 2 * input_bytes // block))
    needs = [_blocks("blocks being scanned", "scan", SCAN_COST, block, largest, blocks)]
    if settings.dedup != "none":
        table = table_bytes(input_bytes // ASSUMED_DOCUMENT_BYTES)
        needs.append(Need("dedup table", MIN_SHARE, useful=table, expected=table, during="resolve"))
    if settings.output != "tokens":
        cost = text_cost(config)
        needs.append(
            Need("text being written", cost, useful=cost * threads, during="text", remedy=SMALLER_UNITS)
        )
    if settings.output != "text":
        needs.append(_blocks("blocks being encoded", "encode", ENCODE_COST, block, largest, blocks))
        needs.extend(encoder_needs(config.tokenizer, settings.max_document_bytes))
        rows = pack_cost(max(2**20, settings.sequence_len * 4))
        needs.append(Need("rows being packed", rows, useful=rows * threads, during="pack"))
    return needs


def layout_of(config: KrillConfig, vocab_size: int) -> Layout:
    """The dataset's layout: config and vocabulary alone."""
    dtype = config.preprocess.token_dtype
    return Layout(config.preprocess.sequence_len, smallest_dtype(vocab_size) if dtype == "auto" else dtype)


def _blocks(name: str, stage: str, cost: float, block: int, largest: int, count: int) -> Need:
    return Need(
        name,
        int(largest * cost),
        useful=int(block * cost) * count,
        expected=int(block * cost) * count,
        during=stage,
        remedy=SMALLER_UNITS,
    )
