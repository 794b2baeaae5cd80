"""Options that the verbs of `krill tokenizer` share."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    from krill.tokenizer import Tokenizer

Many = Parameter(consume_multiple=True, negative="")
"""An option that takes several values: `--input a.txt b.txt`, or `--input a.txt --input b.txt`."""


@Parameter(name="*")
@dataclass(frozen=True)
class TokenizerBudget:
    """What a command may use. Trainers of this kind often count processes: here they are threads."""

    memory: str = "auto"
    """The memory budget, such as 512MB, 2GiB or auto: half of what this process may use."""

    threads: Annotated[str, Parameter(name=["--threads", "--processes"])] = "auto"
    """How many threads work; auto is every core."""

    @property
    def thread_count(self) -> int:
        """The number that was asked for, checked."""
        from krill.budget import available_threads
        from krill.errors import ConfigError

        if self.threads == "auto":
            return available_threads()
        if not self.threads.isdecimal() or len(self.threads) > 4 or not 1 <= int(self.threads) <= 1024:
            raise ConfigError(
                f"--threads is `{self.threads}`", hint="give a whole number from 1 to 1024, or auto"
            )
        return int(self.threads)

    def open(self, path: Path) -> AbstractContextManager[Tokenizer]:
        """A tokenizer, within what the process and its libraries leave of the budget."""
        from krill.tokenizer.tokenizer import open_within

        return open_within(path, self.memory, self.thread_count)
