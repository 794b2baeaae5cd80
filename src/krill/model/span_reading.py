"""From segments to answers: scores of tokens, and the loss of whole documents, a segment at a time.

In: a `Reader` and documents: their segments' columns (documents, segments, tokens), the labels of each
segment and which of them are there. Out: scores of tokens to be the first and the last of the answer; or the
summed loss and how many segments counted. Held in memory: the memory vectors between segments, and for the
gradient one segment's activations, which are computed again on the way back: nothing else grows with the
segments.

There is one score of no answer for a segment, from the state of its classification token, and it takes that
token's place among both scores. So a segment without the answer is one whose answer is that token, as
features have it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from krill.model.recurrent import Reader
from krill.model.transformer import Compute

# A document's columns: three of tokens, three of segments, and whether a segment is there.
TOKEN_COLUMNS = ("input_ids", "attention_mask", "token_type_ids")
SEGMENT_COLUMNS = ("start_positions", "end_positions", "cls_index", "document_mask")

Columns = Mapping[str, jax.Array]

# Low enough that its exponential is 0, high enough that a sum of two is still a number.
_NO_SCORE = -1e30


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
