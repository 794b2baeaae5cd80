"""Where a stream is: saved as a few numbers, and restored only where they mean the same.

In: the state of a loader. Out: a dictionary fit for JSON, and back. A state is bound to what decides which
sequences there are and in which order: input, tokenizer, lengths, seed, shuffle buffer. Batch size, number of
hosts, threads and memory may change. Held in memory: a few numbers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, Self

from krill.corpus import Corpus
from krill.errors import ConfigError, InputError
from krill.loading.stream.tokens import BEGINNING, BlockPosition, Cursor

VERSION: Final = 1
"""Of the state's meaning: counts up when the same numbers would give other sequences."""

_NUMBERS: Final = ("epoch", "samples", "window", "unit", "block", "documents", "tokens")
_INPUT: Final = ("input", "files", "bytes")


@dataclass(frozen=True, slots=True)
class StreamState:
    """An epoch, how many of its sequences all ranks have taken, and the window that the next one is in."""

    epoch: int = 0
    samples: int = 0
    window: int = 0
    cursor: Cursor = BEGINNING

    def to_json(self) -> dict[str, int]:
        position = self.cursor.position
        where = (position.unit, position.block, position.documents, self.cursor.tokens)
        return dict(zip(_NUMBERS, (self.epoch, self.samples, self.window, *where), strict=True))

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """What `to_json` gave, checked."""
        for name in _NUMBERS:
            if type(value.get(name)) is not int or value[name] < 0:
                raise ConfigError(
                    f"the state has `{name}`: `{value.get(name)}`, which is no count",
                    hint="give what state_dict() of a StreamingDataLoader returned",
                )
        epoch, samples, window, unit, block, documents, tokens = (value[name] for name in _NUMBERS)
        return cls(epoch, samples, window, Cursor(BlockPosition(unit, block, documents), tokens))


def input_identity(corpus: Corpus) -> dict[str, Any]:
    """What is read: a hash of the content and of what is wanted of it; files and bytes, for people."""
    files = corpus.fingerprints()
    wanted = [
        [file.start, file.stop, file.source.split, file.source.text_column, file.source.separator]
        for file in corpus.files
    ]
    digest = blake2b(json.dumps([list(files), wanted]).encode(), digest_size=16).hexdigest()
    return {"input": digest, "files": len(corpus.files), "bytes": corpus.input_bytes}


def check_identity(saved: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse the state of another loader, naming what differs."""
    if saved.get("version") != VERSION or not set(now) <= set(saved):
        raise ConfigError(
            "this is not the state of a StreamingDataLoader of this version of Krill",
            hint="give what its state_dict() returned, or begin the epoch anew",
        )
    others = [name for name in now if name not in _INPUT and saved[name] != now[name]]
    if others:
        differences = ", ".join(f"`{name}` was `{saved[name]}` and is `{now[name]}`" for name in others)
        raise ConfigError(
            f"the state was saved by another loader: {differences}",
            hint="make the loader as it was then, or begin the epoch anew",
        )
    if saved["input"] != now["input"]:
        raise InputError(
            f"the input is not what the state was saved with: {_shown(saved)} then, {_shown(now)} now",
            hint="put the files back as they were, in the same order, or begin the epoch anew",
        )


def _shown(identity: Mapping[str, Any]) -> str:
    files = f"{identity['files']:,} file" + ("" if identity["files"] == 1 else "s")
    return f"{files} of {identity['bytes']:,} bytes"
