"""Which microbatch, loss chunk, rematerialisation and compiler fit the budget, and what a step will hold.

In: the model's shape, a batch's rows and length, what the user fixed, and a share of the budget. Out: a
`MemoryPlan`, the first of a fixed list of choices that fits, fastest first; or a `BudgetError` that says what
would. Held in memory: nothing of the step's size, only what XLA takes to compile.

What a step holds is not guessed: it is compiled, and XLA tells how it laid the memory out. An estimate only
picks where to begin, so that a choice or two are compiled and not all of them. Precision and optimizer are
never chosen here. The same shape, batch and budget give the same plan; a checkpoint stores it and a resumed
run uses it as it is, since another choice would round differently.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import jax
import optax

from krill import _native
from krill.budget import RESERVE, format_size
from krill.errors import BudgetError, ConfigError
from krill.model.sizing import ModelShape, count_parameters
from krill.model.transformer import Compute
from krill.training.compiler import FAST, Compiler, lean
from krill.training.mesh import Placement
from krill.training.precision import Precision
from krill.training.step import StepOptions, lower_step, make_step, memory_of

# Of what XLA lays out for a step, what the allocator holds beside it: 0 to 14 %.
_ALLOCATOR_SHARE = 0.12
# One chunk's logits: large enough that the products run at full speed, small beside everything else.
CHUNK_BYTES = 8 * 2**20
_FEWEST_CHUNK_TOKENS = 32
_MOST_CHUNK_TOKENS = 2048
# Below so many tokens a microbatch, keeping less (remat) is cheaper than cutting smaller. Over 4,096 tokens a
# step with 1.4 and 10 million parameters, microbatches of 1,024 took 1.03 and 0.99 times as long as all at
# once, remat 1.01 and 1.06.
_WORTHWHILE_TOKENS = 1024
# The estimate may be this far above the truth: what it calls too large by more is not compiled. And as far
# below it (1.1 to 1.4 times, in five settings of `benchmarks/train_memory.py`): what may be too large is
# compiled on trial.
_ESTIMATE_SLACK = 1.5


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """How a step is cut up, and what it will hold in bytes: plain numbers, for a checkpoint to store."""

    rows: int
    length: int
    microbatch: int
    loss_chunk: int
    remat: bool
    step_bytes: int
    lean: bool = False

    @property
    def compiler(self) -> Compiler:
        """What the step is compiled with, again after a checkpoint."""
        return lean() if self.lean else FAST

    @property
    def accumulation_steps(self) -> int:
        """Microbatches in a batch."""
        return self.rows // self.microbatch

    @property
    def options(self) -> StepOptions:
        """What `make_step` takes."""
        return StepOptions(self.microbatch, self.loss_chunk, Compute(remat=self.remat))

    def to_json(self) -> dict[str, Any]:
        """For a checkpoint and `krill-run.json`."""
        return asdict(self)

    @staticmethod
    def from_json(stored: dict[str, Any]) -> MemoryPlan:
        """What `to_json` gave."""
        return MemoryPlan(**stored)


@dataclass(frozen=True, slots=True)
class Planned:
    """The plan and the step that was compiled to make it: call it as the step itself."""

    plan: MemoryPlan
    compiled: jax.stages.Compiled


def step_share(limit: int, resident: int, compiler: Compiler) -> int:
    """What a budget of `limit` leaves for the step in a process that holds `resident` before compiling."""
    compiling, settled = compiler.step
    if limit < resident + compiling + RESERVE:
        raise BudgetError(
            f"the budget is too small: compiling a step takes {format_size(compiling)} beside the"
            f" program's {format_size(resident)}, given {format_size(limit)}",
            hint=f"--memory {-(-(resident + compiling + RESERVE) // 10**6)}MB is the least for any model",
        )
    return limit - RESERVE - resident - settled


def predicted_peak(resident: int, plan: MemoryPlan) -> int:
    """The process's fullest moment, as the kernel will report it: compiling, or the step."""
    compiling, settled = plan.compiler.step
    return resident + max(compiling, settled + plan.step_bytes)


def pick_compiler(
    shape: ModelShape, *, rows: int, length: int, room: int, microbatch: int | None = None
) -> Compiler:
    """The one that makes the faster step if `room` bytes are enough to compile it and to run it uncut."""
    wanted = microbatch or rows
    options = StepOptions(wanted, min(loss_chunk(shape.vocab_size), wanted * length))
    runs = FAST.step.settled + round(estimate(shape, options, rows, length) * _ESTIMATE_SLACK)
    return FAST if room >= max(FAST.step.compiling, runs) else lean()


def plan_step(
    shape: ModelShape,
    optimizer: optax.GradientTransformation,
    *,
    rows: int,
    length: int,
    budget: int,
    compiler: Compiler = FAST,
    precision: Precision = Precision.FLOAT32,
    microbatch: int | None = None,
    placement: Placement | None = None,
) -> Planned:
    """The fastest choice whose step holds at most `budget` bytes; a given `microbatch` is kept."""
    sizes = _microbatches(rows, microbatch, 1 if placement is None else placement.count)
    choices = list(_choices(shape, sizes, length))
    smallest: int | None = None
    for number, options in enumerate(choices):
        last = number == len(choices) - 1
        estimated = estimate(shape, options, rows, length)
        if not last and estimated > budget * _ESTIMATE_SLACK:
            continue
        planned = compile_plan(
            shape,
            optimizer,
            options,
            compiler,
            rows=rows,
            length=length,
            precision=precision,
            placement=placement,
            doubtful_in=budget if estimated * _ESTIMATE_SLACK > budget else None,
        )
        if planned.plan.step_bytes <= budget:
            return planned
        needed = planned.plan.step_bytes
        smallest = needed if smallest is None else min(smallest, needed)
        # Not beside the next one's compilation.
        del planned
        _native.trim(code=True)
    assert smallest is not None
    raise _too_small(smallest, budget, rows, length)


def compile_plan(
    shape: ModelShape,
    optimizer: optax.GradientTransformation,
    options: StepOptions,
    compiler: Compiler = FAST,
    *,
    rows: int,
    length: int,
    precision: Precision = Precision.FLOAT32,
    placement: Placement | None = None,
    doubtful_in: int | None = None,
) -> Planned:
    """The step with these options, compiled, and what it holds; how a stored plan is taken up again.

    If it is `doubtful_in` so many bytes and does hold more, it is not compiled to run.
    """

    def held_by(compiled: jax.stages.Compiled) -> int:
        return with_allocator(memory_of(compiled) * (1 if placement is None else placement.sharing_memory))

    step = make_step(optimizer, options, precision, placement)
    lowered = lower_step(step, shape, optimizer, precision, rows, length, placement)
    if doubtful_in is None:
        compiled = compiler.compile(lowered)
    else:
        compiled = compiler.compile_if(lambda trial: held_by(trial) <= doubtful_in, lowered)
    # The compiler leaves half of what it took to the allocator: the step needs it. From here on blocks of a
    # chunk's size are used again instead of mapped anew in every chunk.
    _native.trim(code=True)
    _native.configure_malloc(CHUNK_BYTES + 2**20)
    plan = MemoryPlan(
        rows,
        length,
        options.microbatch,
        options.loss_chunk,
        options.compute.remat,
        held_by(compiled),
        lean=compiler is not FAST,
    )
    return Planned(plan, compiled)


def with_allocator(laid_out: int) -> int:
    """What XLA lays out for a step, and what the allocator holds beside it."""
    return laid_out + round(_ALLOCATOR_SHARE * laid_out)


def estimate(shape: ModelShape, options: StepOptions, rows: int, length: int) -> int:
    """Roughly what a step holds, in bytes: where to begin, never what is promised."""
    weights = count_parameters(shape)
    tokens = options.microbatch * length
    # Weights, 32-bit Adam, gradients; accumulated ones beside a microbatch's own.
    held = 16 * weights + (4 * weights if options.microbatch < rows else 0)
    scores = 3 * shape.heads * min(length, options.compute.block_for(length) or length)
    layer = 8 * shape.width + 4 * shape.hidden + scores
    kept = shape.width * shape.layers + layer if options.compute.remat else layer * shape.layers
    logits = 2 * options.loss_chunk * shape.vocab_size + shape.vocab_size * shape.width
    return held + 4 * (tokens * kept + logits)


def _microbatches(rows: int, microbatch: int | None, devices: int) -> list[int]:
    """How many rows may be run at once, most first: what divides the batch and can be spread over devices."""
    if microbatch is None:
        return [size for size in range(rows, 0, -1) if rows % size == 0 and size % devices == 0]
    if microbatch < 1 or rows % microbatch:
        raise ConfigError(
            f"a batch of `{rows}` rows can't be cut into microbatches of `{microbatch}`",
            hint="give a batch size that is a multiple of the gradient accumulation steps",
        )
    if microbatch % devices:
        raise ConfigError(
            f"a microbatch of `{microbatch}` rows can't be spread over `{devices}` devices",
            hint=f"give a batch size that is a multiple of {devices}, or fewer gradient accumulation steps",
        )
    return [microbatch]


def _choices(shape: ModelShape, sizes: list[int], length: int) -> Iterator[StepOptions]:
    """Fastest first: everything kept while microbatches are worthwhile, then remat, then ever less."""
    chunk = loss_chunk(shape.vocab_size)
    kept, recomputed = Compute(), Compute(remat=True)
    for size in sizes:
        if size == sizes[0] or size * length >= _WORTHWHILE_TOKENS:
            yield StepOptions(size, min(chunk, size * length), kept)
    for size in sizes:
        yield StepOptions(size, min(chunk, size * length), recomputed)
    yield StepOptions(sizes[-1], min(_FEWEST_CHUNK_TOKENS, sizes[-1] * length), recomputed)


def loss_chunk(vocab_size: int) -> int:
    """Tokens a chunk: a power of two whose logits take about `CHUNK_BYTES`."""
    tokens = CHUNK_BYTES // (4 * vocab_size)
    rounded = 1 << max(tokens, 1).bit_length() - 1
    return min(max(rounded, _FEWEST_CHUNK_TOKENS), _MOST_CHUNK_TOKENS)


def _too_small(needed: int, budget: int, rows: int, length: int) -> BudgetError:
    short = -(-(needed - budget) // 10**6)
    return BudgetError(
        f"the budget is too small: a step over `{rows}` rows of `{length}` tokens needs at least"
        f" {format_size(needed)}, {format_size(budget)} of the budget are left for it",
        hint=f"give {short}MB more --memory; or a smaller --target-params, --vocab-size or --seq-len,"
        " or `train.optimizer: adamw8bit`",
    )
