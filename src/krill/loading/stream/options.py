"""What a stream is asked for, checked: every argument of `StreamingDataLoader` that decides what comes out.

In: arguments. Out: `StreamOptions`, or an error that names the argument; and what streaming asks of the
budget: a plan, or the refusal of what can't fit. The costs are measured: see the comments. Held in memory: a
few values.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, get_args

from krill.budget import Kind, Need, Plan, make_plan, parse_size
from krill.corpus import DatasetSource
from krill.corpus.discovery import is_hub_id
from krill.corpus.documents import BLOCKS_PER_UNIT
from krill.errors import ConfigError
from krill.tokenizer import Encoder
from krill.tokenizer.open import file_needs

Labels = Literal["shifted", "hf"]
OnError = Literal["fail", "skip"]
Source = str | Path | DatasetSource

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
_EACH_THREAD: Final = 3 * MB  # freed memory between blocks in use: 1 to 3 MB, most on a busy machine
_DECOMPRESSING: Final = 8 * MB
_PARQUET: Final = 25 * MB
# Sequences that are read at once where the order is left as it is.
_UNSHUFFLED: Final = 1024
_MOST_TOKENS: Final = 2**31


# The least that each number may be; None is any.
_LEAST: Final = {
    "seq_len": 1,
    "stride": 1,
    "batch_size": 1,
    "world": 1,
    "rank": 0,
    "seed": None,
    "shuffle_buffer_size": 0,
    "max_examples": 1,
}


@dataclass(slots=True)
class StreamOptions:
    """Arguments, checked; sizes in bytes."""

    seq_len: int
    stride: int
    batch_size: int
    rank: int
    world: int
    seed: int
    streaming: bool
    shuffle_buffer_size: int
    shuffle_buffer_bytes: int
    max_document_bytes: int
    max_examples: int | None
    labels: Labels
    on_error: OnError
    separator: str

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            if name != "max_examples" or self.max_examples is not None:
                setattr(self, name, _whole(name, getattr(self, name), least))
        if self.rank >= self.world:
            raise ConfigError(
                f"`rank` is `{self.rank}` of `world` `{self.world}`", hint="ranks count from 0 to world - 1"
            )
        if self.labels not in get_args(Labels):
            raise ConfigError(f"`labels` is `{self.labels}`", hint="give `shifted` or `hf`")
        if self.on_error not in get_args(OnError):
            raise ConfigError(f"`on_error` is `{self.on_error}`", hint="give `fail` or `skip`")
        if self.seq_len >= _MOST_TOKENS:
            raise ConfigError(f"`seq_len` is `{self.seq_len}`", hint="give the tokens of one sequence")

    @property
    def length(self) -> int:
        """The tokens that a sequence takes: the last one is only a label."""
        return self.seq_len + 1

    @property
    def global_batch(self) -> int:
        return self.batch_size * self.world

    @property
    def shuffles(self) -> bool:
        return self.shuffle_buffer_size > 1

    @property
    def batch_bytes(self) -> int:
        return self.batch_size * self.seq_len * (4 + (8 if self.labels == "hf" else 4))

    def window(self, token_bytes: int) -> int:
        """Sequences in the shuffle buffer: those asked for or as many as the bytes hold, one at least."""
        asked = self.shuffle_buffer_size if self.shuffles else _UNSHUFFLED
        return max(1, min(asked, self.shuffle_buffer_bytes // (self.length * token_bytes)))


def stream_sources(
    dataset_id: Source | Sequence[Source], config: str | None, like: DatasetSource
) -> list[DatasetSource]:
    """What to read: one source or several, all with the same split and text column unless they say."""
    given = [dataset_id] if isinstance(dataset_id, Source) else list(dataset_id)
    if not given:
        raise ConfigError("`dataset_id` is empty", hint="give a path, glob, folder, URL or hub id")
    return [
        source if isinstance(source, DatasetSource) else _source(source, config, like) for source in given
    ]


def _source(path: Any, config: str | None, like: DatasetSource) -> DatasetSource:
    if not isinstance(path, str | Path) or not str(path):
        raise ConfigError(f"`dataset_id` has `{path!r}`", hint="give a path, glob, folder, URL or hub id")
    name = str(path)
    if config is not None:
        if Path(name).exists() or not is_hub_id(name):
            raise ConfigError(
                f"`dataset_config` is `{config}`, and `{name}` is no dataset of the hub",
                hint="leave it out: only datasets of the hub have configurations",
            )
        name = f"{name.partition(':')[0]}:{config}"
    return replace(like, path=name)


def _whole(name: str, value: Any, least: int | None) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or (least is not None and number < least):
        wanted = "a whole number" + ("" if least is None else f" of at least {least}")
        raise ConfigError(f"`{name}` is `{value}`", hint=f"give {wanted}")
    return number


def parse_document_bytes(value: str | int) -> int:
    size = parse_size(value, name="max_document_bytes")
    if size < 1024:
        raise ConfigError(f"`max_document_bytes` is `{value}`", hint="give at least 1KB")
    return size


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
            expected=_EXPECTED_BLOCK * (threads + 1) + _EACH_THREAD * (threads - 1),
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
