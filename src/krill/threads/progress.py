"""Progress of a run, as whoever watches it sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from krill.budget import Meter


class Progress(Protocol):
    """A view of the run; the command line has one for terminals and one for pipes."""

    def begin(self, stage: str, total: int | None) -> None:
        """A stage starts; `total` is its bytes of work where they are known."""

    def advance(self, done: int) -> None:
        """Some bytes more are done."""

    def end(self, stage: str) -> None:
        """The stage is finished."""

    def note(self, line: str) -> None:
        """Something worth a line."""


class Silent:
    """Watches nothing: the default of the Python API."""

    def begin(self, stage: str, total: int | None) -> None: ...

    def advance(self, done: int) -> None: ...

    def end(self, stage: str) -> None: ...

    def note(self, line: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Metered:
    """The same view of a run whose `meter` is told how far it is."""

    view: Progress
    meter: Meter

    def begin(self, stage: str, total: int | None) -> None:
        self.view.begin(stage, total)

    def advance(self, done: int) -> None:
        self.meter.timeline.advance(done)
        self.view.advance(done)

    def end(self, stage: str) -> None:
        self.view.end(stage)

    def note(self, line: str) -> None:
        self.view.note(line)
