"""Every checksum of an export.

Comes in: the folder of an export and its manifest. Goes out: what was checked, or an InputError for the first
file that is not as it was written. Held in memory: a mebibyte of a file.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from krill.dataset.fields import Fields
from krill.dataset.manifest import MANIFEST_NAME, Manifest
from krill.dataset.shard import ShardInfo
from krill.dataset.shard_file import ShardFile
from krill.dataset.validation import Report

_READ_BYTES = 2**20


def check_export(folder: Path, manifest: Manifest) -> Report:
    """Read every file once; sizes and checksums are those of the manifest."""
    listed = Fields(dict(manifest.extra), source=str(folder / MANIFEST_NAME)).mappings("files")
    # What a file holds is another count in each format: here they only have to be whole.
    fields = Fields({"files": [{"rows": 0, **entry} for entry in listed]}, source=str(folder / MANIFEST_NAME))
    entries = fields.inners("files")
    documents = sum(entry.count("documents") for entry in entries if entry.has("documents"))
    files = [ShardInfo.from_fields(entry) for entry in entries]
    if not files:
        fields.refuse("files", "is empty")
    for file in files:
        _check(ShardFile(folder, file))
    return Report(
        files=len(files),
        bytes=sum(file.bytes for file in files),
        rows=sum(file.rows for file in files),
        tokens=sum(file.tokens or 0 for file in files),
        documents=documents,
    )


def _check(file: ShardFile) -> None:
    digest = hashlib.sha256()
    size = file.shard.bytes
    for start in range(0, size, _READ_BYTES):
        digest.update(file.read(start, min(_READ_BYTES, size - start)))
    if digest.hexdigest() != file.shard.sha256:
        stated = file.shard.sha256[:16]
        file.fail(f"has the checksum {digest.hexdigest()[:16]}..., and the manifest says {stated}...")
