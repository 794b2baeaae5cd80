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


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Checked arguments; sizes in bytes."""

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

    @property
    def length(self) -> int:
        """The tokens that a sequence takes: the last one is only a label."""
        return self.seq_len + 1

    @property
    def global_batch(self) -> int:
        """Sequences that all ranks take together."""
        return self.batch_size * self.world

    @property
    def shuffles(self) -> bool:
        return self.shuffle_buffer_size > 1

    @property
    def batch_bytes(self) -> int:
        """Of one batch, inputs and labels."""
        return self.batch_size * self.seq_len * (4 + (8 if self.labels == "hf" else 4))

    def window(self, token_bytes: int) -> int:
        """Sequences in the shuffle buffer: those asked for or as many as the bytes hold, one at least."""
        asked = self.shuffle_buffer_size if self.shuffles else _UNSHUFFLED
        return max(1, min(asked, self.shuffle_buffer_bytes // (self.length * token_bytes)))


def stream_options(
    *,
    stride: int | None,
    streaming: bool,
    max_examples: int | None,
    labels: Labels,
    on_error: OnError,
    separator: str,
    shuffle_buffer_bytes: str | int,
    max_document_bytes: str | int,
    **counts: int,
) -> StreamOptions:
    """The options, or an error about the first that can't be."""
    least = {"seq_len": 1, "batch_size": 1, "world": 1, "rank": 0, "shuffle_buffer_size": 0, "seed": None}
    checked = {name: _whole(name, value, least[name]) for name, value in counts.items()}
    if checked["rank"] >= checked["world"]:
        raise ConfigError(
            f"`rank` is `{checked['rank']}` of `world` `{checked['world']}`",
            hint="ranks count from 0 to world - 1",
        )
    if labels not in get_args(Labels):
        raise ConfigError(f"`labels` is `{labels}`", hint="give `shifted` or `hf`")
    if on_error not in get_args(OnError):
        raise ConfigError(f"`on_error` is `{on_error}`", hint="give `fail` or `skip`")
    if checked["seq_len"] >= _MOST_TOKENS:
        raise ConfigError(f"`seq_len` is `{checked['seq_len']}`", hint="give the tokens of one sequence")
    return StreamOptions(
        **checked,
        stride=checked["seq_len"] if stride is None else _whole("stride", stride, 1),
        streaming=bool(streaming),
        max_examples=None if max_examples is None else _whole("max_examples", max_examples, 1),
        labels=labels,
        on_error=on_error,
        separator=separator,
        shuffle_buffer_bytes=parse_size(shuffle_buffer_bytes, name="shuffle_buffer_bytes"),
        max_document_bytes=_document_bytes(max_document_bytes),
    )


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


def _document_bytes(value: str | int) -> int:
    size = parse_size(value, name="max_document_bytes")
    if size < 1024:
        raise ConfigError(f"`max_document_bytes` is `{value}`", hint="give at least 1KB")
    return size
