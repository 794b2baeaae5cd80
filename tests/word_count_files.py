"""Word counts: files of words with their counts, as the native counter writes and the trainer reads them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def record(word: bytes, count: int) -> bytes:
    """A count, a length, the bytes; numbers in groups of seven bits, the lowest first."""
    return _number(count) + _number(len(word)) + word


def write_word_counts(path: Path, counts: Mapping[bytes, int]) -> Path:
    path.write_bytes(b"".join(record(word, count) for word, count in counts.items()))
    return path


def read_word_counts(path: Path) -> dict[bytes, int]:
    """The counts; a word that stands there twice is a fault."""
    content = path.read_bytes()
    counts: dict[bytes, int] = {}
    at = 0
    while at < len(content):
        count, at = _read_number(content, at)
        size, at = _read_number(content, at)
        word = content[at : at + size]
        at += size
        assert word not in counts
        counts[word] = count
    return counts


def byte_counts(counts: Mapping[bytes, int]) -> list[int]:
    """How often each byte occurs."""
    found = [0] * 256
    for word, count in counts.items():
        for byte in word:
            found[byte] += count
    return found


def _number(value: int) -> bytes:
    groups = bytearray()
    while value >= 0x80:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def _read_number(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while content[at] >= 0x80:
        value |= (content[at] & 0x7F) << shift
        shift += 7
        at += 1
    return value | content[at] << shift, at + 1
