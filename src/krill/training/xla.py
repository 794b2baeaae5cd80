"""JAX made ready: no more threads than were asked for, room for what it maps and holds, usable settings.

In: a budget and threads; the shape of a model that is only run. Out: JAX imported and started within them;
the needs of `krill evaluate` and `krill generate`, before anything is compiled or read. Nothing is held.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol, TypeVar

from krill.budget import Kind, Meter, Need, Plan, format_size
from krill.budget.machine import require_address_space
from krill.budget.process import metered_process
from krill.errors import BudgetError, ConfigError, KrillError
from krill.faults import first_line, refused_resources
from krill.model import require_train_extra
from krill.model.sizing import ModelShape, count_parameters

# What JAX, its compiler and its threads map beside the arrays: 1.2 GB were enough for a small training, and
# with less the process is ended by a signal, in the compiler or in a thread that can't start.
MAPPED: Final = 1_500_000_000
# The same for private memory, of which 200 MB were too little.
PRIVATE: Final = 400_000_000
# Importing JAX and starting its backend adds 150 to 165 MB where its libraries are in the page cache; this is
# less, so that nothing is refused here that would fit.
LOADED: Final = 140_000_000
# The least that any program takes while it compiles: `compiler.py` has the figures.
COMPILING: Final = 105_000_000
# Enough to prepare, train, score and run the smallest models with any tokenizer.
_SMALL_MODEL: Final = 600_000_000
# The stage of the plan after compiling and reading.
RUNNING: Final = "run"


# Settings under which programs can't be compiled beforehand, or hold other numbers than those planned for.
_UNUSABLE: Final = {"jax_enable_x64": "JAX_ENABLE_X64", "jax_disable_jit": "JAX_DISABLE_JIT"}


class CompiledProgram(Protocol):
    held_bytes: int


Program = TypeVar("Program", bound=CompiledProgram)


def bound_xla(threads: int, meter: Meter) -> None:
    """Import JAX, which reads its settings when it first touches its devices.

    A budget that JAX alone does not fit in is refused here, while the process is still small; from here on
    nothing goes beyond the budget.
    """
    require_address_space(MAPPED, PRIVATE, meter.limit)
    os.environ["NPROC"] = str(threads)
    if "jax" not in sys.modules:  # else it is a part of what is held
        _plan_loading(meter)
    with _environment_errors():
        import jax
    for setting, variable in _UNUSABLE.items():
        if getattr(jax.config, setting, False):
            raise ConfigError(
                f"JAX is set to `{setting}`, with which Krill does not compute",
                hint=f"unset {variable}, or call jax.config.update('{setting}', False) before",
            )


def start_backend() -> None:
    """Before the plan measures what the process holds."""
    import jax

    with _environment_errors():
        jax.devices()


def _plan_loading(meter: Meter) -> None:
    loading = Need("JAX", LOADED, Kind.WATCHED)
    try:
        meter.plan([loading, Need("compiling", COMPILING, Kind.WATCHED, during="compile")])
    except BudgetError as refusal:
        small = f"--memory {_SMALL_MODEL // 10**6}MB would do for a small model"
        raise BudgetError(
            refusal.message, hint=f"{small}; with {format_size(meter.limit)} not even JAX can be loaded"
        ) from None


@contextmanager
def _environment_errors() -> Iterator[None]:
    """What JAX raises for environment variables that it can't use, with their names."""
    try:
        yield
    except KrillError:
        raise
    except Exception as error:
        given = sorted(name for name in os.environ if name.startswith(("JAX_", "XLA_")))
        if not given or isinstance(error, ImportError) or refused_resources(error) is not None:
            raise
        raise ConfigError(
            f"JAX does not start with these environment variables: {first_line(error)}",
            hint=f"unset or correct {', '.join(given[:5])}; JAX_PLATFORMS=cpu always works",
        ) from error


@contextmanager
def inference_process(what: str, memory: str | int, threads: int | str, floor: int) -> Iterator[Meter]:
    """A process that runs a model within a budget, with JAX imported.

    Refused where the extra `train` is missing, which `what` needs; `floor` is what the process held before.
    """
    require_train_extra(what)
    with metered_process(memory, threads, floor=floor) as meter:
        bound_xla(meter.threads, meter)
        yield meter


def inference_needs(shape: ModelShape) -> list[Need]:
    """Compiling, then reading the weights; what running takes, the compiled program tells."""
    from krill.training.compiler import low_memory_compiler  # imports JAX

    compiling, settled = low_memory_compiler().run
    stack = 4 * max(shape.vocab_size * shape.width, shape.layers * shape.width * shape.hidden)
    return [
        Need("JAX", settled, Kind.WATCHED),
        Need("compiling", compiling - settled, Kind.WATCHED, during="compile"),
        Need("reading the weights", 4 * count_parameters(shape) + stack, during="read"),
    ]


def running_need(held_bytes: int, *, remedy: str = "") -> Need:
    """What a compiled program holds, its weights included."""
    return Need("weights, and what is computed", held_bytes, during=RUNNING, remedy=remedy)


def plan_inference(
    meter: Meter, shape: ModelShape, reading: Sequence[Need], compile_program: Callable[[], Program]
) -> tuple[Program, Plan]:
    """The program that runs the model, and the plan with what it holds; refused before it is compiled.

    `reading` is what the data needs.
    """
    start_backend()
    base, needs = meter.used, [*inference_needs(shape), *reading]
    meter.plan(needs, base)
    program = compile_program()
    return program, meter.plan([*needs, running_need(program.held_bytes)], base)


def measured_budget(plan: Plan, meter: Meter) -> dict[str, Any]:
    return {**plan.to_json(), "measured_peak": meter.peak}
