"""Disk: what a run will write for itself, and the cap on it.

Between its stages a run keeps token runs, hashes and compressed text. They are estimated before the input is
read, counted while they are written, and removed at the end.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from krill.budget import format_size
from krill.errors import BudgetError, StorageError


class DiskCap:
    """Counts what the stages keep; over the cap, the run stops and can be resumed."""

    def __init__(self, cap: int | None, used: int = 0) -> None:
        self.used = used
        self._cap = cap

    def check_estimate(self, estimate: int) -> None:
        """Refuse before reading what the cap can't hold."""
        if self._cap is not None and estimate > self._cap:
            raise BudgetError(
                f"the run would keep about {format_size(estimate)} on disk between its stages,"
                f" --disk allows {format_size(self._cap)}",
                hint=f"--disk {-(-estimate // 10**9)}GB would do; `spill_dir` may be on another device",
            )

    def add(self, size: int) -> None:
        self.used += size
        if self._cap is not None and self.used > self._cap:
            raise BudgetError(
                f"the stages keep {format_size(self.used)} on disk, --disk allows {format_size(self._cap)}",
                hint="what was done is kept: run the same command with a larger --disk",
            )


def check_free_space(needed: Mapping[Path, int]) -> None:
    """Refuse what a device clearly can't hold: less free than half of a generous estimate.

    What a continued run has written already counts as there.
    """
    devices: dict[int, tuple[Path, int]] = {}
    for folder, size in needed.items():
        device = folder.stat().st_dev
        devices[device] = folder, devices.get(device, (folder, 0))[1] + size - folder_bytes(folder)
    for folder, size in devices.values():
        free = shutil.disk_usage(folder).free
        if free < size // 2:
            raise StorageError(
                f"the run will need about {format_size(size)} on disk,"
                f" `{folder}` has {format_size(free)} free",
                hint="free some space, or set `preprocess.prepared_path` and `spill_dir` to a larger device",
            )


def folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
