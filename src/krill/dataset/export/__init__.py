"""A prepared dataset in the formats of other tools: Parquet, Megatron-LM, nanoGPT, datatrove, JSON lines.

In: a finished output of `krill preprocess`. Out: a folder with the files and a manifest, whole or not at all.
Held in memory: the batches in flight, a row group where Parquet is read or written, the tokenizer and the
longest document where documents are decoded; never more for a larger dataset.
"""

from typing import TYPE_CHECKING

from krill.lazy import lazy_attributes

if TYPE_CHECKING:
    from krill.dataset.export.job import ExportSummary, export
    from krill.dataset.export.options import FORMATS, ExportOptions

__all__ = ["FORMATS", "ExportOptions", "ExportSummary", "export"]

_JOB, _OPTIONS = "krill.dataset.export.job", "krill.dataset.export.options"
__getattr__ = lazy_attributes(
    __name__,
    {
        "ExportOptions": _OPTIONS,
        "ExportSummary": _JOB,
        "FORMATS": _OPTIONS,
        "export": _JOB,
    },
)
