"""What the plan says a training process will hold, beside what it held: ten configurations.

Each is a process of its own that does what a training run does: the allocator is configured, JAX imported,
the step planned for a budget and compiled, the first state made, and some steps taken. The prediction is made
before the first step; the measurement is the kernel's `VmHWM` at the end.

    python benchmarks/train_memory.py
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from measured import run_measured
from results import Results, again


@dataclass(frozen=True)
class Setting:
    """A run: the model's size, its batch, how it is trained, and the budget in MB."""

    parameters: int
    vocabulary: int
    length: int
    rows: int
    budget: int
    optimizer: str = "adamw"
    precision: str = "fp32"
    microbatch: int | None = None
    steps: int = 20


SETTINGS = (
    Setting(300_000, 256, 64, 64, 1000),
    Setting(300_000, 256, 1024, 4, 1000),
    Setting(1_400_000, 10_000, 128, 32, 2000),
    Setting(1_400_000, 10_000, 128, 32, 400),
    Setting(1_400_000, 10_000, 128, 32, 2000, precision="bf16", steps=5),
    Setting(5_000_000, 4_096, 256, 16, 2000, optimizer="adamw8bit", steps=5),
    Setting(5_000_000, 4_096, 256, 16, 600, optimizer="adamw8bit", microbatch=4, steps=5),
    Setting(10_000_000, 32_000, 256, 8, 2000, steps=5),
    Setting(10_000_000, 32_000, 512, 4, 1000, precision="bf16", steps=3),
    Setting(30_000_000, 32_000, 128, 8, 2000, optimizer="adamw8bit", microbatch=2, steps=3),
)


def main() -> None:
    """The table and the largest error; or, as the child, one setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", type=int, nargs="*", help="numbers of settings, from 0")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        train(Setting(**json.loads(options.child)))
        return
    results = again("train_memory", "jax")
    errors = [
        measure(setting, results)
        for number, setting in enumerate(SETTINGS)
        if options.only is None or number in options.only
    ]
    results.save()
    print(f"predicted / measured from {min(errors):.2f} to {max(errors):.2f}")


def measure(setting: Setting, results: Results) -> float:
    """Predicted over measured, of one setting."""
    plan, peak = run_setting(setting)
    ratio = float(plan["predicted"]) / peak
    results.add(
        parameters=f"{setting.parameters / 1e6:.1f}M",
        vocabulary=setting.vocabulary,
        batch=f"{setting.rows} x {setting.length}",
        budget=setting.budget,
        optimizer=setting.optimizer,
        precision=setting.precision,
        microbatch=plan["microbatch"],
        predicted=plan["predicted"] / 1e6,
        measured=peak / 1e6,
        ratio=ratio,
        remat=plan["remat"],
        compiler="lean" if plan["lean"] else "fast",
    )
    return ratio


def run_setting(setting: Setting) -> tuple[dict[str, Any], int]:
    """The plan with its prediction, and the peak in bytes."""
    child = [sys.executable, str(Path(__file__)), "--child", json.dumps(asdict(setting))]
    outcome = run_measured(child, timeout=900)
    if outcome.code:
        raise RuntimeError(outcome.err)
    return outcome.result, outcome.peak


def train(setting: Setting) -> None:
    """What a run does, as far as memory goes; prints the plan and its prediction."""
    from krill import _native

    _native.configure_malloc()

    import jax
    import numpy as np

    from krill.model.sizing import find_shape
    from krill.training.language_step import LanguageModelStep
    from krill.training.memory_plan import plan_step, predicted_peak, step_share
    from krill.training.optimizers import make_optimizer
    from krill.training.precision import Precision
    from krill.training.step import first_state

    jax.devices()
    resident = _native.resident_bytes()
    shape = find_shape(setting.parameters, setting.vocabulary)
    optimizer = make_optimizer(setting.optimizer, lambda step: jax.numpy.float32(1e-3))
    precision = Precision(setting.precision)
    limit = setting.budget * 10**6
    step = LanguageModelStep(
        shape, optimizer, setting.rows, setting.length, precision, microbatch=setting.microbatch
    )
    compiler = step.pick_compiler(limit - resident)
    planned = plan_step(step, budget=step_share(limit, resident, compiler), compiler=compiler)
    state = first_state(step, 0)
    rng = np.random.default_rng(0)
    positions = np.tile(np.arange(setting.length, dtype=np.int32), (setting.rows, 1))
    for _ in range(setting.steps):
        ids = rng.integers(0, setting.vocabulary, (setting.rows, setting.length + 1), dtype=np.int32)
        columns = {"input_ids": ids[:, :-1], "labels": ids[:, 1:]}
        state, metrics = planned.compiled(
            state, {**columns, "segment_ids": np.ones_like(positions), "position_ids": positions}
        )
        jax.block_until_ready(metrics)
    predicted = predicted_peak(resident, planned.plan)
    print(json.dumps({**asdict(planned.plan), "resident": resident, "predicted": predicted}))


if __name__ == "__main__":
    main()
