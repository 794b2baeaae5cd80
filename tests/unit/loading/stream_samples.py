"""Small corpora for streams, and what the reference makes of them. Bytes are the tokens."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from krill.loading.stream.loader import StreamingDataLoader
from krill.tokenizer import ByteEncoder
from krill.tokenizer.byte import EOS
from oracles.streaming import reference_batches, reference_sequences, reference_shuffled

SEQ_LEN = 16


def texts(count: int = 120) -> list[str]:
    """Documents of 1 to 66 bytes, no two alike."""
    return [f"{number}:" + "abcdefghij kl"[number % 13 :] * (number % 6) for number in range(count)]


def write_lines(path: Path, documents: Iterable[Any]) -> Path:
    """JSON lines, compressed if the name says so."""
    content = "".join(json.dumps({"text": text}) + "\n" for text in documents).encode()
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    return path


def loader_of(source: Any, **options: Any) -> StreamingDataLoader:
    """A loader with small numbers."""
    chosen = {"seq_len": SEQ_LEN, "batch_size": 3, "shuffle_buffer_size": 7, "memory": "200MB", **options}
    return StreamingDataLoader(source, ByteEncoder(), **chosen)


def expected(
    documents: Sequence[str],
    *,
    seq_len: int = SEQ_LEN,
    stride: int | None = None,
    window: int | None = 7,
    seed: int = 42,
    epoch: int = 0,
    **batches: int,
) -> list[list[list[int]]]:
    """The reference's batches; a window of 1 leaves the order as it is."""
    ids = [[*text.encode(), EOS] for text in documents if text]
    sequences = reference_sequences(ids, seq_len, stride or seq_len)
    if window != 1:
        sequences = reference_shuffled(sequences, window, seed, epoch)
    return reference_batches(sequences, **{"batch_size": 3, **batches})


def as_sequences(batch: dict[str, Any]) -> list[list[int]]:
    """A batch's inputs with the last label behind each; all other labels must be the next input."""
    inputs, labels = batch["input_ids"], batch["labels"]
    assert (inputs[:, 1:] == labels[:, :-1]).all()
    return [[*row, last] for row, last in zip(inputs.tolist(), labels[:, -1].tolist(), strict=True)]


def taken(loader: StreamingDataLoader) -> list[list[list[int]]]:
    """All batches that are left of an epoch."""
    return [as_sequences(batch) for batch in loader]
