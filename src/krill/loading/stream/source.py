"""Text and a tokenizer, opened within a budget: where the sequences of a stream come from, and its states.

In: sources, a tokenizer, options and a budget. Out: shuffled sequences from any state on. A state is a few
numbers, and bound to what decides which sequences there are and in which order: input, tokenizer, lengths,
seed, shuffle buffer. Batch size, number of hosts, threads and memory may change. Held in memory: the
tokenizer, the list of files, and what the plan gives to reading and to the buffer while a stream is open;
without streaming, all sequences.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from krill import _native
from krill.budget import Plan, format_size, make_plan
from krill.corpus import Corpus, CorpusFile, DatasetSource, open_corpus
from krill.corpus.formats import Format
from krill.dataset import smallest_dtype
from krill.errors import BudgetError, ConfigError, InputError
from krill.loading.stream.options import (
    BLOCKS,
    HELD,
    UNIT_BYTES,
    StreamOptions,
    StreamSizes,
    buffer_need,
    settled_plan,
    stream_needs,
)
from krill.loading.stream.shuffle_buffer import HeldSequences, Sequences, ShuffleBuffer, hold_all
from krill.loading.stream.tokens import BEGINNING, BlockPosition, Cursor, SequenceStream, text_tokens
from krill.storage.atomic import encode_json
from krill.tokenizer import Encoder
from krill.tokenizer.open import open_file
from krill.tokenizer.tokenizer_file import tokenizer_file

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
        for name in _NUMBERS:
            if type(value.get(name)) is not int or value[name] < 0:
                raise ConfigError(
                    f"the state has `{name}`: `{value.get(name)}`, which is no count",
                    hint="give what state_dict() of a StreamingDataLoader returned",
                )
        epoch, samples, window, unit, block, documents, tokens = (value[name] for name in _NUMBERS)
        return cls(epoch, samples, window, Cursor(BlockPosition(unit, block, documents), tokens))


class StreamSource:
    """An input that was found, a tokenizer that was opened, and the plan that says what both may hold."""

    plan: Plan
    encoder: Encoder

    def __init__(
        self,
        sources: Sequence[DatasetSource],
        tokenizer: Any,
        options: StreamOptions,
        *,
        limit: int,
        threads: int,
        verify: bool = True,
    ) -> None:
        _native.configure_malloc()
        self._options = options
        self._threads = threads
        self._corpus = open_corpus(
            sources,
            unit_bytes=UNIT_BYTES,
            max_document_bytes=options.max_document_bytes,
            skip_malformed=options.on_error == "skip",
            default_separator=options.separator,
            verify=verify,
        )
        self._open(tokenizer, limit)
        self._held: NDArray[Any] | None = None

    def _open(self, tokenizer: Any, limit: int) -> None:
        """Plan, then open the tokenizer with its share, then settle what the buffer takes."""
        options = self._options
        sizes = StreamSizes(
            options.max_document_bytes,
            options.batch_bytes,
            self._corpus.held_bytes,
            decompresses=any(file.compression is not None for file in self._corpus.files),
            parquet=any(file.format is Format.PARQUET for file in self._corpus.files),
        )
        with as_file_or_encoder(tokenizer) as given:
            needs = stream_needs(sizes, given, self._threads)
            # How wide a token is, is not known before the tokenizer is: four bytes at the most.
            most = [buffer_need(options.window(4) * options.length * 4)] if options.streaming else []
            plan = make_plan(limit, 0, [*needs, *most])
            self.encoder = open_file(given, plan, self._threads) if isinstance(given, Path) else given
        self._dtype = smallest_dtype(self.encoder.vocab_size)
        self._sequence_bytes = options.length * np.dtype(self._dtype).itemsize
        self._window = options.window(np.dtype(self._dtype).itemsize) if options.streaming else 0
        buffer_bytes = self._window * self._sequence_bytes if options.streaming else None
        self.plan = settled_plan(plan, needs, buffer_bytes)

    @property
    def name(self) -> str:
        """The first path, for messages."""
        return self._corpus.files[0].source.path

    def identity(self) -> dict[str, Any]:
        """What decides which sequences there are and in which order; a pass over small input files."""
        options = self._options
        return {
            **input_identity(self._corpus),
            "tokenizer": self.encoder.describe()["fingerprint"],
            "seq_len": options.seq_len,
            "stride": options.stride,
            "seed": options.seed,
            "streaming": options.streaming,
            "shuffle_buffer": self._window if options.shuffles else 0,
            "max_examples": options.max_examples,
            "max_document_bytes": options.max_document_bytes,
        }

    def stream(self, start: Cursor = BEGINNING) -> SequenceStream:
        """The sequences as they come, from a cursor on."""
        blocks = text_tokens(
            self._corpus,
            self.encoder,
            self._dtype,
            start.position,
            threads=self._threads,
            in_flight=self.plan.share(BLOCKS),
            max_documents=self._options.max_examples,
        )
        shape = {"length": self._options.length, "stride": self._options.stride}
        return SequenceStream(blocks, start, dtype=self._dtype, **shape)

    def shuffled(self, stream: SequenceStream, state: StreamState) -> Sequences:
        """The sequences in the order of an epoch. `stream` begins where the state's window does."""
        options = self._options
        seeds = (options.seed, state.epoch) if options.shuffles else None
        if not options.streaming:
            return HeldSequences(self._all_sequences(stream), seeds)
        rows = np.empty((self._window, options.length), self._dtype)
        return ShuffleBuffer(stream, rows, seeds, state.window)

    def _all_sequences(self, stream: SequenceStream) -> NDArray[Any]:
        if self._held is None:
            # Of what is not filled, the system gives no memory.
            count = self.plan.share(HELD) // self._sequence_bytes
            room = np.empty((count, self._options.length), self._dtype)
            self._held = hold_all(stream, room, lambda read: self._expected(stream, read), self._too_much)
        return self._held

    def _expected(self, stream: SequenceStream, read: int) -> int:
        """About how many sequences there are, when `read` of them were; no more than is known of the rest."""
        expected = read * wanted_bytes(self._corpus) // max(1, stream.counts["bytes"])
        if self._options.max_examples is not None:
            documents = max(1, stream.counts["documents"])
            expected = min(expected, -(-read * self._options.max_examples // documents))
        return max(read, expected)

    def _too_much(self, sequences: int) -> BudgetError:
        needed, room = sequences * self._sequence_bytes, self.plan.share(HELD)
        enough = -(-(self.plan.limit - room + needed) // 10**6)
        return BudgetError(
            f"all sequences, about {sequences:,} or more, would take {format_size(needed)} in memory, and the"
            f" budget of {format_size(self.plan.limit)} leaves {format_size(room)} for them",
            hint=f"leave `streaming` on, or give a `memory` above {enough}MB",
        )


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


def wanted_bytes(corpus: Corpus) -> int:
    """What is to be read, as far as it is known without reading: compressed input is more than it says."""
    return sum(_wanted(file) for file in corpus.files)


def _wanted(file: CorpusFile) -> int:
    if file.start == 0 and file.stop is None:
        return file.bytes
    if file.sequential or file.format not in (Format.TEXT, Format.JSON_LINES):
        return 0  # a slice by rows, or of something compressed
    return (file.bytes if file.stop is None else file.stop) - file.start


_HINT = (
    "give a tokenizer.json or its folder, a tokenizers.Tokenizer, a fast tokenizer of transformers, or what"
    " krill.tokenizer.load returns"
)


@contextmanager
def as_file_or_encoder(tokenizer: Any) -> Iterator[Path | Encoder]:
    """A tokenizer that is an object of another library is written to a file for as long as this is open."""
    if isinstance(tokenizer, str | Path):
        yield _existing(tokenizer)
        return
    from krill.tokenizer import MemoryEfficientBPE
    from krill.tokenizer.tokenizer import Tokenizer

    if isinstance(tokenizer, Tokenizer):
        yield tokenizer.encoder
    elif all(hasattr(tokenizer, name) for name in ("encode", "eos_id", "vocab_size", "describe")):
        yield tokenizer
    else:
        with TemporaryDirectory(prefix="krill-tokenizer-") as folder:
            file = Path(folder) / "tokenizer.json"
            if isinstance(tokenizer, MemoryEfficientBPE):
                tokenizer.save(file)
            else:
                file.write_text(_as_json(tokenizer), encoding="utf-8")
                declared = {"eos_token": getattr(tokenizer, "eos_token", None)}
                (file.parent / "tokenizer_config.json").write_bytes(encode_json(declared))
            yield file


def _existing(path: str | Path) -> Path:
    try:
        return tokenizer_file(path)
    except InputError:
        raise InputError(f"no tokenizer at `{path}`", hint=_HINT) from None


def _as_json(tokenizer: Any) -> str:
    """What `tokenizers` would save. transformers' fast tokenizers have one of its tokenizers inside."""
    library = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not hasattr(library, "to_str"):
        raise ConfigError(f"`tokenizer` is a `{type(tokenizer).__name__}`", hint=_HINT)
    try:
        return str(library.to_str())
    except Exception as error:  # the library raises plain Exception for parts that are written in Python
        raise ConfigError(
            f"the tokenizer can't be saved, so it can't be run here: {error}",
            hint="leave out its parts that are written in Python",
        ) from None
