"""Page limits: what a page may have, so that no library takes long or much memory for it.

In: a page in UTF-8. Out: how much memory its extraction may take, or that it is beyond the limits of a
library. Held in memory: the open elements of the page.

Parsers, and what walks through their trees, take the square of a page's length for some pages. A page is
measured natively in one pass before it is parsed; what decides is only that measure, never time.
`tests/worst_pages.py` has some 160 kinds of pages, each as large as the limits let it be: none takes a second
of CPU time or 100 MB. The reference of the measure is `tests/oracles/web.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from krill import _native

MOST_COST: Final = 10_000_000
"""Of a page, in units of which a second has about so many."""


@dataclass(frozen=True, slots=True)
class Weights:
    """What counts for each byte of a page, each element or comment, each attribute, each byte of these."""

    byte: int
    tag: int
    attribute: int
    attribute_byte: int = 0

    def sum(self, size: int, tags: int, attributes: int, attribute_bytes: int) -> int:
        return (
            self.byte * size
            + self.tag * tags
            + self.attribute * attributes
            + self.attribute_byte * attribute_bytes
        )


@dataclass(frozen=True, slots=True)
class PageLimits:
    """The limits of one library: elements and comments; those that are open at once; what `work` of the
    native measure counts; the cost, and the bytes that are held."""

    tags: int
    depth: int
    work: int
    cost: Weights
    held: Weights
    most_held: int
    """Bytes that the library may hold for a page."""
    empty_raw: bool = False
    """Whether the library's parser takes `<textarea/>` for an empty element."""

    def held_bytes(self, page: bytes) -> int | None:
        """What is held while this page is extracted, at the most; None if it is beyond the limits."""
        tags, depth, work, attributes, attribute_bytes = _native.measure_page(
            page, self.tags, self.depth, self.work, self.empty_raw
        )
        if tags > self.tags or depth > self.depth or work > self.work:
            return None
        found = len(page), tags, attributes, attribute_bytes
        held = self.held.sum(*found)
        return held if self.cost.sum(*found) <= MOST_COST and held <= self.most_held else None

    def held_at_most(self, page_bytes: int) -> int:
        """The same of any page of up to so many bytes."""
        elements = max(
            self.held.tag * MOST_COST // self.cost.tag, self.held.attribute * MOST_COST // self.cost.attribute
        )
        return min(self.most_held, self.held.byte * page_bytes + elements)


# Measured with 2.0, on a busy machine: 100,000 flat elements of one kind took up to 0.3 s and 560 bytes each,
# 2,000 nested ones 0.08 s (20,000 over 30 s), 400 levels around 100,000 elements 3.4 s, 10,000 options in a
# list 0.35 s, 10,000 attributes in a tag 0.2 s; 240 bytes for an attribute, 5 to 7 for a byte of text.
RESILIPARSE: Final = PageLimits(
    tags=100_000,
    depth=1_000,
    work=5_000_000,
    cost=Weights(0, 100, 50),
    held=Weights(7, 500, 240),
    most_held=100_000_000,
)
# Measured with 1.11 and 2.3: 10,000 flat elements took 0.2 to 0.9 s; without `fast`, justext compares each
# paragraph with those around it: 4,000 took 0.8 s, 8,000 2.8 s. A megabyte of attributes took 0.3 to 0.8 s,
# of text 0.1 s. An element took 3,300 bytes, an attribute 1,270, a byte of text 26. libxml2 ends at 256
# levels.
TRAFILATURA: Final = PageLimits(
    tags=4_000,
    depth=250,
    work=500_000,
    cost=Weights(1, 2_600, 200, 8),
    held=Weights(27, 3_500, 1_300),
    most_held=60_000_000,
    empty_raw=True,
)
TRAFILATURA_FAST: Final = PageLimits(
    tags=10_000,
    depth=250,
    work=500_000,
    cost=Weights(1, 1_000, 200, 8),
    held=Weights(27, 3_500, 1_300),
    most_held=60_000_000,
    empty_raw=True,
)
