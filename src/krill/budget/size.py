"""Sizes as people write them."""

from __future__ import annotations

import re

from krill.errors import ConfigError

_UNITS = {
    "": 1,
    "B": 1,
    "K": 10**3,
    "KB": 10**3,
    "M": 10**6,
    "MB": 10**6,
    "G": 10**9,
    "GB": 10**9,
    "T": 10**12,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}
MOST = 2**62
"""More than any machine has, and than 64 bits can count."""
_MOST_DIGITS = 40  # Python counts no more than some thousands
_SIZE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([A-Za-z]*)\s*", re.ASCII)


def parse_size(value: str | int, *, name: str = "size") -> int:
    """`512MB`, `2GiB`, `1.5 GB` or a plain number of bytes, as bytes; errors mention the key `name`."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise _not_a_size(value, name)
    if isinstance(value, int):
        if not 0 <= value <= MOST:
            raise _not_a_size(value, name)
        return value
    match = _SIZE.fullmatch(value)
    factor = _UNITS.get(match[2].upper()) if match else None
    if match is None or factor is None or len(match[1]) > _MOST_DIGITS:
        raise _not_a_size(value, name)
    whole, _, fraction = match[1].partition(".")
    # In integers, so that 0.1GB is exactly 100,000,000 bytes.
    size = int(whole or "0") * factor + int(fraction or "0") * factor // int(10 ** len(fraction))
    if size > MOST:
        raise _not_a_size(value, name)
    return size


def format_size(size: int) -> str:
    """Bytes for people: three significant figures in decimal units."""
    if abs(size) < 1000:
        return f"{size} B"
    value = float(size)
    for unit in ("kB", "MB", "GB", "TB", "PB"):
        value /= 1000
        if abs(value) < 999.5 or unit == "PB":
            break
    digits = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{value:.{digits}f} {unit}"


def _not_a_size(value: object, name: str) -> ConfigError:
    return ConfigError(
        f"{name}: `{value}` is not a size",
        hint="write a number and a unit, such as 512MB, 2GiB or 1.5GB (MB is 10^6 bytes, MiB is 2^20)",
    )
