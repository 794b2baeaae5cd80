"""8-bit AdamW beside the 32-bit one: final loss, bytes of state, seconds a step.

Both train the same small model on the same real text, with the same batches in the same order, in turns of
some steps in one process. The text is bytes of Python's library, or with `--vocab-size` the tokens of a
tokenizer that is trained on the sample. The final loss is over held-out text; the state is all of it. A seed
decides the first weights and the batches: from one to the next the difference of the two losses varies as
much as it is large, so several are averaged.

    python benchmarks/optimizer8bit.py --steps 1000 --seeds 0 1 2
    python benchmarks/optimizer8bit.py --steps 1000 --seeds 0 1 2 --vocab-size 10000 --rows 4
"""

from __future__ import annotations

import argparse
import inspect
import time
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from krill import tokenizer
from krill.model.sizing import ModelShape, count_parameters, find_shape
from krill.model.transformer import Transformer
from krill.training.language_step import LanguageModelStep, MemoryPlan
from krill.training.loss import count_labels, summed_loss
from krill.training.optimizers import OPTIMIZERS, cosine, make_optimizer
from krill.training.step import first_state
from real_text import real_texts
from results import again

# Real text that is on every machine: the sources of some modules of Python.
MODULES = ("argparse", "typing", "inspect", "subprocess", "tarfile", "pickle", "difflib", "logging", "ast")
SHAPE = ModelShape(vocab_size=256, width=96, layers=4, heads=3, kv_heads=3, hidden=256)
LENGTH = 128
TURN = 50
HELD_OUT_ROWS = 2000

Ids = np.ndarray[Any, Any]


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
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--vocab-size", type=int, help="tokens instead of bytes")
    parser.add_argument("--target-params", type=int, default=1_000_000, help="of the model, with tokens")
    options = parser.parse_args()
    shape = find_shape(options.target_params, options.vocab_size) if options.vocab_size else SHAPE
    data = tokens(options.vocab_size) if options.vocab_size else library_bytes()
    train, held_out = np.split(data, [len(data) * 9 // 10])
    print(f"{count_parameters(shape):,} parameters, {options.steps} steps of {options.rows} x {LENGTH}")
    results = again("optimizer8bit", "jax")
    losses: list[list[float]] = []
    times: list[float] = []
    for seed in options.seeds:
        runs = [start(name, shape, options.steps, options.rows, seed) for name in OPTIMIZERS]
        for first in range(0, options.steps, TURN):
            for run in runs:
                take_turn(run, train, options.rows, range(first, min(first + TURN, options.steps)))
        losses.append([evaluate(run.state.model, held_out) for run in runs])
        times.append(runs[1].seconds / runs[0].seconds)
        for run, loss in zip(runs, losses[-1], strict=True):
            held = sum(leaf.nbytes for leaf in jax.tree.leaves(run.state.optimizer))
            row = {"parameters": count_parameters(shape), "seed": seed, "optimizer": run.name, "loss": loss}
            if run is not runs[0]:
                row |= {"difference": 100 * (loss / losses[-1][0] - 1), "times": times[-1]}
            bytes_each, milliseconds = held / count_parameters(shape), run.seconds * 1e3
            results.add(**row, bytes_of_state_a_parameter=bytes_each, milliseconds_a_step=milliseconds)
    results.save()
    plain, coded = np.mean(losses, axis=0)
    print(f"loss {coded / plain - 1:+.2%} on average, time {min(times):.2f}x")


def library_bytes() -> Ids:
    """Bytes of Python's library."""
    sources = "".join(inspect.getsource(import_module(name)) for name in MODULES).encode()
    return np.frombuffer(sources, np.uint8).astype(np.int32)


def tokens(vocab_size: int) -> Ids:
    """The sample's documents, by a tokenizer that is trained on them."""
    with TemporaryDirectory() as folder:
        text = Path(folder, "text.txt")
        text.write_text("\n<|endoftext|>\n".join(real_texts()), encoding="utf-8")
        tokenizer.train([str(text)], vocab_size=vocab_size, output=f"{folder}/tokenizer")
        loaded = tokenizer.load(f"{folder}/tokenizer")
        return np.concatenate([np.asarray(ids, np.int32) for ids in loaded.encode_batch(list(real_texts()))])


def start(name: str, shape: ModelShape, steps: int, rows: int, seed: int) -> Run:
    """Fresh weights, the same for both."""
    optimizer = make_optimizer(name, cosine(2e-3, steps))
    spec = LanguageModelStep(shape, optimizer, rows, LENGTH)
    step = spec.make_step(MemoryPlan(rows, LENGTH, rows, rows * LENGTH))
    return Run(name, seed, optimizer, step, first_state(spec, seed))


def take_turn(run: Run, train: Ids, count: int, numbers: range) -> None:
    """Some steps; the best of them is what a step takes."""
    for number in numbers:
        starts = np.random.default_rng((run.seed, number)).integers(0, len(train) - LENGTH - 1, count)
        rows = np.stack([train[at : at + LENGTH + 1] for at in starts])
        begun = time.perf_counter()
        run.state, metrics = run.step(run.state, {"input_ids": rows[:, :-1], "labels": rows[:, 1:]})
        jax.block_until_ready(metrics)
        run.seconds = min(run.seconds, time.perf_counter() - begun)


def evaluate(model: Transformer, held_out: Ids) -> float:
    """The mean loss of what was held out."""

    @jax.jit
    def loss(model: Transformer, rows: jax.Array) -> tuple[jax.Array, jax.Array]:
        states = model.hidden(rows[:, :-1])
        labels = rows[:, 1:].reshape(-1)
        flat = states.reshape(labels.size, -1)
        return summed_loss(flat, model.embedding, labels, jnp.float32(1), 1024), count_labels(labels)

    whole = min(len(held_out) // (LENGTH + 1), HELD_OUT_ROWS) // 64 * 64
    rows = held_out[: whole * (LENGTH + 1)].reshape(-1, 64, LENGTH + 1)
    sums = [loss(model, jnp.asarray(piece)) for piece in rows]
    return float(sum(total for total, _ in sums) / sum(count for _, count in sums))


if __name__ == "__main__":
    main()
