"""Facts as people read them: counts, durations, rates, the memory of a run. Nothing here loads Rich."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from krill.budget import format_size

Row = tuple[str, str]
"""A label and a fact."""


def format_count(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def format_memory(budget: Mapping[str, Any]) -> str:
    kept = "promise kept" if budget["measured_peak"] <= budget["limit"] else "OVER THE BUDGET"
    sizes = [format_size(budget[name]) for name in ("measured_peak", "predicted_peak", "limit")]
    processes = budget.get("processes_peak")
    within = "" if not processes else f" (with {format_size(processes)} of worker processes)"
    return f"{sizes[0]} peak measured{within}, {sizes[1]} predicted, {sizes[2]} given: {kept}"


def format_duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def format_rate(size: int, seconds: float) -> str:
    """A rate to follow a duration; empty where no time was measured."""
    return f", {format_size(int(size / seconds))}/s" if seconds else ""
