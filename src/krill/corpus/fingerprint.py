"""Fingerprints of input files: whether a run that resumes still reads what it read before.

Files up to 16 MiB by their whole content; larger ones by size, modification time, and samples of their
content, so that a terabyte takes no longer than a moment. Held in memory: one small file's worth of chunks,
never a file.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

from krill.corpus.file_table import DIGEST_BYTES
from krill.corpus.formats import CorpusFile, Format
from krill.corpus.hub import revision
from krill.corpus.remote import file_system, with_retries
from krill.corpus.streams import RangeReader, input_errors
from krill.errors import InputError

WHOLE_BYTES = 16 << 20
_EDGE_BYTES = 64 << 10
_SAMPLES = 64
_SAMPLE_BYTES = 4 << 10
_CHUNK_BYTES = 1 << 20

# What remote file systems tell about a file's content, by their various names.
_CONTENT_TAGS = (
    "etag",
    "ETag",
    "md5",
    "md5Hash",
    "mtime",
    "LastModified",
    "last_modified",
    "updated",
    "created",
    "sha",
)


def fingerprint(file: CorpusFile) -> dict[str, Any]:
    """A file's fingerprint, fit for JSON: `path` as configured, `bytes`, `fingerprint`."""
    return {"path": file.path, "bytes": file.bytes, "fingerprint": content_digest(file).hex()}


def check_same(file: CorpusFile | None, known: Mapping[str, Any]) -> None:
    """Refuse a file that has changed, or is another here, since its fingerprint was taken."""
    if file is None or fingerprint(file) != known:
        raise InputError(
            f"the worker on `{platform.node()}` sees another `{known['path']}` than the run was begun with",
            hint="let all machines see the same files, at rest, under the same paths",
        )


def content_digest(file: CorpusFile) -> bytes:
    """The part of a file's fingerprint that depends on its content."""
    digest = blake2b(digest_size=DIGEST_BYTES)
    if file.format is Format.HUB:
        digest.update(json.dumps([file.location, file.source.split, revision(file)]).encode())
    elif file.remote:
        digest.update(_remote_tags(file))
    elif file.bytes <= WHOLE_BYTES:
        with RangeReader(file) as reader:
            for start in range(0, file.bytes, _CHUNK_BYTES):
                digest.update(reader.read(start, min(file.bytes, start + _CHUNK_BYTES)))
    else:
        with input_errors(file):
            modified = Path(file.location).stat().st_mtime_ns
        digest.update(f"{file.bytes} {modified} ".encode())
        with RangeReader(file) as reader:
            for start, end in _samples(file.bytes):
                digest.update(reader.read(start, end))
    return digest.digest()


def _samples(size: int) -> list[tuple[int, int]]:
    step = (size - _SAMPLE_BYTES) // (_SAMPLES + 1)
    inner = [(step * i, step * i + _SAMPLE_BYTES) for i in range(1, _SAMPLES + 1)]
    return [(0, _EDGE_BYTES), *inner, (size - _EDGE_BYTES, size)]


def _remote_tags(file: CorpusFile) -> bytes:
    def ask() -> Any:
        filesystem, path = file_system(file.location)
        return filesystem.info(path)

    info = with_retries(file.location, ask)
    tags = {name: str(info[name]) for name in _CONTENT_TAGS if info.get(name) is not None}
    return json.dumps([file.bytes, tags], sort_keys=True).encode()
