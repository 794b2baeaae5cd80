"""`MemoryMonitor`: the seed's interface to the meter, line for line what it printed."""

from __future__ import annotations

import sys
from typing import TextIO

from krill.budget.meter import peak_bytes, resident_bytes


class MemoryMonitor:
    """Reports resident memory at stages of a program, in MB of 10^6 bytes.

    >>> monitor = MemoryMonitor()
    >>> monitor.start_monitoring()  # doctest: +SKIP
    Memory monitoring started. Initial: 145.2 MB
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self.start_memory = 0.0
        self.peak_memory = 0.0
        self._highest_before = 0.0

    def get_memory_mb(self) -> float:
        return resident_bytes() / 1e6

    def start_monitoring(self) -> None:
        self.start_memory = self.peak_memory = self.get_memory_mb()
        self._highest_before = peak_bytes() / 1e6
        self._print(f"Memory monitoring started. Initial: {self.start_memory:.1f} MB")

    def update_peak(self) -> float:
        """Look once; returns what is held now."""
        current = self.get_memory_mb()
        self.peak_memory = max(self.peak_memory, current)
        # The kernel's mark also sees what came and went between two looks, if it has risen since the start.
        highest = peak_bytes() / 1e6
        if highest > self._highest_before:
            self.peak_memory = max(self.peak_memory, highest)
        return current

    def report_current(self, stage: str) -> None:
        """Say what is held at `stage`, such as "after cleaning"."""
        current = self.update_peak()
        self._print(f"Memory {stage}: {current:.1f} MB (peak: {self.peak_memory:.1f} MB)")

    def report_final(self) -> None:
        """Say where memory started, how high it went and where it ended."""
        final = self.update_peak()
        self._print("Memory Summary:")
        self._print(f"   - Start: {self.start_memory:.1f} MB")
        self._print(f"   - Peak: {self.peak_memory:.1f} MB")
        self._print(f"   - Final: {final:.1f} MB")
        self._print(f"   - Peak increase: {self.peak_memory - self.start_memory:.1f} MB")

    def _print(self, line: str) -> None:
        print(line, file=self._stream or sys.stdout, flush=True)
