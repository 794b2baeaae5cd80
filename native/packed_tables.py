"""Numbers and ranges of code points as arrays of bytes in C++, for the scripts that write tables.

In: numbers. Out: them in seven bits a byte, and the lines of an array. Nothing is held.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence


def varint(value: int) -> Iterator[int]:
    while value >= 0x80:
        yield value & 0x7F | 0x80
        value >>= 7
    yield value


def packed(numbers: Iterable[int]) -> list[int]:
    return [byte for number in numbers for byte in varint(number)]


def packed_ranges(ranges: Sequence[tuple[int, int]]) -> list[int]:
    """How many, then for each the distance from the end of the one before, and its size."""
    numbers = [len(ranges)]
    at = 0
    for first, last in ranges:
        numbers += [first - at, last - first]
        at = last + 1
    return packed(numbers)


def array(name: str, values: list[int]) -> Iterator[str]:
    yield f"const uint8_t {name}[{len(values)}] = {{"
    line = "   "
    for value in values:
        if len(line) > 102:
            yield line
            line = "   "
        line += f" {value},"
    yield from [line, "};", ""]
