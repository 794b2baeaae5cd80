"""One step of training a reader, compiled, with its state given up to the next one.

In: a `ReaderState` and the columns of some documents (`data.py`). Out: the next state, in the same memory
(donated), and the step's loss, gradient norm and counted segments. Held in memory: the state, the gradients,
one segment's activations of a microbatch of documents, and the memory vectors between segments.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from krill import _native
from krill.model.recurrent import Reader, ReaderShape, init_reader
from krill.model.span_reading import SEGMENT_COLUMNS, TOKEN_COLUMNS, summed_span_loss
from krill.model.transformer import Compute
from krill.training.accumulate import Batch, accumulate, cut
from krill.training.compiler import lean
from krill.training.step import Metrics


class ReaderState(NamedTuple):
    """Everything that a step changes, and so everything of it that a checkpoint holds."""

    model: Reader
    optimizer: Any
    step: jax.Array


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    """What a step is like. `bptt` shapes its result; the others, beyond float tolerance, don't."""

    microbatch: int
    bptt: int | None = None
    compute: Compute = field(default_factory=Compute)


Step = Callable[[ReaderState, Mapping[str, Any]], tuple[ReaderState, Metrics]]


def first_state(design: ReaderShape, optimizer: optax.GradientTransformation, seed: int) -> ReaderState:
    """Fresh weights and an empty optimizer."""
    # One program and not one for each array: compiling those takes longer and leaves more behind.
    fresh = jax.jit(functools.partial(_fresh, design, optimizer, seed))
    state: ReaderState = lean().compile(fresh.lower(), runs_once=True)()
    _native.trim(code=True)
    return state


def state_shapes(design: ReaderShape, optimizer: optax.GradientTransformation) -> ReaderState:
    """The shapes of `first_state`; nothing is allocated."""
    shapes: ReaderState = jax.eval_shape(functools.partial(_fresh, design, optimizer, 0))
    return shapes


def _fresh(design: ReaderShape, optimizer: optax.GradientTransformation, seed: int) -> ReaderState:
    model = init_reader(design, seed)
    return ReaderState(model, optimizer.init(model), jnp.zeros((), jnp.int32))


def make_step(optimizer: optax.GradientTransformation, options: ReaderOptions) -> Step:
    """The step as a jitted function; the state that is passed in is gone afterwards."""
    return jax.jit(functools.partial(_take_step, optimizer, options), donate_argnums=0)


def _take_step(
    optimizer: optax.GradientTransformation, options: ReaderOptions, state: ReaderState, batch: Batch
) -> tuple[ReaderState, Metrics]:
    summed = functools.partial(summed_span_loss, bptt=options.bptt, compute=options.compute)
    sums = accumulate(summed, state.model, cut(batch, options.microbatch))
    share = 1.0 / jnp.maximum(sums.tokens, 1).astype(jnp.float32)
    gradients = jax.tree.map(lambda gradient: gradient * share, sums.gradients)
    norm = optax.tree.norm(gradients)
    updates, held = optimizer.update(gradients, state.optimizer, state.model)
    model = optax.apply_updates(state.model, updates)
    metrics = Metrics(sums.loss * share, norm, sums.tokens, jnp.zeros((), jnp.int32))
    return ReaderState(model, held, state.step + 1), metrics


def lower_step(
    step: Step,
    design: ReaderShape,
    optimizer: optax.GradientTransformation,
    *,
    documents: int,
    segments: int,
) -> jax.stages.Lowered:
    """The step traced for batches of `documents` x `segments`; nothing of that size is allocated."""
    batch = batch_shapes((documents, segments), design.length)
    lowered: jax.stages.Lowered = step.lower(state_shapes(design, optimizer), batch)  # type: ignore[attr-defined]
    return lowered


def batch_shapes(size: tuple[int, ...], length: int) -> dict[str, jax.ShapeDtypeStruct]:
    """The columns of rows that lie in an array of `size`."""
    tokens = dict.fromkeys(TOKEN_COLUMNS, jax.ShapeDtypeStruct((*size, length), jnp.int32))  # type: ignore[no-untyped-call]
    labels = dict.fromkeys(SEGMENT_COLUMNS, jax.ShapeDtypeStruct(size, jnp.int32))  # type: ignore[no-untyped-call]
    mask = jax.ShapeDtypeStruct(size, jnp.bool_)  # type: ignore[no-untyped-call]
    return {**tokens, **labels, "document_mask": mask}
