"""Krill's model beside nanoGPT's in its Shakespeare-on-a-CPU setting, at equal steps on the same text.

The setting: 4 layers, 4 heads, width 128, rows of 64 characters, 12 of them a step, 2,000 steps, AdamW with
beta2 0.99 and weight decay 0.1, 100 steps of warm-up to 1e-3 and a cosine down to 1e-4, no dropout. The text:
0.9 MB of English, SQuAD's paragraphs each with its questions, ASCII alone, so that a character is a byte (the
Shakespeare of that setting is 1.1 MB and must be downloaded). The peer is that model in PyTorch: GPT-2's
blocks (LayerNorm, GELU, learned positions, tied embeddings). Both see the same batches; the loss is over all
of the last tenth of the text, cut into rows of 64.

    python benchmarks/train_quality.py --steps 2000
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from real_text import SHARED_DATA
from results import again

WIDTH, LAYERS, HEADS, HIDDEN, LENGTH, ROWS = 128, 4, 4, 352, 64, 12
PEAK, FLOOR, WARMUP, BETA2, DECAY = 1e-3, 0.1, 100, 0.99, 0.1
HELD_OUT_ROWS = 64

Ids = np.ndarray[Any, np.dtype[np.int32]]


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--only", choices=MODELS, nargs="*", default=list(MODELS))
    options = parser.parse_args()
    steps = options.steps
    ids, vocabulary = characters()
    print(f"{len(ids):,} characters, {vocabulary} different ones, {steps} steps of {ROWS} x {LENGTH}")
    results = again("train_quality", "torch", "jax")
    for name in options.only:
        parameters, loss = MODELS[name](vocabulary, steps)
        results.add(model=name, parameters=parameters, loss=loss, bits=loss / math.log(2))
    results.save()


@cache
def characters() -> tuple[Ids, int]:
    """The text as numbers of its characters, and how many different ones there are."""
    articles = json.loads((SHARED_DATA / "squad_v2_dev.json").read_text())["data"]
    parts = [part for article in articles for part in article["paragraphs"]]
    lines = [
        line for part in parts for line in (part["context"], *(qa["question"] for qa in part["qas"]), "")
    ]
    text = "\n".join(lines).encode("ascii", "ignore")
    alphabet, ids = np.unique(np.frombuffer(text, np.uint8), return_inverse=True)
    return ids.astype(np.int32), len(alphabet)


def batches(steps: int) -> Iterator[tuple[Ids, Ids]]:
    """Inputs and labels of every step, from the first nine tenths of the text."""
    train = characters()[0][: len(characters()[0]) * 9 // 10]
    for number in range(steps):
        starts = np.random.default_rng(number).integers(0, len(train) - LENGTH - 1, ROWS)
        rows = np.stack([train[at : at + LENGTH + 1] for at in starts])
        yield rows[:, :-1], rows[:, 1:]


def held_out() -> Iterator[tuple[Ids, Ids]]:
    """The last tenth, in batches of rows."""
    rest = characters()[0][len(characters()[0]) * 9 // 10 :]
    count = (len(rest) - 1) // LENGTH // HELD_OUT_ROWS * HELD_OUT_ROWS
    inputs, labels = (rest[at : at + count * LENGTH].reshape(-1, HELD_OUT_ROWS, LENGTH) for at in (0, 1))
    yield from zip(inputs, labels, strict=True)


def rate(step: int, steps: int) -> float:
    """nanoGPT's schedule."""
    if step < WARMUP:
        return PEAK * (step + 1) / (WARMUP + 1)
    part = (step - WARMUP) / (steps - WARMUP)
    return PEAK * (FLOOR + (1 - FLOOR) * 0.5 * (1 + math.cos(math.pi * part)))


def train_krill(vocabulary: int, steps: int) -> tuple[int, float]:
    """Parameters and the loss of the held-out text."""
    import jax
    import jax.numpy as jnp

    from krill.model.sizing import ModelShape, count_parameters
    from krill.training.language_step import LanguageModelStep, MemoryPlan
    from krill.training.loss import summed_loss
    from krill.training.optimizers import cosine, make_optimizer
    from krill.training.step import first_state

    shape = ModelShape(vocabulary, WIDTH, LAYERS, HEADS, HEADS, HIDDEN)
    schedule = cosine(PEAK, steps, warmup=WARMUP, floor=FLOOR)
    optimizer = make_optimizer("adamw", schedule, weight_decay=DECAY, b2=BETA2)
    spec = LanguageModelStep(shape, optimizer, ROWS, LENGTH)
    step = spec.make_step(MemoryPlan(ROWS, LENGTH, ROWS, ROWS * LENGTH))
    state = first_state(spec, 1337)
    for inputs, labels in batches(steps):
        state, _ = step(state, {"input_ids": inputs, "labels": labels})

    @jax.jit
    def loss(model: Any, inputs: jax.Array, labels: jax.Array) -> jax.Array:
        flat = model.hidden(inputs).reshape(labels.size, -1)
        return summed_loss(flat, model.embedding, labels.reshape(-1), jnp.float32(1 / labels.size), 1024)

    found = [float(loss(state.model, *pair)) for pair in held_out()]
    return count_parameters(shape), float(np.mean(found))


def train_torch(vocabulary: int, steps: int) -> tuple[int, float]:
    """The same of the peer."""
    import torch

    torch.manual_seed(1337)
    model = gpt2(vocabulary)
    weights = list(model.parameters())
    optimizer = torch.optim.AdamW(
        [
            {"params": [weight for weight in weights if weight.ndim > 1], "weight_decay": DECAY},
            {"params": [weight for weight in weights if weight.ndim == 1], "weight_decay": 0.0},
        ],
        lr=PEAK,
        betas=(0.9, BETA2),
    )
    for number, (inputs, labels) in enumerate(batches(steps)):
        for group in optimizer.param_groups:
            group["lr"] = rate(number, steps)
        optimizer.zero_grad()
        model(*(torch.from_numpy(part.astype(np.int64)) for part in (inputs, labels))).backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
    with torch.no_grad():
        found = [
            float(model(*(torch.from_numpy(part.astype(np.int64)) for part in pair))) for pair in held_out()
        ]
    return sum(weight.numel() for weight in weights), float(np.mean(found))


def gpt2(vocabulary: int) -> Any:
    """GPT-2's decoder in nanoGPT's sizes: no biases, weights normal with 0.02, residual ones smaller."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList(nn.LayerNorm(WIDTH, bias=False) for _ in range(2))
            self.attend = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
            self.output = nn.Linear(WIDTH, WIDTH, bias=False)
            self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
            self.down = nn.Linear(4 * WIDTH, WIDTH, bias=False)

        def forward(self, states: torch.Tensor) -> torch.Tensor:
            batch, length, _ = states.shape
            parts = self.attend(self.norms[0](states)).split(WIDTH, dim=2)
            heads = (part.view(batch, length, HEADS, -1).transpose(1, 2) for part in parts)
            gathered = F.scaled_dot_product_attention(*heads, is_causal=True)
            states = states + self.output(gathered.transpose(1, 2).reshape(batch, length, WIDTH))
            return states + self.down(F.gelu(self.up(self.norms[1](states))))

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(vocabulary, WIDTH)
            self.positions = nn.Embedding(LENGTH, WIDTH)
            self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
            self.norm = nn.LayerNorm(WIDTH, bias=False)
            for name, weight in self.named_parameters():
                residual = name.endswith(("output.weight", "down.weight"))
                if weight.ndim > 1:
                    nn.init.normal_(weight, std=0.02 / math.sqrt(2 * LAYERS) if residual else 0.02)

        def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            states = self.tokens(inputs) + self.positions(torch.arange(inputs.shape[1]))
            scores = self.norm(self.blocks(states)) @ self.tokens.weight.T
            return F.cross_entropy(scores.flatten(0, 1), labels.flatten())

    return Decoder()


MODELS = {"nanoGPT's architecture, in PyTorch": train_torch, "Krill": train_krill}

if __name__ == "__main__":
    main()
