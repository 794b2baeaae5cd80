"""The loop: batch after batch through the compiled step, with what is logged, evaluated and saved between.

In: a state and where the run is, data, a compiled step. Out: the state after the last step, and where the run
is then. Held in memory: the state, the batch in use and the one that is made while a step runs, and the
figures of the steps since the last line, which are fetched only then.

What a step computes never depends on what is logged or saved, nor on how often the run was interrupted: a
checkpoint holds everything that the next step needs, the sums of the line that is not written yet included.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Generic, Protocol, TypeVar

import jax

from krill import _native
from krill.budget import format_size, resident_bytes
from krill.errors import InputError, Interrupted
from krill.threads.progress import Progress
from krill.training.checkpoints import CheckpointStore, Trained
from krill.training.data import Batch
from krill.training.metrics import MetricsFile, Window
from krill.training.schedule import Schedule
from krill.training.step import Metrics
from krill.training.stopping import StopRequest

# Of float16, one after the other, with the loss scale halved each time: after these it can't be the scale.
MOST_SKIPPED: Final = 64
# How long the memory of a step is waited for, and how much of it may be missing: allocators keep some.
RELEASE_SECONDS: Final = 2.0
KEPT_PART: Final = 4
KEPT_BYTES: Final = 64 * 10**6
# Steps whose figures are not looked at yet: so many too late a loss that is no number is noticed at most.
MOST_PENDING: Final = 32

State = TypeVar("State", bound=Trained)
Evaluate = Callable[[Any], dict[str, Any]]


class Batches(Protocol):
    """What the loop asks of its data."""

    def batches(self) -> Iterator[Batch]:
        """Epoch after epoch, without end."""

    def state_dict(self) -> dict[str, Any]:
        """After the batch that was last handed out; JSON can hold it."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What a step works through, for progress and rates; `text_bytes` is what a batch's labels stand for."""

    stage: str
    unit: str
    per_step: int
    text_bytes: Callable[[Batch], float] = lambda _: 0.0


# What is said of an evaluation besides its loss.
_TOLD: Final = {
    "bits_per_byte": "{:.3f} bits per byte",
    "exact": "exact {:.2f} %",
    "f1": "F1 {:.2f} %",
}


@dataclass(slots=True)
class Place:
    """Where a run is, as plain numbers for a checkpoint."""

    step: int = 0
    seconds: float = 0.0
    window: Window = field(default_factory=Window)
    last_line: dict[str, Any] = field(default_factory=dict)
    evaluation: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """For a checkpoint."""
        return asdict(self)

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> Place:
        """What `to_json` gave."""
        return Place(**{**stored, "window": Window(**stored["window"])})


@dataclass(frozen=True, slots=True)
class Rhythm:
    """How many steps there are, and after how many of them what is done."""

    steps: int
    log_every: int
    save_every: int
    evaluate_every: int


@dataclass(frozen=True, slots=True)
class StepMemory:
    """What a step holds besides the state, in bytes; `tight` where the budget has no room for it twice."""

    temporary: int
    tight: bool


class Loop(Generic[State]):
    """One run. `stored` goes into every checkpoint as it is."""

    def __init__(
        self,
        step: Callable[[State, Mapping[str, Any]], tuple[State, Metrics]],
        data: Batches,
        store: CheckpointStore,
        metrics: MetricsFile,
        progress: Progress,
        *,
        counted: Counted,
        rhythm: Rhythm,
        memory: StepMemory,
        schedule: Schedule,
        evaluate: Evaluate | None,
        stored: Mapping[str, Any],
    ) -> None:
        self._step = step
        self._data = data
        self._store = store
        self._metrics = metrics
        self._progress = progress
        self._rhythm = rhythm
        self._memory = memory
        self._schedule = schedule
        self._evaluate = evaluate
        self._stored = stored
        self._counted = counted
        self._pending: list[tuple[int, Metrics, float]] = []
        self._since = 0.0
        self._line_since = (0, 0.0)
        self._skipped_in_a_row = 0
        self._held_before = 0

    def run(self, state: State, place: Place) -> tuple[State, Place]:
        """From `place` to the last step; `Interrupted` after saving if a signal asked for it."""
        steps = self._rhythm.steps
        self._progress.begin(self._counted.stage, (steps - place.step) * self._counted.per_step)
        self._since = time.monotonic()
        self._line_since = place.step, place.seconds
        self._held_before = resident_bytes()
        with StopRequest() as stop:
            batches = self._data.batches()
            while place.step < steps and not stop.asked:
                state = self._take_step(state, place, batches)
                self._progress.advance(self._counted.per_step)
                self._between_steps(state, place)
            if place.step < steps:
                raise self._interrupted(state, place)
        self._progress.end(self._counted.stage)
        return state, place

    def _take_step(self, state: State, place: Place, batches: Iterator[Batch]) -> State:
        batch = next(batches)  # while the step before runs
        predicted = self._counted.text_bytes(batch)
        if self._pending:
            # One step at a time: a second one under way would hold its activations beside the first's.
            self._pending[-1][1].loss.block_until_ready()
            if self._memory.tight:
                self._wait_for_room()
        state, metrics = self._step(state, batch)
        place.step += 1
        self._pending.append((place.step, metrics, predicted))
        return state

    def _between_steps(self, state: State, place: Place) -> None:
        rhythm = self._rhythm
        last = place.step == rhythm.steps
        logs, saves = last or _due(place, rhythm.log_every), last or _due(place, rhythm.save_every)
        evaluates = self._evaluate is not None and (last or _due(place, rhythm.evaluate_every))
        if not (logs or saves or evaluates):
            if len(self._pending) >= MOST_PENDING:
                self._drain(place)
            return
        self._drain(place)
        if logs:
            self._write_line(place)
        if saves or evaluates:
            self._wait_for_room()
        metric = self._write_evaluation(state, place) if evaluates else None
        if saves:
            self._save(state, place, metric)
        self._since = time.monotonic()

    def _wait_for_room(self) -> None:
        """Until the step's memory is given back: what is done between steps is planned without it, and what
        the allocator keeps of every step adds up, 80 MB in three steps of 500 MB.

        JAX hands a step's results out before it lets go of what the step held: up to half a second before on
        a busy machine, for 600 MB.
        """
        enough = self._held_before + max(KEPT_BYTES, self._memory.temporary // KEPT_PART)
        deadline = time.monotonic() + RELEASE_SECONDS
        while resident_bytes() > enough and time.monotonic() < deadline:
            time.sleep(0.005)
        _native.trim()

    def _drain(self, place: Place) -> None:
        """Fetch the figures of the steps so far, and stop if one of them is no number."""
        for step, metrics, text_bytes in self._pending:
            loss, norm, tokens, skipped = jax.device_get(metrics)
            self._skipped_in_a_row = self._skipped_in_a_row + 1 if skipped else 0
            if self._skipped_in_a_row > MOST_SKIPPED or not (skipped or math.isfinite(loss)):
                raise self._diverged(step, float(loss))
            place.window.add(float(loss), float(norm), int(tokens), text_bytes, skipped=bool(skipped))
        self._pending.clear()
        now = time.monotonic()
        place.seconds += now - self._since
        self._since = now

    def _write_line(self, place: Place) -> None:
        window = place.window
        before, seconds_before = self._line_since
        seconds = place.seconds - seconds_before
        counted = self._counted
        rate = round((place.step - before) * counted.per_step / seconds, 1) if seconds else None
        held = resident_bytes()
        figures = {
            **window.line(),
            "learning_rate": float(self._schedule(place.step - 1)),
            counted.unit: place.step * counted.per_step,
            f"{counted.unit}_per_second": rate,
            "memory": held,
        }
        self._metrics.write(place.step, "train", figures)
        bits = "" if window.bits_per_byte is None else f" ({window.bits_per_byte:.3f} bits per byte)"
        loss = "skipped" if window.loss is None else f"loss {window.loss:.4f}{bits}"
        self._progress.note(
            f"step {place.step:,} of {self._rhythm.steps:,}: {loss}, {rate or 0:,.0f} {counted.unit}/s,"
            f" memory {format_size(held)}"
        )
        place.last_line = {name: figures[name] for name in ("loss", "bits_per_byte")}
        place.window = Window()
        self._line_since = place.step, place.seconds

    def _write_evaluation(self, state: State, place: Place) -> float:
        assert self._evaluate is not None
        place.evaluation = self._evaluate(state.model)
        self._metrics.write(place.step, "validation", place.evaluation)
        told = ", ".join(
            form.format(place.evaluation[name])
            for name, form in _TOLD.items()
            if place.evaluation.get(name) is not None
        )
        loss = float(place.evaluation["loss"])
        self._progress.note(f"step {place.step:,}: validation loss {loss:.4f}{f' ({told})' if told else ''}")
        return loss

    def _save(self, state: State, place: Place, metric: float | None) -> bool:
        self._metrics.sync()
        extra = {**self._stored, "place": place.to_json(), "data": self._data.state_dict()}
        return self._store.save(place.step, state, extra, metric=metric)

    def _interrupted(self, state: State, place: Place) -> Interrupted:
        self._drain(place)
        self._wait_for_room()
        kept = place.step if self._save(state, place, None) else self._store.latest()
        said = "nothing was saved" if kept is None else f"step {kept:,} is saved"
        return Interrupted(
            f"interrupted after step {place.step:,}: {said}", hint="run the same command to continue"
        )

    def _diverged(self, step: int, loss: float) -> InputError:
        if self._skipped_in_a_row:
            fact = f"the last {self._skipped_in_a_row} steps up to step {step:,} overflowed in float16"
            remedy = "take `mixed_precision: bf16`, or"
        else:
            fact = f"the loss is `{loss}` at step {step:,}"
            remedy = "begin anew with --overwrite and"
        kept = self._store.latest()
        where = (
            "no checkpoint was saved before" if kept is None else f"the checkpoint of step {kept:,} is kept"
        )
        return InputError(fact, hint=f"{where}; {remedy} a smaller --learning-rate")


def _due(place: Place, every: int) -> bool:
    return place.step % every == 0
