"""The dataset on disk: writer, manifest, reader, checks.

In: packed rows and kept documents. Out: a folder that Hugging Face `datasets.load_from_disk` opens, with
Arrow shards, text shards as Parquet, checksums, and a manifest that finds any row by arithmetic; and from
such a folder, its rows again. Held in memory: one record batch (a mebibyte) while writing rows, one row group
(8 MB of documents) while writing documents, the manifest and a small cache while reading.
"""

from typing import TYPE_CHECKING

from krill.lazy import lazy_attributes

if TYPE_CHECKING:
    from krill.dataset.dataset_files import write_dataset_parts
    from krill.dataset.inspection import Inspection, inspect
    from krill.dataset.layout import Layout, smallest_dtype
    from krill.dataset.manifest import MANIFEST_NAME, DatasetPart, Manifest, SourceRows, TextPart
    from krill.dataset.reader import Dataset
    from krill.dataset.rows import RowBatch
    from krill.dataset.shard import ShardInfo, text_shard_name, token_shard_name
    from krill.dataset.text_shard import TextShardWriter
    from krill.dataset.validation import Report, validate
    from krill.dataset.writer import ShardWriter

__all__ = [
    "MANIFEST_NAME",
    "Dataset",
    "DatasetPart",
    "Inspection",
    "Layout",
    "Manifest",
    "Report",
    "RowBatch",
    "ShardInfo",
    "ShardWriter",
    "SourceRows",
    "TextPart",
    "TextShardWriter",
    "inspect",
    "smallest_dtype",
    "text_shard_name",
    "token_shard_name",
    "validate",
    "write_dataset_parts",
]

# Loaded when first used: reading a dataset takes none of what writing it takes.
_NAMES = {
    "dataset_files": ("write_dataset_parts",),
    "inspection": ("Inspection", "inspect"),
    "layout": ("Layout", "smallest_dtype"),
    "manifest": ("MANIFEST_NAME", "DatasetPart", "Manifest", "SourceRows", "TextPart"),
    "reader": ("Dataset",),
    "rows": ("RowBatch",),
    "shard": ("ShardInfo", "text_shard_name", "token_shard_name"),
    "text_shard": ("TextShardWriter",),
    "validation": ("Report", "validate"),
    "writer": ("ShardWriter",),
}
_HOMES = {name: f"{__name__}.{module}" for module, names in _NAMES.items() for name in names}
__getattr__ = lazy_attributes(__name__, _HOMES)
