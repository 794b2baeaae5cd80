"""Krill's steps inside a datatrove pipeline.

In: datatrove's `Document`s, one after the other. Out: `Document`s again, or files that datatrove's next
stages read. Each step gathers documents into an Arrow batch, runs the native kernel on it, and counts in
datatrove's own statistics. Held in memory: the documents of one batch, bounded in bytes, and what the step
says of itself.

    from krill.datatrove import Clean, Filters, KrillReader, MinhashSignatures, PackDataset, Tokenize
"""

from typing import TYPE_CHECKING

from krill.errors import MissingExtra
from krill.lazy import lazy_attributes

if TYPE_CHECKING:
    from krill.datatrove.exact import ExactSignatures
    from krill.datatrove.minhash import MinhashSignatures
    from krill.datatrove.pack import PackDataset
    from krill.datatrove.reader import KrillReader
    from krill.datatrove.text_steps import Clean, Filters
    from krill.datatrove.tokenize import Tokenize

__all__ = [
    "Clean",
    "ExactSignatures",
    "Filters",
    "KrillReader",
    "MinhashSignatures",
    "PackDataset",
    "Tokenize",
]

try:
    import datatrove as _datatrove  # noqa: F401
except ImportError:
    raise MissingExtra("`krill.datatrove`", "datatrove") from None

# Loaded when first used: a filter takes none of what packing takes.
__getattr__ = lazy_attributes(
    __name__,
    {
        "Clean": "krill.datatrove.text_steps",
        "ExactSignatures": "krill.datatrove.exact",
        "Filters": "krill.datatrove.text_steps",
        "KrillReader": "krill.datatrove.reader",
        "MinhashSignatures": "krill.datatrove.minhash",
        "PackDataset": "krill.datatrove.pack",
        "Tokenize": "krill.datatrove.tokenize",
    },
)
