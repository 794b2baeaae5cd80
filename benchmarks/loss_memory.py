"""The chunked loss beside the plain one: what a whole training step holds, and how long it takes.

A step over 4,096 tokens with a vocabulary of 32,000 and a small model, so that the logits are what counts.
Memory is what XLA laid out for the compiled step (argument + output + temporaries - aliases), and for the
loss alone its temporaries. Times are the best of a few steps, the two taken in turn in one process.

    python benchmarks/loss_memory.py --tokens 4096 --vocabulary 32000
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from krill.model.sizing import ModelShape
from krill.model.transformer import Transformer, init_transformer
from krill.training.language_step import loss_chunk
from krill.training.loss import IGNORED, summed_loss
from krill.training.step import memory_of
from results import again

Loss = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]


def main() -> None:
    """The table and the two ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--vocabulary", type=int, default=32_000)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    shape = ModelShape(options.vocabulary, options.width, 4, 4, 4, 352)
    chunk = loss_chunk(options.vocabulary)

    def chunked(hidden: jax.Array, embedding: jax.Array, labels: jax.Array) -> jax.Array:
        return summed_loss(hidden, embedding, labels, jnp.float32(1), chunk)

    losses: dict[str, Loss] = {"plain": plain, f"chunks of {chunk}": chunked}
    ids = np.random.default_rng(0).integers(0, options.vocabulary, (options.tokens // 128, 129))
    model = init_transformer(shape, 0)
    steps = {name: compiled_step(loss, model, ids) for name, loss in losses.items()}
    seconds = best_times(steps, model, ids, options.repeats)
    results = again("loss_memory", "jax")
    first = next(iter(losses))
    for name, step in steps.items():
        held = {"alone": loss_bytes(losses[name], options) / 1e6, "step": memory_of(step) / 1e6}
        beside = {} if name == first else {"times": seconds[name] / seconds[first]}
        results.add(loss=name, **held, **beside, seconds=seconds[name])
    results.save()


def plain(hidden: jax.Array, embedding: jax.Array, labels: jax.Array) -> jax.Array:
    """All logits at once, as a framework's own cross-entropy has them."""
    scores = jax.nn.log_softmax(hidden @ embedding.T)
    chosen = jnp.take_along_axis(scores, jnp.maximum(labels, 0)[:, None], axis=-1)[:, 0]
    return -jnp.where(labels == IGNORED, 0.0, chosen).sum()


def compiled_step(loss: Loss, model: Transformer, ids: np.ndarray[Any, Any]) -> jax.stages.Compiled:
    """Loss and gradients of the whole model, and a plain step down them."""

    def step(model: Transformer, inputs: jax.Array, labels: jax.Array) -> tuple[Transformer, jax.Array]:
        def mean(model: Transformer) -> jax.Array:
            states = model.hidden(inputs)
            flat = states.reshape(labels.size, -1)
            return loss(flat, model.embedding, labels.reshape(-1)) / labels.size

        value, gradient = jax.value_and_grad(mean)(model)
        return jax.tree.map(lambda weight, slope: weight - 1e-3 * slope, model, gradient), value

    return jax.jit(step).lower(model, ids[:, :-1], ids[:, 1:]).compile()


def best_times(
    steps: dict[str, jax.stages.Compiled], model: Transformer, ids: np.ndarray[Any, Any], repeats: int
) -> dict[str, float]:
    """The best of `repeats`, the steps taken in turn so that both see the same machine."""
    best = dict.fromkeys(steps, float("inf"))
    inputs, labels = ids[:, :-1], ids[:, 1:]
    for _ in range(repeats + 1):
        for name, step in steps.items():
            begun = time.perf_counter()
            jax.block_until_ready(step(model, inputs, labels))
            best[name] = min(best[name], time.perf_counter() - begun)
    return best


def loss_bytes(loss: Loss, options: argparse.Namespace) -> int:
    """Temporaries of the loss and its gradients, without what goes in and comes out."""
    sizes = (options.tokens, options.width), (options.vocabulary, options.width)
    arrays = [jax.ShapeDtypeStruct(size, jnp.float32) for size in sizes]
    labels = jax.ShapeDtypeStruct((options.tokens,), jnp.int32)
    compiled = jax.jit(jax.value_and_grad(loss, (0, 1))).lower(*arrays, labels).compile()
    return int(compiled.memory_analysis().temp_size_in_bytes)


if __name__ == "__main__":
    main()
