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
__getattr__ = lazy_attributes(
    __name__,
    {
        "Dataset": "krill.dataset.reader",
        "DatasetPart": "krill.dataset.manifest",
        "Inspection": "krill.dataset.inspection",
        "Layout": "krill.dataset.layout",
        "MANIFEST_NAME": "krill.dataset.manifest",
        "Manifest": "krill.dataset.manifest",
        "Report": "krill.dataset.validation",
        "RowBatch": "krill.dataset.rows",
        "ShardInfo": "krill.dataset.shard",
        "ShardWriter": "krill.dataset.writer",
        "SourceRows": "krill.dataset.manifest",
        "TextPart": "krill.dataset.manifest",
        "TextShardWriter": "krill.dataset.text_shard",
        "inspect": "krill.dataset.inspection",
        "smallest_dtype": "krill.dataset.layout",
        "text_shard_name": "krill.dataset.shard",
        "token_shard_name": "krill.dataset.shard",
        "validate": "krill.dataset.validation",
        "write_dataset_parts": "krill.dataset.dataset_files",
    },
)
