"""A run's end in a few rows, for people: what every command's manifest has in common.

In: the facts of a summary. Out: labels and values. Nothing is held.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final

from krill.budget import format_size

# What is no news to whoever called.
_LEFT_OUT: Final = ("command", "format", "identity", "krill", "seconds")
_MOST_REASONS: Final = 20


def summary_rows(output: Path | str | None, facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Counts, time and memory, and the command that shows more."""
    for name, value in facts.items():
        if name not in _LEFT_OUT and isinstance(value, int | float | str) and not isinstance(value, bool):
            yield name.replace("_", " "), value if isinstance(value, str) else f"{value:,.6g}"
    documents = _inner(facts, "documents")
    if "read" in documents:
        yield "documents", f"{documents['read']:,} read, {documents['kept']:,} kept"
        for reason, number in islice(_inner(documents, "dropped").items(), _MOST_REASONS):
            yield "dropped", f"{number:,} {reason}"
    tokens, dataset = _inner(facts, "tokens"), _inner(facts, "dataset")
    if "kept" in tokens:
        yield "tokens", f"{tokens['kept']:,}"
    if "rows" in dataset:
        yield "rows", f"{dataset['rows']:,}"
    if "seconds" in facts:
        yield "seconds", f"{facts['seconds']:,.1f}"
    budget = _inner(facts, "budget")
    if "measured_peak" in budget and "limit" in budget:
        yield "memory", f"{format_size(budget['measured_peak'])} of {format_size(budget['limit'])}"
    if output is not None:
        yield "output", str(output)
        yield "more", f"krill report {shlex.quote(str(output))}"


def _inner(facts: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = facts.get(name)
    return value if isinstance(value, Mapping) else {}
