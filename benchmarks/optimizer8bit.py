"""8-bit AdamW beside the 32-bit one: final loss, bytes of state, seconds a step.

Both train the same small model on the same real text, byte by byte, with the same batches in the same order,
in turns of some steps in one process. The final loss is over held-out text. State is counted outside
embeddings and tensors under 4,096 elements, which both keep in 32 bits. A seed decides the first weights and
the batches: from one to the next the difference of the two losses varies as much as it is large, so several
are averaged.

    python benchmarks/optimizer8bit.py --steps 1000 --seeds 0 1 2
"""

from __future__ import annotations

import argparse
import inspect
import time
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from krill.model.sizing import ModelShape, count_parameters
from krill.model.transformer import Compute, Transformer
from krill.training.loss import count_labels, summed_loss
from krill.training.optimizer8bit import stays_32bit
from krill.training.optimizers import OPTIMIZERS, make_optimizer
from krill.training.precision import Precision
from krill.training.schedule import cosine
from krill.training.step import StepOptions, first_state, make_step

# Real text that is on every machine: the sources of some modules of Python.
MODULES = ("argparse", "typing", "inspect", "subprocess", "tarfile", "pickle", "difflib", "logging", "ast")
SHAPE = ModelShape(vocab_size=256, width=96, layers=4, heads=3, kv_heads=3, hidden=256)
ROWS, LENGTH = 8, 128
TURN = 50


@dataclass
class Run:
    """One optimizer's training so far."""

    name: str
    seed: int
    optimizer: optax.GradientTransformation
    step: Any
    state: Any
    seconds: float = float("inf")


def main() -> None:
    """The table and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options = parser.parse_args()
    train, held_out = text()
    print(f"{count_parameters(SHAPE):,} parameters, {options.steps} steps of {ROWS} x {LENGTH} bytes")
    print("| seed | optimizer | loss | bytes of state a parameter | ms a step |\n" + "| --- " * 5 + "|")
    losses: list[list[float]] = []
    times: list[float] = []
    for seed in options.seeds:
        runs = [start(name, options.steps, seed) for name in OPTIMIZERS]
        for first in range(0, options.steps, TURN):
            for run in runs:
                take_turn(run, train, range(first, min(first + TURN, options.steps)))
        losses.append([evaluate(run.state.model, held_out) for run in runs])
        times.append(runs[1].seconds / runs[0].seconds)
        for run, loss in zip(runs, losses[-1], strict=True):
            row = f"{loss:.4f} | {state_bytes(run):.2f} | {run.seconds * 1e3:.0f}"
            print(f"| {seed} | {run.name} | {row} |", flush=True)
    plain, coded = np.mean(losses, axis=0)
    print(f"loss {coded / plain - 1:+.2%} on average, time {min(times):.2f}x")


def text() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Bytes to train on and bytes held out."""
    sources = "".join(inspect.getsource(import_module(name)) for name in MODULES).encode()
    data = np.frombuffer(sources, np.uint8).astype(np.int32)
    border = len(data) * 9 // 10
    return data[:border], data[border:]


def start(name: str, steps: int, seed: int) -> Run:
    """Fresh weights, the same for both."""
    optimizer = make_optimizer(name, cosine(2e-3, steps))
    step = make_step(optimizer, StepOptions(ROWS, ROWS * LENGTH, Compute()))
    return Run(name, seed, optimizer, step, first_state(SHAPE, optimizer, Precision.FLOAT32, seed))


def take_turn(run: Run, train: np.ndarray[Any, Any], numbers: range) -> None:
    """Some steps; the best of them is what a step takes."""
    for number in numbers:
        starts = np.random.default_rng((run.seed, number)).integers(0, len(train) - LENGTH - 1, ROWS)
        rows = np.stack([train[at : at + LENGTH + 1] for at in starts])
        begun = time.perf_counter()
        run.state, metrics = run.step(run.state, {"input_ids": rows[:, :-1], "labels": rows[:, 1:]})
        jax.block_until_ready(metrics)
        run.seconds = min(run.seconds, time.perf_counter() - begun)


def evaluate(model: Transformer, held_out: np.ndarray[Any, Any]) -> float:
    """The mean loss of the bytes that were held out."""

    @jax.jit
    def loss(model: Transformer, rows: jax.Array) -> tuple[jax.Array, jax.Array]:
        states = model.hidden(rows[:, :-1])
        labels = rows[:, 1:].reshape(-1)
        flat = states.reshape(labels.size, -1)
        return summed_loss(flat, model.embedding, labels, jnp.float32(1), 1024), count_labels(labels)

    rows = held_out[: len(held_out) // (LENGTH + 1) // 64 * 64 * (LENGTH + 1)].reshape(-1, 64, LENGTH + 1)
    sums = [loss(model, jnp.asarray(piece)) for piece in rows]
    return float(sum(total for total, _ in sums) / sum(count for _, count in sums))


def state_bytes(run: Run) -> float:
    """Bytes a parameter of the moments, outside what stays in 32 bits."""
    weights = jax.tree_util.tree_flatten_with_path(run.state.model)[0]
    counted = [number for number, (path, leaf) in enumerate(weights) if not stays_32bit(path, leaf)]
    parameters = sum(weights[number][1].size for number in counted)
    moments = run.state.optimizer[1]
    tree: Any = jax.tree.structure(run.state.model)
    held = 0
    for part in moments[1:]:
        leaves = tree.flatten_up_to(part)
        held += sum(leaf.nbytes for number in counted for leaf in jax.tree.leaves(leaves[number]))
    return held / parameters


if __name__ == "__main__":
    main()
