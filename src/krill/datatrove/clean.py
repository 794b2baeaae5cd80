"""`Clean`: what Krill does with every document before anything else, as a step of datatrove's.

In: `Document`s. Out: those that are long enough, without lone surrogates and, if asked, without whitespace
at both ends. Held in memory: a batch, and its texts twice as UTF-8.
"""

from __future__ import annotations

from collections.abc import Sequence

from datatrove.pipeline.writers.disk_base import DiskWriter

from krill.datatrove.batches import BATCH_BYTES
from krill.datatrove.text_step import TextStep
from krill.errors import ConfigError
from krill.text import CleanText, Step


class Clean(TextStep):
    """Drops what has fewer than `min_chars` characters then, as `too_short`."""

    name = "clean"
    cleans = True

    def __init__(
        self,
        strip: bool = True,
        min_chars: int = 100,
        exclusion_writer: DiskWriter | None = None,
        batch_bytes: int | str = BATCH_BYTES,
    ) -> None:
        super().__init__(exclusion_writer, batch_bytes)
        if min_chars < 0:
            raise ConfigError(f"`min_chars` is `{min_chars}`", hint="give a number from 0 on")
        self.strip = strip
        self.min_chars = min_chars

    def steps(self) -> Sequence[Step]:
        return [CleanText(self.strip, self.min_chars)]
