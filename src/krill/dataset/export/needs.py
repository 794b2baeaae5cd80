"""What an export holds: its plan's needs, from measured costs.

In: the source and the options. Out: needs for the plan, and what one item in flight costs. Held in memory:
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from krill.budget import Need, Plan
from krill.dataset.export.options import ExportOptions
from krill.dataset.export.source import ExportSource

if TYPE_CHECKING:
    from krill.config import TokenizerConfig

# Bytes held for each byte of tokens from being read to being written: the batch and what is made of it. Of
# 630 MB of 16-bit tokens in batches of 1 MiB, one and two threads held above the base: 6 and 8 MB as bin and
# as megatron, 17 and 37 MB as rows of JSON, seldom 50 (four batches at once), 30 and 45 MB as documents of
# ids. Of 150 MB of tokens, decoded with a vocabulary of 16,000, up to 37 and 67 MB; of 200 MB of bytes, whose
# text is a quarter of that, up to 19 and 26 MB.
_COST: Final = {"bin": 4, "megatron": 4, "datatrove": 4, "parquet": 2, "jsonl": 13}
_DECODED_COST: Final = 16
_DECODED_BYTES_COST: Final = 7
# A row group of 8 MB and what Arrow makes of it: of the same tokens, 42 and 44 MB, rows in flight included.
_ROW_GROUP: Final = 40_000_000
# A row group of 8 MB of kept documents, and some of them as Python strings: 42 and 47 MB of 300 MB of text.
_DOCUMENTS: Final = 60_000_000
# A document on its way to a line: its ids, twice while they are joined, its text, and the line.
_PER_TOKEN: Final = 24

_IN_FLIGHT: Final = "rows in flight"
_LONGEST: Final = "the longest document"


@dataclass(frozen=True, slots=True)
class Costs:
    """What items cost, and the needs that follow."""

    each: int
    per_byte: int
    needs: list[Need]

    def bytes_in_flight(self, plan: Plan) -> int:
        """What may be worked on: one item besides waits, already read, and one is being written."""
        return plan.share(_IN_FLIGHT) - 2 * self.each

    def longest_document(self, plan: Plan) -> int:
        """How many tokens of one document fit their share."""
        return plan.share(_LONGEST) // _PER_TOKEN


def costs(source: ExportSource, options: ExportOptions, threads: int, tokenizer: Path | None) -> Costs:
    """What exporting a source will hold."""
    if options.what == "text":
        return Costs(_DOCUMENTS // 3, 4, [Need(_IN_FLIGHT, _DOCUMENTS)])
    decoder = source.tokenizer_config(tokenizer) if options.text else None
    per_byte = _COST[options.to] if decoder is None else _decoded_cost(decoder)
    layouts = [part.layout for part in source.parts(options.split).values()]
    batch = max(layout.rows_per_batch * layout.row_bytes for layout in layouts)
    each = per_byte * batch
    needs = [Need(_IN_FLIGHT, 3 * each, useful=(threads + 2) * each)]
    if options.to == "parquet":
        needs.append(Need("a row group", max(_ROW_GROUP, 5 * batch)))
    if options.by_documents:
        longest = _PER_TOKEN * source.max_document_bytes  # hardly a tokenizer makes more tokens than bytes
        needs.append(Need(_LONGEST, longest // 4, useful=longest, expected=0))
    if decoder is not None:
        needs += _tokenizer_needs(decoder, source.max_document_bytes, threads)
    return Costs(each, per_byte, needs)


def _decoded_cost(config: TokenizerConfig) -> int:
    """Bytes for each byte of tokens that become text: how much text that is depends on the vocabulary."""
    return _DECODED_COST if config.builtin is None else _DECODED_BYTES_COST


def _tokenizer_needs(config: TokenizerConfig, max_document_bytes: int, threads: int) -> list[Need]:
    """A tokenizer that decodes holds its tables, and nothing of what encoding takes."""
    from krill.tokenizer.open import encoder_needs

    needs = encoder_needs(config, max_document_bytes, threads)
    return [need for need in needs if need.during != "encode"]
