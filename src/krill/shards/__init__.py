"""The dataset on disk: writer, manifest, reader, checks.

Comes in: packed rows and kept documents. Goes out: a folder that Hugging Face `datasets.load_from_disk`
opens, with Arrow shards, text shards as Parquet, checksums, and a manifest that finds any row by arithmetic;
and from such a folder, its rows again. Held in memory: one record batch (a mebibyte) while writing rows, one
row group (8 MB of documents) while writing documents, the manifest and a small cache while reading.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from krill.shards.dataset_files import write_dataset_parts
    from krill.shards.inspection import Inspection, inspect
    from krill.shards.layout import Layout, smallest_dtype
    from krill.shards.manifest import MANIFEST_NAME, DatasetPart, Manifest, SourceRows, TextPart
    from krill.shards.reader import Dataset
    from krill.shards.row_batch import RowBatch
    from krill.shards.shard import ShardInfo, text_shard_name, token_shard_name
    from krill.shards.text_writer import TextShardWriter
    from krill.shards.validation import Report, validate
    from krill.shards.writer import ShardWriter

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
_HOMES = {
    "Dataset": "krill.shards.reader",
    "DatasetPart": "krill.shards.manifest",
    "Inspection": "krill.shards.inspection",
    "Layout": "krill.shards.layout",
    "MANIFEST_NAME": "krill.shards.manifest",
    "Manifest": "krill.shards.manifest",
    "Report": "krill.shards.validation",
    "RowBatch": "krill.shards.row_batch",
    "ShardInfo": "krill.shards.shard",
    "ShardWriter": "krill.shards.writer",
    "SourceRows": "krill.shards.manifest",
    "TextPart": "krill.shards.manifest",
    "TextShardWriter": "krill.shards.text_writer",
    "inspect": "krill.shards.inspection",
    "smallest_dtype": "krill.shards.layout",
    "text_shard_name": "krill.shards.shard",
    "token_shard_name": "krill.shards.shard",
    "validate": "krill.shards.validation",
    "write_dataset_parts": "krill.shards.dataset_files",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module `krill.shards` has no attribute `{name}`")
    return getattr(import_module(_HOMES[name]), name)
