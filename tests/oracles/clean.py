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


def reference_line_cleaner(text: str, symbol_only: bool, remove: list[str]) -> str:
    """What `LineCleaner` leaves of a document."""

    def stays(line: str) -> bool:
        line = line.strip()
        symbols = symbol_only and not any(character.isalnum() for character in line)
        return not line or not (symbols or line in [entry.strip() for entry in remove])

    return "\n".join(filter(stays, text.split("\n")))
