"""What `krill inspect` shows of an output folder, as data.

In: a folder, a number of samples, and perhaps a way to turn ids into text. Out: an `Inspection`. Lengths come
from at most 256 record batches, spread evenly, of which only `seq_lengths` are read. Held in memory: those
lengths, the samples, and one row group per sampled document.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from krill.dataset.manifest import DatasetPart, Manifest, SourceRows, TextPart
from krill.dataset.reader import Dataset
from krill.dataset.shard_file import ShardFile
from krill.dataset.text_shard import TextShardReader

_MOST_BATCHES = 256
_SAMPLE_CHARS = 2000

Decode = Callable[[npt.NDArray[Any]], str]


@dataclass(frozen=True, slots=True)
class Spread:
    least: int
    median: float
    most: int


@dataclass(frozen=True, slots=True)
class Bucket:
    """How many lengths are between `low` and `high`, both included."""

    low: int
    high: int
    count: int


@dataclass(frozen=True, slots=True)
class SampleRow:
    """One row; `text` only if there was something to decode it with."""

    row: int
    input_ids: list[int]
    seq_lengths: list[int]
    text: str | None


@dataclass(frozen=True, slots=True)
class SampleChats(SampleRow):
    """A row of conversations; `pieces` is its text, in pieces that are learned or not."""

    labels: list[int]
    pieces: list[tuple[str, bool]] | None


@dataclass(frozen=True, slots=True)
class SampleDocument:
    """One kept document, cut to its first 2000 characters of `chars`."""

    row: int
    chars: int
    text: str


@dataclass(frozen=True, slots=True)
class TokenFacts:
    """The packed rows, or those of one split. `sampled_rows` says how many rows the distributions come from;
    `row_lengths` is there if rows vary in length."""

    split: str | None
    rows: int
    tokens: int
    sequence_len: int
    token_dtype: str
    vocab_size: int
    shards: int
    bytes: int
    sampled_rows: int
    documents_per_row: Spread | None
    row_lengths: Spread | None
    sources: tuple[SourceRows, ...]
    piece_lengths: tuple[Bucket, ...]
    samples: tuple[SampleRow, ...]


@dataclass(frozen=True, slots=True)
class TextFacts:
    rows: int
    shards: int
    bytes: int
    samples: tuple[SampleDocument, ...]


@dataclass(frozen=True, slots=True)
class Inspection:
    path: str
    krill: str
    command: str
    seconds: float
    documents: Mapping[str, Any]
    tokens: Mapping[str, Any]
    dropped: Mapping[str, int]
    stages: Sequence[Mapping[str, Any]]
    predicted_peak: int
    measured_peak: int
    dataset: TokenFacts | None
    validation: TokenFacts | None
    text: TextFacts | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def inspect(
    path: str | Path,
    samples: int = 3,
    seed: int = 0,
    decode: Decode | None = None,
    room: int | None = None,
) -> Inspection:
    """Inspect `path`, an output folder of Krill; `seed` chooses the samples. With `room`, documents that take
    more bytes than that to read are refused."""
    folder = Path(path)
    manifest = Manifest.load(folder)
    chance = random.Random(seed)
    return Inspection(
        path=str(folder),
        krill=manifest.krill,
        command=manifest.command,
        seconds=manifest.seconds,
        documents=manifest.documents,
        tokens=manifest.tokens,
        dropped=manifest.documents["dropped"],
        stages=manifest.stages,
        predicted_peak=manifest.budget["predicted_peak"],
        measured_peak=manifest.budget["measured_peak"],
        dataset=_token_facts(folder, manifest.dataset, samples, chance, decode),
        validation=_token_facts(folder, manifest.validation, samples, chance, decode),
        text=_text_facts(folder, manifest.text, samples, chance, room) if manifest.text else None,
    )


def _token_facts(
    folder: Path, part: DatasetPart | None, samples: int, chance: random.Random, decode: Decode | None
) -> TokenFacts | None:
    if part is None:
        return None
    with Dataset(folder, split=part.split or "train") as dataset:
        per_row, widths, lengths = _sampled_lengths(dataset)
        assert dataset.manifest.tokenizer is not None
        return TokenFacts(
            split=part.split,
            rows=part.rows,
            tokens=part.tokens,
            sequence_len=part.layout.sequence_len,
            token_dtype=part.layout.token_dtype,
            vocab_size=dataset.manifest.tokenizer["vocab_size"],
            shards=len(part.shards),
            bytes=sum(shard.bytes for shard in part.shards),
            sampled_rows=len(per_row),
            documents_per_row=_spread(per_row),
            row_lengths=None if part.layout.fixed else _spread(widths),
            sources=part.sources,
            piece_lengths=log2_histogram(lengths),
            samples=tuple(_sample_row(dataset, row, decode) for row in _choose(chance, part.rows, samples)),
        )


def _sampled_lengths(
    dataset: Dataset,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Documents and tokens in each row and the lengths of the pieces, from record batches spread over all."""
    count = sum(len(shard.batches) for shard in dataset.shards)
    chosen = islice(dataset.batch_ranges(), 0, None, max(1, -(-count // _MOST_BATCHES)))
    batches = [dataset.reader.read(np.arange(*rows), with_tokens=False) for rows in chosen]
    return (
        np.concatenate([np.empty(0, np.int32), *(np.diff(batch.seq_offsets) for batch in batches)]),
        np.concatenate([np.empty(0, np.int64), *(np.diff(batch.offsets) for batch in batches)]),
        np.concatenate([np.empty(0, np.int32), *(batch.seq_lengths for batch in batches)]),
    )


def _spread(values: npt.NDArray[Any]) -> Spread | None:
    if len(values) == 0:
        return None
    return Spread(int(values.min()), float(np.median(values)), int(values.max()))


def log2_histogram(lengths: npt.NDArray[Any]) -> tuple[Bucket, ...]:
    """Counts of lengths in 1, 2-3, 4-7, 8-15 and so on; from the first bucket that has any to the last."""
    positive = lengths[lengths > 0]
    if len(positive) == 0:
        return ()
    # frexp is exact where a rounded logarithm is not: 2**n falls into the bucket that it opens.
    exponents = np.frexp(positive.astype(np.float64))[1] - 1
    counts = np.bincount(exponents).tolist()
    powers = range(int(exponents.min()), len(counts))
    return tuple(Bucket(2**power, 2 ** (power + 1) - 1, counts[power]) for power in powers)


def _choose(chance: random.Random, rows: int, samples: int) -> list[int]:
    return sorted(chance.sample(range(rows), min(samples, rows)))


def _sample_row(dataset: Dataset, row: int, decode: Decode | None) -> SampleRow:
    found = dataset[row]
    ids, labels = found["input_ids"], found.get("labels")
    text = None if decode is None else decode(ids)
    facts = row, ids.tolist(), found["seq_lengths"].tolist(), text
    if labels is None:
        return SampleRow(*facts)
    learned = labels != -100
    borders = [0, *(np.flatnonzero(np.diff(learned)) + 1).tolist(), len(ids)]
    pieces = decode and [(decode(ids[a:b]), bool(learned[a])) for a, b in pairwise(borders)]
    return SampleChats(*facts, labels.tolist(), pieces)


def _text_facts(
    folder: Path, part: TextPart, samples: int, chance: random.Random, room: int | None
) -> TextFacts:
    starts = [0, *accumulate(shard.rows for shard in part.shards)]
    chosen = []
    for row in _choose(chance, part.rows, samples):
        shard = bisect_right(starts, row) - 1
        text = _document(ShardFile(folder, part.shards[shard]), row - starts[shard], room)
        chosen.append(SampleDocument(row, len(text), text[:_SAMPLE_CHARS]))
    return TextFacts(part.rows, len(part.shards), sum(shard.bytes for shard in part.shards), tuple(chosen))


def _document(file: ShardFile, row: int, room: int | None) -> str:
    """One document, by reading the row group that holds it."""
    with TextShardReader(file, room=room) as opened:
        starts = [0, *accumulate(opened.group_rows)]
        group = bisect_right(starts, row) - 1
        if group == len(opened.group_rows):
            file.fail(f"has {starts[-1]} rows, and the manifest says {file.shard.rows}")
        text = opened.read(group, ["text"]).column("text")[row - starts[group]].as_py() or ""
    if not isinstance(text, str):
        file.fail(f"has no column `text` of strings, but of `{type(text).__name__}`")
    return text
