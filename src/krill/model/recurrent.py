"""A reader of long documents: an encoder over one segment at a time, a memory from each to the next, answers.

In: a segment of each document (B, T), its padding, and the memory (B, slots, width) that the segment before
left; or whole documents, (documents, segments, tokens), with the labels of each segment. Out: scores of
tokens to be the first and the last of the answer, and the memory after the segment; or the summed loss and
how many segments counted. Held in memory: the weights, one copy; the memory vectors between segments; for the
gradient what `Compute` leaves of one segment, which is computed again on the way back: nothing else grows
with the segments.

Memory stands in the row as tokens do: what is carried is added to the embeddings of the reads at its front
and of the writes at its end, and what comes out at the writes takes the place of what was carried, as far as
a gate opens. The tokens are those that the features have in place, or for features without any, ids behind
the vocabulary that the reader puts around each row itself.

There is one score of no answer for a segment, from the state of its classification token, and it takes that
token's place among both scores. So a segment without the answer is one whose answer is that token, as
features have it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from krill.errors import ConfigError
from krill.model.attention import attend_where, rotation
from krill.model.sizing import ModelShape, count_parameters
from krill.model.transformer import (
    INIT_SCALE,
    Compute,
    Layers,
    Transformer,
    apply_layer,
    init_transformer,
    project,
    rms_norm,
)

# Where gates begin: a quarter open. So what is written counts at once, and what was there before is still
# felt some segments later: a gradient finds its way back, and the gates learn from it when to close.
FIRST_GATE = -1.0
# A document's columns: three of tokens, three of segments, and whether the document has that segment.
TOKEN_COLUMNS = ("input_ids", "attention_mask", "token_type_ids")
SEGMENT_COLUMNS = ("start_positions", "end_positions", "cls_index", "document_mask")

Columns = Mapping[str, jax.Array]

# Low enough that its exponential is 0, high enough that a sum of two is still a number.
_NO_SCORE = -1e30


@dataclass(frozen=True, slots=True)
class MemoryTokens:
    """The ids of the tokens where memory is read and written, as many of each.

    `around` says that features don't have them: the reader puts them before and after each row.
    """

    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    around: bool = False

    def __post_init__(self) -> None:
        if len(self.reads) != len(self.writes):
            raise ConfigError(
                f"there are {len(self.reads)} memory tokens to read and {len(self.writes)} to write",
                hint="make them with `configure_memory_tokens`, which adds as many of each",
            )

    @property
    def slots(self) -> int:
        """Memory vectors."""
        return len(self.reads)

    @staticmethod
    def behind(vocab_size: int, slots: int) -> MemoryTokens:
        """For features that have none: ids that follow the vocabulary, which `vocab_size` doesn't count."""
        first = tuple(range(vocab_size, vocab_size + slots))
        return MemoryTokens(first, tuple(number + slots for number in first), around=slots > 0)


@dataclass(frozen=True, slots=True)
class ReaderShape:
    """Everything that decides a reader's weights and what they compute.

    `encoder` counts the ids of memory tokens as a part of its vocabulary. `length` is the longest row;
    `token_types` is how many kinds of tokens the tokenizer tells apart, 1 if it doesn't.
    """

    encoder: ModelShape
    length: int
    memory: MemoryTokens
    token_types: int = 1

    @property
    def row_length(self) -> int:
        """Tokens that a row has inside the reader."""
        return self.length + (2 * self.memory.slots if self.memory.around else 0)

    @property
    def parameters(self) -> int:
        width, slots = self.encoder.width, self.memory.slots
        types = self.token_types if self.token_types > 1 else 0
        memory = slots + width + 1 if slots else 0
        return count_parameters(self.encoder) + (memory + types + 3) * width


class Memory(eqx.Module):
    """What a document begins with, and the gate: how much of each number that is carried is replaced."""

    first: jax.Array
    gate: jax.Array
    gate_bias: jax.Array

    def after(self, before: jax.Array, written: jax.Array) -> jax.Array:
        """What is carried on, (B, slots, width), where `written` came out."""
        opened = jax.nn.sigmoid(project(written, self.gate) + self.gate_bias)
        return before + opened * (written - before)


class Reader(eqx.Module):
    """The weights: a pytree whose leaves are all arrays.

    The rows of `heads` score a token as the first and the last of the answer, and the classification token as
    that there is none.
    """

    encoder: Transformer
    memory: Memory | None
    token_types: jax.Array | None
    heads: jax.Array
    design: ReaderShape = eqx.field(static=True)

    @property
    def shape(self) -> ModelShape:
        """Of the encoder: what a checkpoint says of its model."""
        return self.design.encoder

    def begin(self, documents: int) -> jax.Array:
        """The memory (documents, slots, width) before any segment was read."""
        if self.memory is None:
            return jnp.zeros((documents, 0, self.shape.width), jnp.float32)
        return jnp.broadcast_to(self.memory.first[None], (documents, *self.memory.first.shape))

    def read(
        self,
        memory: jax.Array,
        ids: jax.Array,
        mask: jax.Array,
        types: jax.Array,
        compute: Compute = Compute(),  # noqa: B008 - frozen
    ) -> tuple[jax.Array, jax.Array]:
        """One segment of each document: its tokens' normed states (B, T, width), and the memory after it."""
        tokens = self.design.memory
        ids, mask, types = (
            _around(column, tokens, first, last)
            for column, first, last in ((ids, tokens.reads, tokens.writes), (mask, 1, 1), (types, 0, 0))
        )
        states = self.encoder.embedding[ids]
        if self.token_types is not None:
            states = states + self.token_types[types]
        if self.memory is None:
            return self._encode(states, mask != 0, compute), memory
        reads = _places(ids, tokens.reads).astype(states.dtype)
        writes = _places(ids, tokens.writes).astype(states.dtype)
        states = states + jnp.einsum("btm,bmd->btd", reads + writes, memory)
        states = self._encode(states, mask != 0, compute)
        after = self.memory.after(memory, jnp.einsum("btm,btd->bmd", writes, states))
        own = states[:, tokens.slots : states.shape[1] - tokens.slots] if tokens.around else states
        return own, after

    def _encode(self, states: jax.Array, visible: jax.Array, compute: Compute) -> jax.Array:
        shape = self.design.encoder
        rope = rotation(jnp.arange(states.shape[1])[None], shape.head_size, shape.rope_theta)

        def attention(queries: jax.Array, keys: jax.Array, values: jax.Array) -> jax.Array:
            return attend_where(queries, keys, values, visible[:, None, :])

        def layer(carried: jax.Array, weights: Layers) -> tuple[jax.Array, None]:
            return apply_layer(shape, weights, carried, rope, attention), None

        states, _ = jax.lax.scan(
            jax.checkpoint(layer) if compute.remat else layer, states, self.encoder.layers
        )
        return rms_norm(states, self.encoder.final_norm, shape.norm_eps)


def _around(
    column: jax.Array, tokens: MemoryTokens, first: tuple[int, ...] | int, last: tuple[int, ...] | int
) -> jax.Array:
    """A column of rows with the memory tokens' values before and after each."""
    if not tokens.around:
        return column
    size = (column.shape[0], tokens.slots)
    ends = [jnp.broadcast_to(jnp.asarray(end, column.dtype), size) for end in (first, last)]
    return jnp.concatenate([ends[0], column, ends[1]], axis=1)


def _places(ids: jax.Array, wanted: tuple[int, ...]) -> jax.Array:
    """Whether token t of row b is the n-th of some ids, (B, T, n)."""
    return ids[:, :, None] == jnp.asarray(wanted, ids.dtype)


def init_reader(design: ReaderShape, seed: int) -> Reader:
    """Fresh float32 weights, the same for the same seed.

    Matrices are those of `init_transformer`, scaled to one over the root of their width: readers are narrow,
    and with 0.02 at a width of 32 a layer adds next to nothing, so that nothing is written worth reading.
    """
    encoder = init_transformer(design.encoder, seed)
    width = design.encoder.width
    wider = width**-0.5 / INIT_SCALE
    layers = jax.tree.map(lambda leaf: leaf * wider if leaf.ndim == 3 else leaf, encoder.layers)
    # Folded in, so that they are not the encoder's own numbers again.
    keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), 1), 3)

    def drawn(key: jax.Array, rows: int) -> jax.Array:
        return jax.random.normal(key, (rows, width), jnp.float32) * INIT_SCALE

    memory = None
    if design.memory.slots:
        bias = jnp.full(width, FIRST_GATE, jnp.float32)
        memory = Memory(drawn(keys[0], design.memory.slots), jnp.zeros((width, width), jnp.float32), bias)
    return Reader(
        encoder=replace(encoder, layers=layers),
        memory=memory,
        token_types=drawn(keys[1], design.token_types) if design.token_types > 1 else None,
        heads=drawn(keys[2], 3),
        design=design,
    )


def read_segment(
    reader: Reader,
    memory: jax.Array,
    segment: Columns,
    compute: Compute = Compute(),  # noqa: B008 - frozen
) -> tuple[jax.Array, jax.Array]:
    """Scores (2, B, T) of one segment of each document, and the memory after it.

    A document that has ended keeps the memory that it had.
    """
    ids, mask, types = (segment[name] for name in TOKEN_COLUMNS)
    states, written = reader.read(memory, ids, mask, types, compute)
    present = segment["document_mask"][:, None, None]
    return span_scores(reader, states, mask, segment["cls_index"]), jnp.where(present, written, memory)


def span_scores(reader: Reader, states: jax.Array, mask: jax.Array, cls: jax.Array) -> jax.Array:
    """Each token's score as first and last, (2, B, T) in float32; padding has none."""
    firsts, lasts, none = jnp.einsum("btd,nd->nbt", states, reader.heads, preferred_element_type=jnp.float32)
    at_cls = jnp.arange(mask.shape[1])[None] == cls[:, None]
    spans = jnp.where(at_cls, none, jnp.stack((firsts, lasts)))
    # Where a tokenizer has no classification token, padding may stand in its place.
    return jnp.where(at_cls | (mask != 0), spans, _NO_SCORE)


def summed_span_loss(
    reader: Reader,
    documents: Columns,
    *,
    bptt: int | None = None,
    compute: Compute = Compute(),  # noqa: B008 - frozen
) -> tuple[jax.Array, jax.Array]:
    """The losses of all segments that are there, added up, and their number.

    The gradient goes back through `bptt` segments at a time, or through all of them. Columns are
    (documents, segments, …). Segments that no document has are passed over, not computed.
    """
    steps = {name: jnp.swapaxes(column, 0, 1) for name, column in documents.items()}
    count = steps["document_mask"].shape[0]

    # Without the checkpoint the scan would keep every segment's activations for the way back.
    @jax.checkpoint
    def add(carried: Any, step: tuple[jax.Array, Columns]) -> tuple[Any, None]:
        total, memory = carried
        number, segment = step
        if bptt is not None:
            cut = (number > 0) & (number % bptt == 0)  # what documents begin with is learned all the same
            memory = jnp.where(cut, jax.lax.stop_gradient(memory), memory)

        def taken(memory: jax.Array) -> tuple[jax.Array, jax.Array]:
            scores, after = read_segment(reader, memory, segment, compute)
            return segment_losses(scores, segment).sum(), after

        def passed(memory: jax.Array) -> tuple[jax.Array, jax.Array]:
            return jnp.zeros((), jnp.float32), memory

        loss, memory = jax.lax.cond(segment["document_mask"].any(), taken, passed, memory)
        return (total + loss, memory), None

    rows = steps["document_mask"].shape[1]
    start = jnp.zeros((), jnp.float32), reader.begin(rows)
    (total, _), _ = jax.lax.scan(add, start, (jnp.arange(count), steps))
    return total, jnp.sum(documents["document_mask"], dtype=jnp.int32)


def segment_losses(scores: jax.Array, segment: Columns) -> jax.Array:
    """The mean of both ends' cross-entropies for each document (B), 0 where it has ended."""
    labels = jnp.stack((segment["start_positions"], segment["end_positions"]))
    chosen = jnp.take_along_axis(scores, labels[:, :, None], axis=-1)[..., 0]
    losses = jax.nn.logsumexp(scores, axis=-1) - chosen
    return jnp.where(segment["document_mask"], losses.mean(axis=0), 0.0)
