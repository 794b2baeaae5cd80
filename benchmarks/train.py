"""Krill's training step beside PyTorch's: tokens a second and the peak of the process.

The same model for both (rotary positions, RMSNorm, SwiGLU, tied embeddings, 1.4 million parameters, a
vocabulary of 10,000), the same batch (32 x 128), AdamW with clipping, two threads. PyTorch runs as it is
(eager, its own fused attention, cross-entropy and AdamW) and compiled. Each is a process of its own, in turn;
the first steps, and so compilation, are not timed. A peak is `VmHWM` of all of it.

    python benchmarks/train.py --rounds 3
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from measured import run_measured
from results import again

VOCABULARY, WIDTH, LAYERS, HEADS, HIDDEN = 10_000, 96, 4, 3, 256
ROWS, LENGTH = 32, 128
THREADS = 2
BUDGET = 10**9


def main() -> None:
    """The table, and Krill's ratios to the others; or, as the child, the steps of one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10, help="timed, of each in each round")
    parser.add_argument("--only", choices=PROGRAMS, nargs="*", default=list(PROGRAMS))
    parser.add_argument("--child", choices=PROGRAMS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps({"step": median_step(PROGRAMS[options.child](), options.seconds)}))
        return
    steps = dict.fromkeys(options.only, float("inf"))
    peaks = dict.fromkeys(options.only, 0)
    for _ in range(options.rounds):
        for name in options.only:
            command = [
                sys.executable,
                str(Path(__file__)),
                "--child",
                name,
                "--seconds",
                str(options.seconds),
            ]
            outcome = run_measured(command, timeout=600)
            if outcome.code:
                raise SystemExit(outcome.err)
            steps[name] = min(steps[name], outcome.result["step"])
            peaks[name] = max(peaks[name], outcome.peak)
    results = again("train", "torch", "jax")
    for name in options.only:
        row = {"program": name, "rate": ROWS * LENGTH / steps[name], "peak": peaks[name] / 1e6}
        if name != "Krill" and "Krill" in steps:
            row |= {"faster": steps[name] / steps["Krill"], "peak_beside": peaks["Krill"] / peaks[name]}
        results.add(**row)
    results.save()


def median_step(step: Callable[[], None], seconds: float) -> float:
    """The median of the steps that fit into the time, after two that don't count."""
    for _ in range(2):
        step()
    taken: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        begun = time.perf_counter()
        step()
        taken.append(time.perf_counter() - begun)
    return float(np.median(taken))


def batch() -> np.ndarray[Any, Any]:
    """Rows of tokens, one more than is trained on."""
    return np.random.default_rng(0).integers(0, VOCABULARY, (ROWS, LENGTH + 1))


def krill_step() -> Callable[[], None]:
    """As `krill train` has it: planned for a budget, malloc configured."""
    from krill import _native

    _native.configure_malloc()

    import jax

    from krill.model.sizing import ModelShape
    from krill.training.compiler import FAST
    from krill.training.language_step import LanguageModelStep
    from krill.training.memory_plan import plan_step, step_share
    from krill.training.optimizers import cosine, make_optimizer
    from krill.training.step import first_state

    shape = ModelShape(VOCABULARY, WIDTH, LAYERS, HEADS, HEADS, HIDDEN)
    optimizer = make_optimizer("adamw", cosine(1e-3, 1000))
    share = step_share(BUDGET, _native.resident_bytes(), FAST)
    step = LanguageModelStep(shape, optimizer, ROWS, LENGTH)
    planned = plan_step(step, budget=share)
    state = first_state(step, 0)
    ids = batch().astype(np.int32)
    positions = np.tile(np.arange(LENGTH, dtype=np.int32), (ROWS, 1))
    columns = {"input_ids": ids[:, :-1], "labels": ids[:, 1:]}
    columns |= {"segment_ids": np.ones_like(positions), "position_ids": positions}

    def step() -> None:
        nonlocal state
        state, metrics = planned.compiled(state, columns)
        jax.block_until_ready(metrics)

    return step


def torch_step(compiled: bool = False) -> Callable[[], None]:
    """Eager, or through `torch.compile`."""
    import torch

    torch.set_num_threads(THREADS)
    model = decoder()
    run = torch.compile(model) if compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), fused=True)
    ids = torch.from_numpy(batch())

    def step() -> None:
        loss = run(ids[:, :-1], ids[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()

    return step


def decoder() -> Any:
    """The same model in PyTorch, with one product for queries, keys and values, and one for gate and up."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    size = WIDTH // HEADS

    def rotate(part: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        first, second = part.chunk(2, dim=-1)
        cosines, sines = turn
        return torch.cat((first * cosines - second * sines, second * cosines + first * sines), dim=-1)

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList(nn.RMSNorm(WIDTH, eps=1e-5) for _ in range(2))
            self.attend = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
            self.output = nn.Linear(WIDTH, WIDTH, bias=False)
            self.gate_up = nn.Linear(WIDTH, 2 * HIDDEN, bias=False)
            self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

        def forward(self, states: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
            batch, length, _ = states.shape
            parts = self.attend(self.norms[0](states)).split(WIDTH, dim=-1)
            query, key, value = (part.view(batch, length, HEADS, size).transpose(1, 2) for part in parts)
            gathered = F.scaled_dot_product_attention(
                rotate(query, turn), rotate(key, turn), value, is_causal=True
            )
            states = states + self.output(gathered.transpose(1, 2).reshape(batch, length, WIDTH))
            gate, up = self.gate_up(self.norms[1](states)).chunk(2, dim=-1)
            return states + self.down(F.silu(gate) * up)

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(VOCABULARY, WIDTH)
            nn.init.normal_(self.tokens.weight, std=0.02)
            self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
            self.norm = nn.RMSNorm(WIDTH, eps=1e-5)
            frequencies = 10_000.0 ** (-torch.arange(0, size, 2).float() / size)
            angles = torch.arange(LENGTH)[:, None] * frequencies
            self.register_buffer("cosines", angles.cos())
            self.register_buffer("sines", angles.sin())

        def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            states = self.tokens(inputs)
            for block in self.blocks:
                states = block(states, (self.cosines, self.sines))
            scores = self.norm(states) @ self.tokens.weight.T
            return F.cross_entropy(scores.view(-1, VOCABULARY), labels.reshape(-1))

    return Decoder()


PROGRAMS: dict[str, Callable[[], Callable[[], None]]] = {
    "Krill": krill_step,
    "PyTorch": torch_step,
    "PyTorch compiled": lambda: torch_step(compiled=True),
}

if __name__ == "__main__":
    main()
