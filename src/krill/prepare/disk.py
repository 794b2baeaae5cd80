"""Disk: what a run will write for itself, and the cap on it.

Between its stages a run keeps token runs, hashes and compressed text. They are estimated before anything is
read, counted while they are written, and removed at the end.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from krill.budget import format_size
from krill.config import KrillConfig
from krill.corpus import Corpus
from krill.dedup import spill_bytes
from krill.errors import BudgetError, StorageError
from krill.prepare.needs import ASSUMED_DOCUMENT_BYTES

# Bytes of text for each byte that zstd leaves of it, and bytes of text for each token of a trained tokenizer:
# on the low side of what multilingual Markdown gave (3.3 and 4.0), so that the estimate is rather large.
_COMPRESSION = 3
_BYTES_PER_TOKEN = 3
# A compressed input file is taken to hold this many times its size.
_EXPANSION = 4


def decoded_bytes(corpus: Corpus) -> int:
    """About how much text the input holds."""
    return sum(file.bytes * (_EXPANSION if file.compression else 1) for file in corpus.files)


def estimate_disk(config: KrillConfig, corpus: Corpus) -> tuple[int, int]:
    """About how many bytes the stages keep meanwhile, and how many the output takes."""
    text = decoded_bytes(corpus)
    settings = config.preprocess
    spill = output = 0
    if corpus.sequential:
        spill += text // _COMPRESSION
    if settings.dedup != "none":
        documents = text // ASSUMED_DOCUMENT_BYTES
        spill += 16 * documents + spill_bytes(documents)
    if settings.output != "text":
        width = 2 if settings.token_dtype in ("auto", "uint16") else 4
        tokens = text * width if config.tokenizer.builtin else text * width // _BYTES_PER_TOKEN
        spill += tokens
        output += tokens
    if settings.output != "tokens":
        output += text // _COMPRESSION
    return spill, output


class DiskCap:
    """Counts what the stages keep; over the cap, the run stops and can be resumed."""

    def __init__(self, cap: int | None, folder: Path) -> None:
        self._cap = cap
        self._used = folder_bytes(folder)

    def check_estimate(self, estimate: int) -> None:
        """Refuse before reading what the cap can't hold."""
        if self._cap is not None and estimate > self._cap:
            raise BudgetError(
                f"the run would keep about {format_size(estimate)} on disk between its stages,"
                f" --disk allows {format_size(self._cap)}",
                hint=f"--disk {-(-estimate // 10**9)}GB would do; `spill_dir` may be on another device",
            )

    def add(self, size: int) -> None:
        """So many bytes more were written."""
        self._used += size
        if self._cap is not None and self._used > self._cap:
            raise BudgetError(
                f"the stages keep {format_size(self._used)} on disk, --disk allows {format_size(self._cap)}",
                hint="what was done is kept: run the same command with a larger --disk",
            )


def check_free_space(needed: Mapping[Path, int]) -> None:
    """Refuse what a device clearly can't hold: less free than half of a generous estimate.

    What a continued run has written already counts as there.
    """
    devices: dict[int, tuple[Path, int]] = {}
    for folder, size in needed.items():
        device = folder.stat().st_dev
        devices[device] = folder, devices.get(device, (folder, 0))[1] + size - folder_bytes(folder)
    for folder, size in devices.values():
        free = shutil.disk_usage(folder).free
        if free < size // 2:
            raise StorageError(
                f"the run will need about {format_size(size)} on disk,"
                f" `{folder}` has {format_size(free)} free",
                hint="free some space, or set `preprocess.prepared_path` and `spill_dir` to a larger device",
            )


def folder_bytes(folder: Path) -> int:
    """What the files in a folder take."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
