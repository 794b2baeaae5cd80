"""`StreamingDataLoader`: raw text in, batches of token ids out, tokenised on the fly.

In: any source that the corpus reads, and a tokenizer. Out: `{"input_ids", "labels"}`, int32, full batches
only. Documents follow each other, each ended by EOS where the tokenizer has one, and are cut into sequences
wherever these end: no token is padding. Held in memory: the tokenizer, a few blocks of text, and a shuffle
buffer whose size is stated; the plan says how much that is before anything is read.

The order depends on the data, the seed, the epoch and the options, never on memory or threads. A state is a
few numbers: after restoring, one shuffle buffer is read again, and the next batch is the one that would have
come.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from krill.budget import Plan, parse_size, resolve_limit, resolve_threads
from krill.corpus import DatasetSource
from krill.errors import ConfigError, InputError
from krill.loading.stream.options import (
    Labels,
    OnError,
    Source,
    StreamOptions,
    parse_document_bytes,
    stream_sources,
)
from krill.loading.stream.shuffle_buffer import Sequences
from krill.loading.stream.source import VERSION, StreamSource, StreamState, check_identity
from krill.loading.stream.tokens import SequenceStream
from krill.storage.input_file import ClosedOnExit

Batch = dict[str, NDArray[Any]]


class StreamingDataLoader(ClosedOnExit):
    """Iterates over batches of tokenised text.

    `iter()` gives the rest of the current epoch. When that has ended, the next one begins, in another order.
    """

    def __init__(
        self,
        dataset_id: Source | Sequence[Source],
        tokenizer: Any,
        seq_len: int = 128,
        batch_size: int = 32,
        stride: int | None = None,
        streaming: bool = True,
        shuffle_buffer_size: int = 10_000,
        seed: int = 42,
        *,
        dataset_config: str | None = None,
        text_column: str = "text",
        split: str = "train",
        separator: str = "<|endoftext|>",
        max_examples: int | None = None,
        labels: Labels = "shifted",
        shuffle_buffer_bytes: str | int = "64MB",
        max_document_bytes: str | int = "4MB",
        on_error: OnError = "fail",
        rank: int = 0,
        world: int = 1,
        memory: str | int = "auto",
        threads: int | str = 1,
        verify: bool = True,
    ) -> None:
        """Finds the input, opens the tokenizer, and makes the plan; nothing is read yet.

        `dataset_id` is a file, glob, folder, URL or hub id, or a list of them. `stride` counts from where a
        sequence begins to where the next one does, `seq_len` if not given. With `streaming=False` all
        sequences are held in memory and shuffled as a whole. The shuffle buffer has `shuffle_buffer_size`
        sequences, or as many as `shuffle_buffer_bytes` hold; 0 or 1 leaves the order as it is. `max_examples`
        documents are read. `labels="hf"` are int64 and not shifted. `memory` is how much the process may grow
        by this. With `verify`, text that Krill wrote is held against its checksums, each file once.
        """
        self._options = options = StreamOptions(
            seq_len=seq_len,
            stride=seq_len if stride is None else stride,
            batch_size=batch_size,
            rank=rank,
            world=world,
            seed=seed,
            streaming=bool(streaming),
            shuffle_buffer_size=shuffle_buffer_size,
            shuffle_buffer_bytes=parse_size(shuffle_buffer_bytes, name="shuffle_buffer_bytes"),
            max_document_bytes=parse_document_bytes(max_document_bytes),
            max_examples=max_examples,
            labels=labels,
            on_error=on_error,
            separator=separator,
        )
        like = DatasetSource("", split=split, text_column=text_column, separator=separator)
        sources = stream_sources(dataset_id, dataset_config, like)
        limits = {"limit": resolve_limit(memory), "threads": resolve_threads(threads)}
        self._source = StreamSource(sources, tokenizer, options, **limits, verify=verify)
        self._state = StreamState()
        self._stream: SequenceStream | None = None
        self._sequences: Sequences | None = None
        self._identity: dict[str, Any] | None = None
        self.plan: Plan = self._source.plan
        """Who may hold how many bytes, and the predicted growth of the process."""
        self.batch_size = options.batch_size
        """Sequences of a batch, on this rank."""
        self.global_batch = options.global_batch
        """Sequences that all ranks take together."""
        self.vocab_size: int = self._source.encoder.vocab_size
        """Ids are below this."""
        self.eos_id: int | None = self._source.encoder.eos_id
        """What ends each document; None if the tokenizer has no such token: then nothing separates them."""
        self.why_not_native: str | None = getattr(self._source.encoder, "why", None)
        """Why Hugging Face's library runs the tokenizer, many times slower; None if it doesn't."""

    @property
    def epoch(self) -> int:
        """The number of the epoch that the next batch is of."""
        return self._state.epoch

    @property
    def samples(self) -> int:
        """Sequences of this epoch that all ranks have taken."""
        return self._state.samples

    @property
    def counts(self) -> Mapping[str, int]:
        """What was read since this epoch began or was restored: `documents`, `empty` ones, `tokens`..."""
        return {} if self._stream is None else dict(self._stream.counts)

    def __iter__(self) -> Iterator[Batch]:
        """The rest of this epoch; the next one follows when it is asked for."""
        while (batch := self._next_batch()) is not None:
            yield batch
        self._finish_epoch()

    def set_epoch(self, epoch: int) -> None:
        """Begin epoch `epoch`; nothing changes if it is the current one, so that a restored run goes on."""
        if epoch != self._state.epoch:
            self._move_to(StreamState.from_json({**StreamState().to_json(), "epoch": epoch}))

    def state_dict(self) -> dict[str, Any]:
        """Where the loader is, fit for JSON; the batches handed out so far are done."""
        return {"version": VERSION, **self._state.to_json(), **self._bound_to()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where another loader of the same input and options was, on as many ranks as there are now."""
        check_identity(state, self._bound_to())
        self._move_to(StreamState.from_json(state))

    def close(self) -> None:
        """Stop reading; iterating again continues from the same place."""
        if self._stream is not None:
            self._stream.close()
        self._stream = self._sequences = None

    def _bound_to(self) -> dict[str, Any]:
        if self._identity is None:
            self._identity = self._source.identity()
        return self._identity

    def _move_to(self, state: StreamState) -> None:
        self.close()
        self._state = state

    def _next_batch(self) -> Batch | None:
        """This rank's share of the next sequences; None if there are too few for all ranks."""
        try:
            return self._gather_batch()
        except BaseException:  # what was read may be ahead of the state now
            self.close()
            raise

    def _gather_batch(self) -> Batch | None:
        sequences, options = self._opened(), self._options
        first = self._state.samples + options.rank * options.batch_size
        last, end = first + options.batch_size, self._state.samples + options.global_batch
        batch = _empty_batch(options)
        while True:
            low, high = max(first, sequences.first), min(last, sequences.last)
            if low < high:
                _write(batch, low - first, sequences.take(low, high), options.labels)
            if sequences.last >= end:
                break
            if not sequences.advance():
                return None
        window, cursor = sequences.resume_at(end)
        self._state = StreamState(self._state.epoch, end, window, cursor)
        return batch

    def _finish_epoch(self) -> None:
        if self._state.samples == 0:
            raise self._too_little()
        self._move_to(StreamState(self._state.epoch + 1))

    def _opened(self) -> Sequences:
        if self._sequences is None:
            state = self._state
            self._stream = self._source.stream(state.cursor)
            self._sequences = self._source.shuffled(self._stream, state)
            if state.samples < self._sequences.first:
                raise ConfigError(
                    f"the state says that sequence {state.samples:,} is in window {state.window:,}",
                    hint="give what state_dict() returned, unchanged",
                )
        return self._sequences

    def _too_little(self) -> InputError:
        options, counts = self._options, self.counts
        tokens = counts.get("tokens", 0)
        sequences = max(0, (tokens - options.length) // options.stride + 1)
        ranks = f" on each of {options.world} ranks" if options.world > 1 else ""
        return InputError(
            f"there is no full batch in `{self._source.name}`: {counts.get('documents', 0):,}"
            f" documents have {tokens:,} tokens, which is {sequences:,} sequences of seq_len"
            f" {options.seq_len:,} and one label more; a batch takes {options.batch_size:,}{ranks}",
            hint="set `batch_size` or `seq_len` lower, or give more text",
        )


def _empty_batch(options: StreamOptions) -> Batch:
    shape = options.batch_size, options.seq_len
    return {
        "input_ids": np.empty(shape, np.int32),
        "labels": np.empty(shape, np.int64 if options.labels == "hf" else np.int32),
    }


def _write(batch: Batch, at: int, rows: NDArray[Any], labels: Labels) -> None:
    """Sequences into a batch: all tokens but the last, and as labels all but the first."""
    into = slice(at, at + len(rows))
    batch["input_ids"][into] = rows[:, :-1]
    batch["labels"][into] = rows[:, :-1] if labels == "hf" else rows[:, 1:]
