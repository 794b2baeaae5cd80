"""Krill's steps inside a datatrove pipeline.

In: datatrove's `Document`s, one after the other. Out: `Document`s again, or files that datatrove's next
stages read. Each step gathers documents into an Arrow batch, runs the native kernel on it, and counts in
datatrove's own statistics. Held in memory: the documents of one batch, bounded in bytes, and what the step
says of itself.

    from krill.datatrove import Clean, Filters, KrillReader, MinhashSignatures, PackDataset, Tokenize
"""

from typing import TYPE_CHECKING

from krill.errors import MissingExtra
from krill.lazy import lazy_names

if TYPE_CHECKING:
    from krill.datatrove.exact import ExactSignatures as ExactSignatures
    from krill.datatrove.minhash import MinhashSignatures as MinhashSignatures
    from krill.datatrove.pack import PackDataset as PackDataset
    from krill.datatrove.reader import KrillReader as KrillReader
    from krill.datatrove.text_steps import Clean as Clean
    from krill.datatrove.text_steps import Filters as Filters
    from krill.datatrove.tokenize import Tokenize as Tokenize

try:
    import datatrove as _datatrove  # noqa: F401
except ImportError:
    raise MissingExtra("`krill.datatrove`", "datatrove") from None

# Loaded when first used: a filter takes none of what packing takes.
__getattr__, __all__ = lazy_names(
    __name__,
    {
        "krill.datatrove.exact": ("ExactSignatures",),
        "krill.datatrove.minhash": ("MinhashSignatures",),
        "krill.datatrove.pack": ("PackDataset",),
        "krill.datatrove.reader": ("KrillReader",),
        "krill.datatrove.text_steps": ("Clean", "Filters"),
        "krill.datatrove.tokenize": ("Tokenize",),
    },
)
