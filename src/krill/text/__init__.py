"""Steps on text: one per file, a batch of documents in, a batch out.

In: `Documents` as the corpus reads them, whose text may be null or invalid UTF-8. Out: the same rows less
those that a step dropped; after `CleanText` the text is valid UTF-8 and never null. Held in memory: the batch
and its successor, nothing between batches.

The contract of a step (`Step`): `apply(documents) -> documents` is pure and thread-safe, keeps the order of
rows, and drops a row only for a reason that it names and counts.
"""

from typing import TYPE_CHECKING

from krill.lazy import lazy_names

if TYPE_CHECKING:
    from krill.text.clean import CleanText
    from krill.text.step import Step

__all__ = ["CleanText", "Step"]

# Not now: a process that extracts pages needs no Arrow.
__getattr__ = lazy_names(__name__, {"krill.text.clean": ["CleanText"], "krill.text.step": ["Step"]})[0]
