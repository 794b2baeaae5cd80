"""The dataset on disk: writer, manifest, reader, checks.

Comes in: packed rows and kept documents. Goes out: a folder that Hugging Face `datasets.load_from_disk`
opens, with Arrow shards, text shards as Parquet, checksums, and a manifest that finds any row by arithmetic;
and from such a folder, its rows again. Held in memory: one record batch (a mebibyte) while writing rows, one
row group (8 MB of documents) while writing documents, the manifest and a small cache while reading.
"""

from krill.shards.dataset_files import write_dataset_parts
from krill.shards.inspect import Inspection, inspect
from krill.shards.layout import Layout, smallest_dtype
from krill.shards.manifest import MANIFEST_NAME, DatasetPart, Manifest, SourceRows, TextPart
from krill.shards.reader import Dataset
from krill.shards.row_batch import RowBatch
from krill.shards.shard import ShardInfo, text_shard_name, token_shard_name
from krill.shards.text_writer import TextShardWriter
from krill.shards.validate import Report, validate
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
