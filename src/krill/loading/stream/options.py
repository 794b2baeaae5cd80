"""What a stream is asked for, checked: every argument of `StreamingDataLoader` that decides what comes out.

In: arguments. Out: `StreamOptions`, or an error that names the argument. Held in memory: a few values.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, get_args

from krill.budget import parse_size
from krill.corpus import DatasetSource
from krill.corpus.discovery import is_hub_id
from krill.errors import ConfigError

Labels = Literal["shifted", "hf"]
OnError = Literal["fail", "skip"]
Source = str | Path | DatasetSource

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
