"""The slow, obvious exact dedup that the bounded one is held to."""

from __future__ import annotations

from collections.abc import Sequence


def reference_exact(units: Sequence[Sequence[bytes]]) -> list[list[bool]]:
    """For each unit, whether each of its hashes is the first of its kind in all units."""
    seen: set[bytes] = set()
    keep: list[list[bool]] = []
    for unit in units:
        flags = []
        for key in unit:
            flags.append(key not in seen)
            seen.add(key)
        keep.append(flags)
    return keep
