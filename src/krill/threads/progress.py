"""Progress of a run, as whoever watches it sees it."""

from __future__ import annotations

from typing import Protocol


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
