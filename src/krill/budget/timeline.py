"""What a run held over time, and how far it was: a fixed number of samples, however long it takes.

In: what is held and done, many times a second. Out: at most `MOST_SAMPLES` of them at even intervals and
where stages begin and end, and when each did. Held in memory: these.

When there are too many, two neighbours become one and the interval doubles. A sample has the most that was
held since the one before, so no peak that the meter saw is lost.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

from krill.errors import KrillError

MOST_SAMPLES: Final = 512
FIRST_INTERVAL: Final = 0.05
"""Seconds between two samples of a short run: the meter looks as often."""
MOST_STAGES: Final = 512
MOST_GAPS: Final = 64
"""Of a run that is killed more often, the earliest gaps are closed."""
_EARLY: Final = 0.005
KEEP_SECONDS: Final = 10.0
"""How often a run that may be killed keeps what it has."""

Sample = tuple[float, int | None, int]
"""Seconds since the run began, bytes held (None: here it was killed, and went on), bytes done."""


class Timeline:
    """Seconds are those in which the run worked: a run that goes on continues where it was killed."""

    def __init__(self) -> None:
        self.interval = FIRST_INTERVAL
        self._samples: list[Sample] = []
        self._stages: list[dict[str, Any]] = []
        self._origin = time.monotonic()
        self._most = 0
        self._done = 0
        self._keep: Callable[[dict[str, Any]], None] | None = None
        self._kept_at = self._origin
        self._lock = threading.Lock()

    @property
    def seconds(self) -> float:
        return round(time.monotonic() - self._origin, 3)

    def advance(self, done: int) -> None:
        """Some bytes more are done."""
        with self._lock:
            self._done += done

    def sample(self, held: int, *, due: bool = False) -> None:
        """What is held now; called more often than samples are kept, but for those that are `due`."""
        with self._lock:
            now = self.seconds
            self._most = max(self._most, held)
            wait = _EARLY if due else self.interval - _EARLY
            if self._samples and now < self._samples[-1][0] + wait:
                return
            self._samples.append((now, self._most, self._done))
            self._most = 0
            if len(self._samples) >= MOST_SAMPLES:  # the one that is not due yet has room
                self._thin()

    def keep_by(self, keep: Callable[[dict[str, Any]], None], earlier: Mapping[str, Any] | None) -> None:
        """From now on, give `keep` now and then what there is; `earlier` is what it was given last by a
        process that was killed."""
        self._keep = keep
        if earlier is not None:
            # It was read from a file, which may hold anything.
            with self._lock, suppress(KeyError, TypeError, ValueError):
                self._resume(earlier)

    def keep(self, *, at_once: bool = False) -> None:
        """Have it kept, if that was long ago."""
        now = time.monotonic()
        if self._keep is not None and (at_once or now - self._kept_at >= KEEP_SECONDS):
            self._kept_at = now
            self._keep(self.to_json())

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        entry: dict[str, Any] = {"name": name, "begun": self.seconds, "ended": None}
        if len(self._stages) < MOST_STAGES:
            self._stages.append(entry)
        try:
            yield
        except BaseException:
            entry["ended"] = self.seconds
            with suppress(KrillError):  # the other one is on its way
                self.keep(at_once=True)
            raise
        entry["ended"] = self.seconds
        self.keep()

    def to_json(self) -> dict[str, Any]:
        with self._lock:
            since = [(self.seconds, self._most, self._done)] if self._most else []
            return {
                "interval": self.interval,
                "samples": [list(sample) for sample in (*self._samples, *since)],
                "stages": [dict(stage) for stage in self._stages],
            }

    def _resume(self, earlier: Mapping[str, Any]) -> None:
        before: list[Sample] = [
            (float(at), None if held is None else int(held), int(done))
            for at, held, done in earlier["samples"]
        ]
        end, _, done = before[-1] if before else (0.0, None, 0)
        stages: list[dict[str, Any]] = [
            # Without an end where the run was killed in it.
            {"name": str(of["name"]), "begun": float(of["begun"]), "ended": float(of["ended"] or end)}
            for of in earlier["stages"]
        ]
        end = max([end, *(stage["ended"] for stage in stages)])
        interval = max(float(earlier["interval"]), FIRST_INTERVAL)
        gaps = [at for at, sample in enumerate(before) if sample[1] is None]
        if len(gaps) >= MOST_GAPS:
            del before[gaps[0]]
        self._origin -= end
        self._done += done
        moved = [(round(at + end, 3), held, so_far + done) for at, held, so_far in self._samples]
        self._samples = [*before, (end, None, done), *moved] if before else moved
        self._stages = [*stages, *self._stages][-MOST_STAGES:]
        self.interval = interval
        while len(self._samples) >= MOST_SAMPLES:
            self._thin()

    def _thin(self) -> None:
        """Every second sample, with the most of both; a gap stays between what it parts."""
        thinned: list[Sample] = []
        pending: int | None = None
        for at, held, done in self._samples:
            if held is None:
                thinned.append((at, None, done))
                pending = None
            elif pending is None:
                pending = held
                thinned.append((at, held, done))
            else:
                thinned[-1] = (at, max(held, pending), done)
                pending = None
        self._samples = thinned
        self.interval *= 2
