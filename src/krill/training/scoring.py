"""How well a model predicts text: loss, perplexity, bits per byte.

In: a model and batches of `input_ids`, `labels`, `segment_ids` and `position_ids`. Out: an `Evaluation`. Held
in memory: the weights (and their copy in a smaller type, if one is asked for), one batch's activations of a
single layer, and one chunk's logits: never all of them.

Labels of -100 count for nothing: the first token of a document is not predicted, since nothing comes before
it, and the one that ends a document is, but stands for no bytes. Bits per byte compare models whatever their
vocabulary: all bits of the predicted tokens over all bytes that these stand for.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from krill import _native
from krill.errors import InputError
from krill.model.sizing import ModelShape
from krill.model.transformer import Transformer, init_transformer
from krill.training.compiler import low_memory_compiler
from krill.training.language_step import COLUMNS
from krill.training.loss import count_labels, summed_loss
from krill.training.mesh import Placement
from krill.training.precision import Precision, cast, first_scale
from krill.training.step import TrainState, memory_of, shape_of


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Over all tokens that were predicted: mean nats of a token, bits of a byte. `bytes` is their text's."""

    loss: float
    bits_per_byte: float | None
    perplexity: float
    tokens: int
    bytes: int | None


class CompiledEvaluator:
    """The summed nats of a batch and its counted tokens; compiled when it is made, not when it is called."""

    def __init__(self, compiled: jax.stages.Compiled) -> None:
        self._compiled = compiled
        self.held_bytes = memory_of(compiled)

    def __call__(self, model: Transformer, batch: Mapping[str, Any]) -> tuple[float, int]:
        total, tokens = self._compiled(model, {name: batch[name] for name in COLUMNS})
        return float(total), int(tokens)


@functools.lru_cache(maxsize=4)
def make_evaluator(
    shape: ModelShape,
    *,
    rows: int,
    length: int,
    loss_chunk: int,
    precision: Precision = Precision.FLOAT32,
    placement: Placement | None = None,
) -> CompiledEvaluator:
    """For batches of `rows` x `length`, over whose logits it goes `loss_chunk` tokens at a time.

    The same sizes again cost nothing.
    """

    def summed(model: Transformer, batch: Mapping[str, jax.Array]) -> tuple[jax.Array, jax.Array]:
        used = cast(model, precision)
        states = used.hidden(batch["input_ids"], batch["segment_ids"], batch["position_ids"])
        labels = batch["labels"].reshape(-1)
        flat = states.reshape(labels.shape[0], -1)
        return summed_loss(flat, used.embedding, labels, jnp.ones(()), loss_chunk), count_labels(labels)

    model = jax.eval_shape(lambda: init_transformer(shape, 0))
    column = shape_of((rows, length))
    where: dict[str, Any] = {}
    if placement is not None:
        state = TrainState(model, (), first_scale(precision), jnp.zeros((), jnp.int32))
        where["in_shardings"] = placement.state(state).model, placement.batch
    compiled = low_memory_compiler().compile(
        jax.jit(summed, **where).lower(model, dict.fromkeys(COLUMNS, column))
    )
    _native.trim(code=True)  # what compiling took
    return CompiledEvaluator(compiled)


@dataclass(slots=True)
class LossSums:
    """Losses in nats and predicted tokens, added up batch by batch."""

    nats: float = 0.0
    tokens: int = 0

    def add(self, nats: float, tokens: int) -> None:
        self.nats += nats
        self.tokens += tokens

    def evaluation(self, text_bytes: float | None) -> Evaluation:
        """The figures over all batches; `text_bytes` is the size of the predicted text."""
        if self.tokens == 0:
            raise InputError(
                "there is no token to predict: every document has at most one",
                hint="give longer text",
            )
        loss = self.nats / self.tokens
        return Evaluation(
            loss=loss,
            bits_per_byte=self.nats / math.log(2) / text_bytes if text_bytes else None,
            perplexity=math.exp(loss) if loss < _MOST_LOSS else math.inf,
            tokens=self.tokens,
            bytes=None if text_bytes is None else round(text_bytes),
        )


# Beyond it a perplexity is more than a float can hold.
_MOST_LOSS = 700.0
