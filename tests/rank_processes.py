"""The processes of a run's ranks, for tests that kill them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil


def rank_process(work: Path, number: int) -> psutil.Process:
    """The process of a rank whose run is in `work`."""
    [found] = [process for process in psutil.process_iter() if _is_rank(process, work, number)]
    return found


def _is_rank(process: psutil.Process, work: Path, number: int) -> bool:
    with suppress(psutil.Error):
        command = process.cmdline()
        return (
            "krill.engines.worker" in " ".join(command)
            and command[-1] == str(number)
            and Path(command[-2]).is_relative_to(work.resolve() / "engine")
        )
    return False
