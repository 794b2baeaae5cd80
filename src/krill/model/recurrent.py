"""A reader of long documents: an encoder over one segment at a time, and a memory from each to the next.

In: a segment of each document (B, T), its padding, and the memory (B, slots, width) that the segment before
left. Out: hidden states of the segment's tokens, and the memory after it. Held in memory: the weights, one
copy; for the gradient what `Compute` leaves of a single segment, if the caller checkpoints segments
(`span_reading.py` does).

Memory stands in the row as tokens do: what is carried is added to the embeddings of the reads at its front
and of the writes at its end, and what comes out at the writes takes the place of what was carried, as far as
a gate opens. The tokens are those that the features have in place, or for features without any, ids behind
the vocabulary that the reader puts around each row itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import equinox as eqx
import jax
import jax.numpy as jnp

from krill.errors import ConfigError
from krill.model.attention import attend_where, rotation
from krill.model.linear import project
from krill.model.sizing import ModelShape, count_parameters
from krill.model.transformer import (
    INIT_SCALE,
    Compute,
    Layers,
    Transformer,
    apply_layer,
    init_transformer,
    rms_norm,
)

# Where gates begin: a quarter open. So what is written counts at once, and what was there before is still
# felt some segments later: a gradient finds its way back, and the gates learn from it when to close.
FIRST_GATE = -1.0


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
        """Vectors that are carried."""
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
        """Every weight, once."""
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
        turn = rotation(jnp.arange(states.shape[1])[None], shape.head_size, shape.rope_theta)

        def attention(queries: jax.Array, keys: jax.Array, values: jax.Array) -> jax.Array:
            return attend_where(queries, keys, values, visible[:, None, :])

        def layer(carried: jax.Array, weights: Layers) -> tuple[jax.Array, None]:
            return apply_layer(shape, weights, carried, turn, attention), None

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
