"""What streaming asks of the budget, and how the budget is shared out.

In: the sizes that were asked for. Out: a plan, or the refusal of what can't fit. The costs are measured: see
the comments. Held in memory: a few numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from krill.budget import Kind, Need, Plan, make_plan
from krill.corpus.documents import BLOCKS_PER_UNIT
from krill.tokenizer import Encoder
from krill.tokenizer.open import file_needs

MB: Final = 10**6
# The unit of `BlockPosition`, so a part of what states mean; a block of it is a megabyte.
UNIT_BYTES: Final = 32 << 20
BLOCK_BYTES: Final = UNIT_BYTES // BLOCKS_PER_UNIT
# Sequences whose order in the shuffle buffer is computed and held at once.
ORDERED_AT_ONCE: Final = 1 << 14

BLOCKS: Final = "blocks being encoded"
BUFFER: Final = "shuffle buffer"
HELD: Final = "sequences held in memory"
_SMALLER_DOCUMENTS: Final = "set max_document_bytes lower (the longest document is held several times)"
# While an order is computed: the numbers, both halves of them, and what mixing makes.
_ORDER_BYTES: Final = 8 * 8 * ORDERED_AT_ONCE
# Measured on 6 MB and 60 MB of JSON lines of real text (1 and 2 threads, 32,000 tokens): a full block takes
# 5 MB while it is encoded; gzip took 8 MB more, and Parquet 25 MB besides its pages, 9 of them its code.
_EXPECTED_BLOCK: Final = 5 * MB
_DECOMPRESSING: Final = 8 * MB
_PARQUET: Final = 25 * MB


def encode_cost(nbytes: int) -> int:
    """A block being encoded, by its `nbytes`: the input, the batch, the cleaned text, the tokens.

    Measured with documents of 3.6 MB, one to a block: 32 MB for each.
    """
    return 4 * nbytes


@dataclass(frozen=True, slots=True)
class StreamSizes:
    """What decides how much is held, besides the buffer."""

    max_document_bytes: int
    batch_bytes: int
    page_bytes: int
    """Of a Parquet page or an Arrow batch that is read whole."""

    decompresses: bool
    parquet: bool


def stream_needs(sizes: StreamSizes, tokenizer: Path | Encoder, threads: int) -> list[Need]:
    """The needs of a loader, but for the sequences that it holds."""
    # Input and the batch that is parsed from it; a document of the largest size passes whole.
    block, largest = 2 * BLOCK_BYTES, 2 * max(BLOCK_BYTES, sizes.max_document_bytes)
    needs = [
        Need("the block being read", largest, expected=block, remedy=_SMALLER_DOCUMENTS),
        Need(
            BLOCKS,
            encode_cost(largest),
            useful=encode_cost(block) * (threads + 1),
            expected=_EXPECTED_BLOCK * (threads + 1),
            remedy=_SMALLER_DOCUMENTS,
        ),
        Need(
            # A byte can be a token, of up to four bytes; a run is joined to what is left of the one before.
            "tokens being cut",
            4 * largest,
            expected=block,
            remedy=_SMALLER_DOCUMENTS,
        ),
        Need("batches", 2 * sizes.batch_bytes + _ORDER_BYTES, remedy="set batch_size lower"),
    ]
    if sizes.page_bytes:
        remedy = "write the Parquet or Arrow file in smaller pages"
        needs.append(Need("a page or batch read whole", sizes.page_bytes, remedy=remedy))
    if sizes.decompresses:
        needs.append(Need("decompressing", _DECOMPRESSING))
    if sizes.parquet:
        needs.append(Need("reading Parquet", _PARQUET, Kind.WATCHED))
    if isinstance(tokenizer, Path):
        needs += [
            replace(need, remedy=need.remedy.replace("preprocess.", ""))
            for need in file_needs(tokenizer, sizes.max_document_bytes, threads)
        ]
    return needs


def buffer_need(nbytes: int) -> Need:
    return Need(BUFFER, nbytes, remedy="set shuffle_buffer_size or shuffle_buffer_bytes lower")


def settled_plan(plan: Plan, needs: Sequence[Need], buffer_bytes: int | None) -> Plan:
    """The plan once the tokenizer is there: with a buffer of these bytes, or with what is left for all
    sequences."""
    settled = [replace(need, minimum=plan.share(need.name), useful=0) for need in needs]
    if buffer_bytes is not None:
        return make_plan(plan.limit, 0, [*settled, buffer_need(buffer_bytes)])
    left = plan.limit - make_plan(plan.limit, 0, settled).worst_peak
    return make_plan(plan.limit, 0, [*settled, Need(HELD, left)])
