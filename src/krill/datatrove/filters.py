"""`Filters`: Krill's quality filters as one step of datatrove's.

In: `Document`s. Out: those that no filter drops, with the text that C4 and the removal of repeated lines
leave of them; `language` and a function of your own also add to their metadata. Filters that stand together
split the words of a document once. Held in memory: a batch, its texts twice as UTF-8, scratch that grows with
the longest document, and for `language` its model.

Reasons and statistics are datatrove's where it has the same filter. For other languages it has no reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from datatrove.pipeline.writers.disk_base import DiskWriter

from krill.config import load_config
from krill.datatrove.batches import BATCH_BYTES
from krill.datatrove.text_step import TextStep
from krill.errors import ConfigError
from krill.text import Step, language
from krill.text.build import changes_text, filter_steps

# Krill has the names of three of datatrove's filters before their reasons.
_NAMED: Final = ("gopher_", "c4_", "fineweb_")
_GOPHER_REPETITION: Final = ("gopher_empty", "gopher_dup", "gopher_top_")


class Filters(TextStep):
    """Filters as `preprocess.filters` of a config names them, in their order.

    `Filters("gopher_quality", {"c4": {"filter_no_terminal_punct": False}}, {"language": {"allow": ["en"]}})`;
    also a preset such as `web-en`, and a function of your own as `module:function`.
    """

    name = "filters"

    def __init__(
        self,
        *filters: str | Mapping[str, Any],
        exclusion_writer: DiskWriter | None = None,
        batch_bytes: int | str = BATCH_BYTES,
    ) -> None:
        super().__init__(exclusion_writer, batch_bytes)
        if not filters:
            raise ConfigError("`Filters` names no filter", hint='name some, as in Filters("gopher_quality")')
        self.filters = filters
        self.settings = load_config({"preprocess": {"filters": list(filters), "min_chars": 0}}).preprocess
        self.changes_text = changes_text(self.settings)

    def steps(self) -> Sequence[Step]:
        return filter_steps(self.settings, label=True)

    def reason(self, reason: str) -> str | None:
        """What datatrove's filter calls it."""
        if reason in language.REASONS:
            return None
        if reason.startswith("gopher_") and not reason.startswith(_GOPHER_REPETITION):
            return reason
        return next((reason.removeprefix(name) for name in _NAMED if reason.startswith(name)), reason)
