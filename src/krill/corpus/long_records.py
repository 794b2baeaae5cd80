"""Records that are longer than a block, found without reading all of the input.

In: files that can be read from any place, and how far apart to look. Out: how long such records are, and how
many documents of that size may be in work at once. Held in memory: one record's place.

A record that is longer than the distance between two lines of a grid reaches over one: only what stands
around the lines is read. Where lines are further apart than a block, some of the records are not seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class LongRecords:
    """Of records above a block, what they do to memory."""

    longest: int = 0
    """Bytes of the longest document that one of them gives; 0 if none was found."""
    together: int = 0
    """Documents of them that follow each other with less than a block between, at the most."""
    bytes: int = 0
    """Of these documents."""
    whole: int = 0
    """Bytes of the longest record, which may give several documents."""


NO_LONG_RECORDS: Final = LongRecords()


def gather_long(
    places: Iterable[tuple[int, int]], apart: int, block_bytes: int, max_document_bytes: int
) -> LongRecords:
    """What rising `places` of long records, from and to, amount to; those that are no further `apart` are in
    work at once. One above `max_document_bytes` becomes several documents, all but the last of that size."""
    longest = whole_record = together = most = documents = size = last = 0
    for start, end in places:
        whole_record = max(whole_record, end - start)
        longest = min(whole_record, max_document_bytes)
        whole, rest = divmod(end - start, max_document_bytes)
        if start - last > apart:
            documents = size = 0
        documents += whole + (rest > block_bytes)
        size += end - start
        together, most = max((together, most), (documents, size))
        last = end
    return LongRecords(longest, together, most, whole_record)
