"""A share of a run, without any scheduler: one of several processes that work on it, on any machines.

In: which of how many this is. Out: its parts of each stage, committed in the folder that all of them see.
Which parts are whose follows from the parts alone, so nobody has to be asked; where a stage needs what the
others have made, this one waits for it. Held in memory: what a stage holds, and the list of its parts.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from krill.errors import ConfigError, KrillError
from krill.pipeline.context import Context
from krill.pipeline.fleet import bundled, task_sizes
from krill.pipeline.shared_resolve import resolve_in_phases

if TYPE_CHECKING:
    from krill.pipeline.stage_work import Parts, StageWork

FINISH = "finish"
PATIENCE = 600.0
"""Seconds that a share waits while none of the others commits anything."""
_LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Share:
    """Number `number`, from 1, of `of`."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    @classmethod
    def parse(cls, text: str) -> Share:
        """`2/16`."""
        found = re.fullmatch(r"\s*(\d{1,9})\s*/\s*(\d{1,9})\s*", text)
        share = None if found is None else cls(int(found[1]), int(found[2]))
        if share is None or not 1 <= share.number <= share.of:
            raise ConfigError(
                f"--task is `{text}`, which is no share of the work",
                hint="--task 1/16 to --task 16/16 are the sixteen shares; then --task finish",
            )
        return share


class Waiting(KrillError):
    """The others are not as far."""

    exit_code = 5


class ShareFleet:
    """Does its own parts here, and waits for those of the others."""

    def __init__(self, share: Share, context: Context, patience: float) -> None:
        self._share = share
        self._context = context
        self._patience = patience

    def do(self, stage: str, parts: Parts, work: StageWork) -> None:
        """See `Fleet`."""
        sizes = task_sizes(stage, len(parts), self._share.of)
        bundles = bundled(stage, parts, sizes, self._context.config, work)
        own = (
            part
            for bundle in islice(bundles, self._share.number - 1, None, self._share.of)
            for part in bundle
        )
        todo = list(work.missing(stage, own))
        if todo:
            work.do(stage, todo)
        self._wait(stage, parts, work)

    def resolve(self, work: StageWork) -> None:
        """See `Fleet`."""
        resolve_in_phases(self._context, work, self.do, self._share.of)

    def facts(self) -> Mapping[str, Any]:
        """See `Fleet`."""
        return {"name": "shares", "workers": self._share.of}

    def _wait(self, stage: str, parts: Parts, work: StageWork) -> None:
        """Until all parts are committed, or nobody has committed any for too long."""
        missing = list(work.missing(stage, parts))
        news = time.monotonic()
        if missing:
            self._context.progress.note(
                f"task {self._share} has done its part of {stage}; the others have {len(missing):,} to go"
            )
        while missing:
            if time.monotonic() - news > self._patience:
                raise Waiting(
                    f"task {self._share} waits for {len(missing):,} parts of the stage {stage}, and for"
                    f" {self._patience:,.0f} s nobody has finished one",
                    hint="start the other tasks, then this one again: what is done stays done;"
                    " `--task finish` does all the rest here",
                )
            time.sleep(_LOOK_SECONDS)
            left = list(work.missing(stage, missing))
            if len(left) < len(missing):
                missing, news = left, time.monotonic()
