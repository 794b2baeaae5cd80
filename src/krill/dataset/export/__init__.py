"""A prepared dataset in the formats of other tools: Parquet, Megatron-LM, nanoGPT, datatrove, MosaicML
Streaming, LitData, JSON lines.

In: a finished output of `krill preprocess`. Out: a folder with the files and a manifest, whole or not at all.
Held in memory: the batches in flight, a row group where Parquet is read or written, the tokenizer and the
longest document where documents are decoded; never more for a larger dataset.
"""

from typing import TYPE_CHECKING

from krill.lazy import lazy_names

if TYPE_CHECKING:
    from krill.dataset.export.job import ExportSummary as ExportSummary
    from krill.dataset.export.job import export as export
    from krill.dataset.export.options import FORMATS as FORMATS
    from krill.dataset.export.options import ExportOptions as ExportOptions

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "krill.dataset.export.job": ("ExportSummary", "export"),
        "krill.dataset.export.options": ("FORMATS", "ExportOptions"),
    },
)
