"""From a block of documents to tokens, by split, and what a config asks of it.

In: a block of kept documents, an encoder, the config. Out: ids in the dataset's token type and document
lengths for each split, and what became of each document. Held in memory: the block and its ids.

Documents with fewer than `min_length` or more than `max_length` tokens, BOS and EOS included, are dropped
here and counted. Whether a document is for validation follows from a hash of its cleaned text alone, or of
the first text of its conversation: it stays where it is when the corpus grows, and copies stay together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from krill import _native
from krill.config import KrillConfig
from krill.corpus import CorpusFile
from krill.corpus.arrays import as_numpy
from krill.corpus.buffers import text_buffers
from krill.dataset import Layout, smallest_dtype
from krill.errors import ConfigError
from krill.pack.masked import MASKED_DTYPE
from krill.pipeline.chat_tokens import ChatTokens
from krill.pipeline.distributions import Languages, languages_of, text_sizes
from krill.pipeline.examples import ExampleSet, examples_of
from krill.pipeline.surviving_units import SurvivingBlock
from krill.text import Step
from krill.tokenizer import Encoder
from krill.tokenizer.encoder import naming_document
from krill.tokenizer.tokenizer_file import declared_tokens

TRAIN: Final = "train"
VALIDATION: Final = "validation"
# What becomes of a document: one of the splits by its place, or one of the reasons.
_SPLITS: Final = (TRAIN, VALIDATION)
TOO_FEW: Final = 2
TOO_MANY: Final = 3
OVER_QUOTA: Final = 4
LONGER_THAN_ROW: Final = 5
NOTHING_LEARNED: Final = 6
CONTROL_IN_TEXT: Final = 7
OVER_MAX_TOKENS: Final = "over_max_tokens"
UNTRAINED: Final = "untrained"
DROPS: Final = (
    *("too_few_tokens", "too_many_tokens", OVER_MAX_TOKENS),
    *("longer_than_row", UNTRAINED, "control_in_text"),
)
"""Reasons for which documents are dropped in this stage, in the order of their numbers from `TOO_FEW` on."""
# By the codes of `FittedChats`.
_CHAT_OUTCOMES: Final = (0, LONGER_THAN_ROW, NOTHING_LEARNED, CONTROL_IN_TEXT)
OUTCOMES: Final = "fates"
"""A unit's file of what became of each document, where somebody wants to see those that were dropped."""
CUT: Final = "cut_into_rows"
"""Counts documents that are longer than a row, where rows end with documents."""
# Of the hash that chooses the split; that of dedup has another.
_SPLIT_SEED: Final = 0x5EED
# Looked for, in this order, where no file beside the tokenizer declares a `bos_token`.
_NAMES: Final = ("<|begin_of_text|>", "<|startoftext|>", "<s>", "<bos>", "<|bos|>")


@dataclass(frozen=True, slots=True)
class BlockEncoder:
    """Encodes blocks. `bos` is put before each document, `validation` is the share of documents that are kept
    apart, and documents above `row` tokens are counted, where they are cut."""

    encoder: Encoder
    dtype: str
    min_length: int
    max_length: int | None
    bos: int | None
    validation: float
    row: int | None
    rejected: bool = False
    """Whether the documents that are dropped are wanted."""
    samples: bool = False
    """Whether a few of them are."""
    chats: ChatTokens | None = None
    """How conversations are encoded, where documents are such."""

    @property
    def splits(self) -> tuple[str, ...]:
        return _SPLITS if self.validation else (TRAIN,)

    @classmethod
    def of(cls, config: KrillConfig, encoder: Encoder, steps: Sequence[Step] = ()) -> BlockEncoder:
        """What a config asks for; conversations are rendered by one of `steps`."""
        settings = config.preprocess
        return cls(
            encoder=encoder,
            dtype=packed_dtype(layout_of(config, encoder.vocab_size)),
            min_length=settings.min_length,
            max_length=settings.max_length,
            bos=missing_bos(encoder) if settings.bos else None,
            validation=settings.split.validation,
            row=None if settings.packing == "wrapped" or config.is_chat else settings.sequence_len,
            rejected=settings.rejected,
            samples=settings.samples,
            chats=ChatTokens.of(config, steps),
        )

    def encode(
        self, block: SurvivingBlock, files: Sequence[CorpusFile], known: ExampleSet, *, counting: bool
    ) -> EncodedBlock:
        """The tokens of a block, by split; while `counting`, only the number of its documents."""
        documents = block.documents()
        batch, counts = documents.batch, documents.counts
        text = batch.column("text")
        examples = examples_of(documents.rejected or (), known)
        seen = SeenBlock(len(text), int(text.nbytes), examples, text_sizes(batch), languages_of(batch))
        if counting:  # its source is full: nothing of it is wanted but its number
            return EncodedBlock(seen, counts, np.empty(0, np.uint8), np.empty(0, np.uint32))
        codes: NDArray[np.uint8] | None = None
        with naming_document(files, batch.column("position")):
            if self.chats is not None:
                found = self.chats.encode(self.encoder, batch)
                ids, lengths = found.tokens, found.lengths
                codes = np.array(_CHAT_OUTCOMES, np.uint8)[found.codes]
                counts = {**counts, **found.counts}
            else:
                ids, lengths = self.encoder.encode(text)
            if self.bos is not None:
                ids, lengths = _native.prepend_token(ids, lengths, self.bos)
        outcomes = self._outcomes(batch, lengths)
        if codes is not None:
            outcomes[codes != 0] = codes[codes != 0]
        splits = []
        for split in range(len(self.splits)):
            chosen = outcomes == split
            tokens = (ids, lengths)
            if not chosen.all():
                tokens = _native.select_documents(ids, lengths, chosen.view(np.uint8))
            splits.append((tokens[0].astype(self.dtype, copy=False), tokens[1]))
        return EncodedBlock(seen, counts, outcomes, lengths, tuple(splits))

    def _outcomes(self, batch: pa.RecordBatch, lengths: NDArray[np.uint32]) -> NDArray[np.uint8]:
        """The split of each document, or the reason why it is dropped."""
        outcomes = np.zeros(len(lengths), np.uint8)
        if self.validation:
            hashes = _native.hash_documents(*text_buffers(batch.column("text")), _SPLIT_SEED)[:, 0]
            if self.chats is not None:  # the texts of one conversation stay together
                positions = as_numpy(batch.column("position"), "uint64")
                _, first, row = np.unique(positions, return_index=True, return_inverse=True)
                hashes = hashes[first[row]]
            outcomes[hashes < np.uint64(int(self.validation * 2**64))] = _SPLITS.index(VALIDATION)
        if self.max_length is not None:
            outcomes[lengths > self.max_length] = TOO_MANY
        outcomes[lengths < max(1, self.min_length)] = TOO_FEW
        return outcomes


@dataclass(frozen=True, slots=True)
class SeenBlock:
    """What was read: how many documents and bytes, what was dropped on the way, the size of each document,
    and which are in which language."""

    documents: int
    bytes_read: int
    examples: Mapping[str, Sequence[Any]]
    sizes: NDArray[np.int64]
    languages: Languages


@dataclass(frozen=True, slots=True)
class EncodedBlock:
    """What one block gave: all documents' outcomes and lengths, and the ids and lengths of each split.

    Of a block that was only counted, as its source is full, there is no outcome and no tokens.
    """

    seen: SeenBlock
    counts: Mapping[str, int]
    outcomes: NDArray[np.uint8]
    lengths: NDArray[np.uint32]
    splits: tuple[tuple[NDArray[Any], NDArray[np.uint32]], ...] = ()

    @property
    def documents(self) -> int:
        return self.seen.documents

    @property
    def bytes_read(self) -> int:
        return self.seen.bytes_read

    def until(self, document: int) -> EncodedBlock:
        """The same without the documents from this one on."""
        outcomes, lengths = self.outcomes[:document], self.lengths[:document]
        splits = []
        for split, (ids, of_split) in enumerate(self.splits):
            chosen = outcomes == split
            splits.append((ids[: lengths[chosen].sum(dtype="int64")], of_split[: chosen.sum()]))
        return EncodedBlock(self.seen, self.counts, outcomes, lengths, tuple(splits))


class TokenQuota:
    """What a source may still give to the training split; blocks must come in order."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._taken = 0
        self.full = False

    def resume(self, record: Mapping[str, Any]) -> None:
        """Count what a unit that is done has taken."""
        self._taken += record[TRAIN]["tokens"]
        self.full = self.full or record["full"]

    def take(self, block: EncodedBlock) -> EncodedBlock:
        """The documents of a block that fit into the quota."""
        if self.full:
            return block.until(0)
        if self._most is None:
            return block
        ends = self._taken + np.cumsum(np.where(block.outcomes == 0, block.lengths, 0), dtype=np.int64)
        cut = int(ends.searchsorted(self._most, side="right"))
        if cut < len(ends):
            self.full = True
            block = block.until(cut)
        self._taken = int(ends[cut - 1]) if cut else self._taken
        return block


def check_tokens(config: KrillConfig, encoder: Encoder) -> None:
    """Refuse, before anything is read, settings that don't fit the tokenizer or each other."""
    dtype, declared = config.preprocess.token_dtype, config.tokenizer.vocab_size
    if dtype != "auto" and encoder.vocab_size - 1 > np.iinfo(dtype).max:
        raise ConfigError(
            f"`preprocess.token_dtype` is `{dtype}`, which can't hold the tokenizer's"
            f" {encoder.vocab_size:,} ids",
            hint="set it to `auto` or `uint32`",
        )
    if "vocab_size" in config.tokenizer.model_fields_set and encoder.vocab_size > declared:
        raise ConfigError(
            f"`tokenizer.vocab_size` is {declared:,}, and the tokenizer `{encoder.name}` has ids up to"
            f" {encoder.vocab_size - 1:,}",
            hint=f"set it to {encoder.vocab_size}, take it out, or choose the tokenizer that was meant",
        )
    if config.preprocess.bos:
        missing_bos(encoder)
    source_weights(config)


def source_weights(config: KrillConfig) -> list[float] | None:
    """The weight of each source; None if sources are not weighted."""
    given = [dataset for dataset in config.datasets if dataset.weight is not None]
    if not given:
        return None
    for dataset in config.datasets:
        if dataset.weight is None:
            raise ConfigError(
                f"`datasets` gives a `weight` to `{given[0].path}` and none to `{dataset.path}`",
                hint="give each source a weight, or none",
            )
    return [dataset.weight for dataset in given if dataset.weight is not None]


def layout_of(config: KrillConfig, vocab_size: int) -> Layout:
    """The dataset's layout: config and vocabulary alone."""
    settings, is_chat = config.preprocess, config.is_chat
    dtype = smallest_dtype(vocab_size) if settings.token_dtype == "auto" else settings.token_dtype
    return Layout(
        settings.sequence_len,
        dtype,
        fixed=settings.packing == "wrapped",
        labels=is_chat,
        attention_mask=is_chat and settings.packing == "none",
    )


def packed_dtype(layout: Layout) -> str:
    """The type of tokens until they are in rows: those of conversations know whether they are learned."""
    return MASKED_DTYPE if layout.labels else layout.token_dtype


def missing_bos(encoder: Encoder) -> int | None:
    """The id of the tokenizer's BOS; None if its own post-processing puts it before every text."""
    bos = _bos_id(encoder)
    first = _ids(encoder, "a")
    return None if len(first) and int(first[0]) == bos else bos


def _bos_id(encoder: Encoder) -> int:
    declared = declared_tokens(Path(encoder.name).parent, "bos_token")
    for name in [*filter(None, declared), *_NAMES]:
        found = _single_id(encoder, name)
        if found is not None:
            return found
    raise ConfigError(
        f"`preprocess.bos` is set, and the tokenizer `{encoder.name}` has no beginning-of-text token",
        hint="set `preprocess.bos: false`, or declare a `bos_token` in `tokenizer_config.json` beside it",
    )


def _single_id(encoder: Encoder, token: str) -> int | None:
    """The id that a text which is this token has more than an empty one; None if it has several."""
    ids, others = _ids(encoder, token).tolist(), _ids(encoder, "").tolist()
    if len(ids) != len(others) + 1:
        return None
    return next((a for a, b in zip(ids, others, strict=False) if a != b), int(ids[-1]))


def _ids(encoder: Encoder, text: str) -> NDArray[Any]:
    return encoder.encode(pa.array([text], pa.large_string()))[0]
