"""The loop: batch after batch through the compiled step; between steps logging, evaluation, checkpoints.

In: a state and its progress, data, a compiled step. Out: the state after the last step, and its progress.
Held in memory: the state, the batch in use and the one that is made while a step runs, and the figures of the
steps since the last line, which are fetched only then.

What a step computes never depends on what is logged or saved, nor on how often the run was interrupted: a
checkpoint holds everything that the next step needs, including the sums of the line that is not written yet.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from types import FrameType
from typing import Any, Final, Self

import jax

from krill import _native
from krill.budget import format_size, resident_bytes
from krill.errors import InputError, Interrupted
from krill.threads.progress import Progress
from krill.training.checkpoints import CheckpointStore
from krill.training.data import Batch, BatchSource
from krill.training.metrics import MetricsFile, StepWindow
from krill.training.optimizers import Schedule
from krill.training.step import Metrics, Step, TrainState

_INTERRUPTS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Consecutive steps that overflow in float16 with the loss scale halved each time: then it is not the scale.
MOST_SKIPPED: Final = 64
# How long to wait until a step's memory is freed, and how much of it may stay: allocators keep some.
RELEASE_SECONDS: Final = 2.0
KEPT_PART: Final = 4
KEPT_BYTES: Final = 64 * 10**6
# Steps whose figures are not fetched yet: a loss of NaN is noticed at most this late.
MOST_PENDING: Final = 32

Evaluate = Callable[[Any], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class StepUnits:
    """What a step processes, for progress and rates; `text_bytes` counts the text of a batch's labels."""

    stage: str
    unit: str
    per_step: int
    text_bytes: Callable[[Batch], float] = lambda _: 0.0


# What is logged of an evaluation besides its loss.
_EVALUATION_FORMATS: Final = {
    "bits_per_byte": "{:.3f} bits per byte",
    "exact": "exact {:.2f} %",
    "f1": "F1 {:.2f} %",
}


@dataclass(slots=True)
class TrainProgress:
    """How far a run has come, as plain numbers for a checkpoint."""

    step: int = 0
    seconds: float = 0.0
    window: StepWindow = field(default_factory=StepWindow)
    last_line: dict[str, Any] = field(default_factory=dict)
    evaluation: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> TrainProgress:
        return TrainProgress(**{**stored, "window": StepWindow(**stored["window"])})


@dataclass(frozen=True, slots=True)
class Intervals:
    """The steps of a run, and how many are between lines of progress, checkpoints and evaluations."""

    steps: int
    log_every: int
    save_every: int
    evaluate_every: int


@dataclass(slots=True)
class Loop:
    """One run. `stored` goes into every checkpoint as it is.

    A step holds `temporary` bytes besides the state; `tight` where the budget has no room for them twice.
    """

    step: Step
    data: BatchSource
    store: CheckpointStore
    metrics: MetricsFile
    progress: Progress
    units: StepUnits
    intervals: Intervals
    temporary: int
    tight: bool
    schedule: Schedule
    evaluate: Evaluate | None
    stored: Mapping[str, Any]
    _pending: list[tuple[int, Metrics, float]] = field(default_factory=list, init=False)
    _since: float = field(default=0.0, init=False)
    _line_since: tuple[int, float] = field(default=(0, 0.0), init=False)
    _skipped_in_a_row: int = field(default=0, init=False)
    _held_before: int = field(default=0, init=False)

    def run(self, state: TrainState, trained: TrainProgress) -> tuple[TrainState, TrainProgress]:
        """From where `trained` is to the last step; `Interrupted` after saving if a signal asked for it."""
        steps = self.intervals.steps
        self.progress.begin(self.units.stage, (steps - trained.step) * self.units.per_step)
        self._since = time.monotonic()
        self._line_since = trained.step, trained.seconds
        self._held_before = resident_bytes()
        with StopRequest() as stop:
            batches = self.data.batches()
            while trained.step < steps and not stop.asked:
                state = self._take_step(state, trained, batches)
                self.progress.advance(self.units.per_step)
                self._between_steps(state, trained)
            if trained.step < steps:
                raise self._interrupted(state, trained)
        self.progress.end(self.units.stage)
        return state, trained

    def _take_step(self, state: TrainState, trained: TrainProgress, batches: Iterator[Batch]) -> TrainState:
        batch = next(batches)  # while the step before runs
        predicted = self.units.text_bytes(batch)
        if self._pending:
            # One step at a time: a second one under way would hold its activations beside the first's.
            self._pending[-1][1].loss.block_until_ready()
            if self.tight:
                self._wait_for_room()
        state, metrics = self.step(state, batch)
        trained.step += 1
        self._pending.append((trained.step, metrics, predicted))
        return state

    def _between_steps(self, state: TrainState, trained: TrainProgress) -> None:
        intervals = self.intervals
        last = trained.step == intervals.steps
        logs, saves = last or _due(trained, intervals.log_every), last or _due(trained, intervals.save_every)
        evaluates = self.evaluate is not None and (last or _due(trained, intervals.evaluate_every))
        if not (logs or saves or evaluates):
            if len(self._pending) >= MOST_PENDING:
                self._drain(trained)
            return
        self._drain(trained)
        if logs:
            self._write_line(trained)
        if saves or evaluates:
            self._wait_for_room()
        metric = self._write_evaluation(state, trained) if evaluates else None
        if saves:
            self._save(state, trained, metric)
        self._since = time.monotonic()

    def _wait_for_room(self) -> None:
        """Until the step's memory is freed: evaluation and saving are planned without it, and what
        the allocator keeps of every step adds up, 80 MB in three steps of 500 MB.

        JAX returns a step's results before it frees what the step held: up to half a second before on
        a busy machine, for 600 MB.
        """
        enough = self._held_before + max(KEPT_BYTES, self.temporary // KEPT_PART)
        deadline = time.monotonic() + RELEASE_SECONDS
        while resident_bytes() > enough and time.monotonic() < deadline:
            time.sleep(0.005)
        _native.trim()

    def _drain(self, trained: TrainProgress) -> None:
        """Fetch the figures of the pending steps; raises if a loss is not finite."""
        for step, metrics, text_bytes in self._pending:
            loss, norm, tokens, skipped = jax.device_get(metrics)
            self._skipped_in_a_row = self._skipped_in_a_row + 1 if skipped else 0
            if self._skipped_in_a_row > MOST_SKIPPED or not (skipped or math.isfinite(loss)):
                raise self._diverged(step, float(loss))
            trained.window.add(float(loss), float(norm), int(tokens), text_bytes, skipped=bool(skipped))
        self._pending.clear()
        now = time.monotonic()
        trained.seconds += now - self._since
        self._since = now

    def _write_line(self, trained: TrainProgress) -> None:
        window = trained.window
        before, seconds_before = self._line_since
        seconds = trained.seconds - seconds_before
        units = self.units
        rate = round((trained.step - before) * units.per_step / seconds, 1) if seconds else None
        held = resident_bytes()
        figures = {
            **window.line(),
            "learning_rate": float(self.schedule(trained.step - 1)),
            units.unit: trained.step * units.per_step,
            f"{units.unit}_per_second": rate,
            "memory": held,
        }
        self.metrics.write(trained.step, "train", figures)
        bits = "" if window.bits_per_byte is None else f" ({window.bits_per_byte:.3f} bits per byte)"
        loss = "skipped" if window.loss is None else f"loss {window.loss:.4f}{bits}"
        self.progress.note(
            f"step {trained.step:,} of {self.intervals.steps:,}: {loss}, {rate or 0:,.0f} {units.unit}/s,"
            f" memory {format_size(held)}"
        )
        trained.last_line = {name: figures[name] for name in ("loss", "bits_per_byte")}
        trained.window = StepWindow()
        self._line_since = trained.step, trained.seconds

    def _write_evaluation(self, state: TrainState, trained: TrainProgress) -> float:
        assert self.evaluate is not None
        trained.evaluation = self.evaluate(state.model)
        self.metrics.write(trained.step, "validation", trained.evaluation)
        figures = ", ".join(
            form.format(trained.evaluation[name])
            for name, form in _EVALUATION_FORMATS.items()
            if trained.evaluation.get(name) is not None
        )
        loss = float(trained.evaluation["loss"])
        self.progress.note(
            f"step {trained.step:,}: validation loss {loss:.4f}{f' ({figures})' if figures else ''}"
        )
        return loss

    def _save(self, state: TrainState, trained: TrainProgress, metric: float | None) -> bool:
        self.metrics.sync()
        extra = {**self.stored, "place": trained.to_json(), "data": self.data.state_dict()}
        return self.store.save(trained.step, state, extra, metric=metric)

    def _interrupted(self, state: TrainState, trained: TrainProgress) -> Interrupted:
        self._drain(trained)
        self._wait_for_room()
        kept = trained.step if self._save(state, trained, None) else self.store.latest()
        outcome = "nothing was saved" if kept is None else f"step {kept:,} is saved"
        return Interrupted(
            f"interrupted after step {trained.step:,}: {outcome}", hint="run the same command to continue"
        )

    def _diverged(self, step: int, loss: float) -> InputError:
        if self._skipped_in_a_row:
            fact = f"the last {self._skipped_in_a_row} steps up to step {step:,} overflowed in float16"
            remedy = "take `mixed_precision: bf16`, or"
        else:
            fact = f"the loss is `{loss}` at step {step:,}"
            remedy = "start anew with --overwrite and"
        kept = self.store.latest()
        where = (
            "no checkpoint was saved before" if kept is None else f"the checkpoint of step {kept:,} is kept"
        )
        return InputError(fact, hint=f"{where}; {remedy} a smaller --learning-rate")


class StopRequest:
    """Ctrl-C, SIGTERM or a closed terminal in a training: the current step is finished and saved first.

    A context manager; `asked` is True once a signal came, in the main thread alone. A second signal is
    handled by whatever handled it before: at once, without saving.
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {
                number: signal.signal(number, self._note)
                for number in _INTERRUPTS
                if callable(signal.getsignal(number))  # neither ignored nor left to the system
            }
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}


def _due(trained: TrainProgress, every: int) -> bool:
    return trained.step % every == 0
