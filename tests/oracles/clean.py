"""The slow, obvious cleaning that the native one is held to."""

from __future__ import annotations


def reference_clean(text: bytes | None, strip: bool, min_chars: int) -> str | None:
    """One document cleaned, or None if it is dropped."""
    if text is None:
        return None
    cleaned = text.decode("utf-8", "ignore")
    if strip:
        cleaned = cleaned.strip()
    return cleaned if len(cleaned) >= min_chars else None
