"""Options that every verb shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

if TYPE_CHECKING:
    from krill.config import KrillConfig


@Parameter(name="*")
@dataclass(frozen=True)
class BudgetOptions:
    """What a command may use."""

    memory: str | None = None
    """The memory budget, such as 512MB, 2GiB or auto: half of what this process may use."""

    threads: str | None = None
    """How many threads work; auto is every core."""


@Parameter(name="*")
@dataclass(frozen=True)
class ConfigOptions(BudgetOptions):
    """What a command may use, and how its config is changed for it."""

    set: Annotated[tuple[str, ...], Parameter(consume_multiple=False, negative="", show_default=False)] = ()
    """Change one key of the config: --set preprocess.sequence_len=4096. May be given several times."""

    def load(self, config: str, **more: Any) -> KrillConfig:
        """The config with these changes; `more` are top-level keys that only some verbs have."""
        from krill.config import load_config

        return load_config(config, overrides=self.set, memory=self.memory, threads=self.threads, **more)


@Parameter(name="*")
@dataclass(frozen=True)
class OutputOptions:
    """What is printed."""

    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"], negative="", show_default=False)] = False
    """Print nothing but errors."""

    json: Annotated[bool, Parameter(negative="", show_default=False)] = False
    """Print the result as one JSON object on standard output; progress goes to standard error."""
