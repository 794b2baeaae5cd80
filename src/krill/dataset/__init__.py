"""The dataset on disk: writer, manifest, reader, checks.

In: packed rows and kept documents. Out: a folder that Hugging Face `datasets.load_from_disk` opens, with
Arrow shards, text shards as Parquet, checksums, and a manifest that finds any row by arithmetic; and from
such a folder, its rows again. Held in memory: one record batch (a mebibyte) while writing rows, one row group
(8 MB of documents) while writing documents, the manifest and a small cache while reading.
"""

from typing import TYPE_CHECKING

from krill.lazy import lazy_names

if TYPE_CHECKING:
    from krill.dataset.dataset_files import write_dataset_parts as write_dataset_parts
    from krill.dataset.inspection import Inspection as Inspection
    from krill.dataset.inspection import inspect as inspect
    from krill.dataset.layout import Layout as Layout
    from krill.dataset.layout import smallest_dtype as smallest_dtype
    from krill.dataset.manifest import MANIFEST_NAME as MANIFEST_NAME
    from krill.dataset.manifest import DatasetPart as DatasetPart
    from krill.dataset.manifest import Manifest as Manifest
    from krill.dataset.manifest import SourceRows as SourceRows
    from krill.dataset.manifest import TextPart as TextPart
    from krill.dataset.reader import Dataset as Dataset
    from krill.dataset.rows import RowBatch as RowBatch
    from krill.dataset.shard import ShardInfo as ShardInfo
    from krill.dataset.shard import text_shard_name as text_shard_name
    from krill.dataset.shard import token_shard_name as token_shard_name
    from krill.dataset.text_shard import TextShardWriter as TextShardWriter
    from krill.dataset.validation import Report as Report
    from krill.dataset.validation import validate as validate
    from krill.dataset.writer import ShardWriter as ShardWriter

# Loaded when first used: reading a dataset takes none of what writing it takes.
__getattr__, __all__ = lazy_names(
    __name__,
    {
        "krill.dataset.dataset_files": ("write_dataset_parts",),
        "krill.dataset.inspection": ("Inspection", "inspect"),
        "krill.dataset.layout": ("Layout", "smallest_dtype"),
        "krill.dataset.manifest": ("MANIFEST_NAME", "DatasetPart", "Manifest", "SourceRows", "TextPart"),
        "krill.dataset.reader": ("Dataset",),
        "krill.dataset.rows": ("RowBatch",),
        "krill.dataset.shard": ("ShardInfo", "text_shard_name", "token_shard_name"),
        "krill.dataset.text_shard": ("TextShardWriter",),
        "krill.dataset.validation": ("Report", "validate"),
        "krill.dataset.writer": ("ShardWriter",),
    },
)
