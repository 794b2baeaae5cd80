"""Examples of dropped documents, chosen one document at a time."""

from __future__ import annotations

from collections.abc import Iterable


def reference_mixed(value: int) -> int:
    """SplitMix64 of a number of 64 bits."""
    most = 2**64 - 1
    value = (value + 0x9E3779B97F4A7C15) & most
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & most
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & most
    return value ^ (value >> 31)


def reference_examples(
    dropped: Iterable[tuple[str, int, bytes]], most: int = 20, text_bytes: int = 2048
) -> dict[str, list[list[object]]]:
    """Of documents (reason, position, text): hash, position, text, bytes, for each reason."""
    found: dict[str, list[list[object]]] = {}
    for reason, position, text in dropped:
        shown = text[:text_bytes].decode("utf-8", "ignore")
        found.setdefault(reason, []).append([reference_mixed(position), position, shown, len(text), None])
    return {reason: sorted(found[reason], key=lambda one: one[0])[:most] for reason in sorted(found)}  # type: ignore[arg-type,return-value]
