"""Options that several verbs share, and what they stand for: a config, an engine, a budget."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from cyclopts import Parameter

from krill.budget import resolve_threads

if TYPE_CHECKING:
    from krill.config import KrillConfig
    from krill.config.engine import EngineConfig
    from krill.tokenizer import Tokenizer

Switch = Annotated[bool, Parameter(negative="", show_default=False)]
"""A flag without a value, off unless it is given."""

Overwrite = Annotated[
    bool,
    Parameter(
        negative="",
        show_default=False,
        help="Start anew, and replace the finished output in the end; refused while it holds files that "
        "Krill did not write.",
    ),
]

Many = Parameter(consume_multiple=True, negative="")
"""An option that takes several values: `--input a.txt b.txt`, or `--input a.txt --input b.txt`."""

_MOST = 2**63 - 1


def check_number(kind: object, value: object, *, least: int | None = None) -> None:
    """For every flag of every verb: native code and manifests hold numbers of 64 bits."""
    if is_dataclass(value) and not isinstance(value, type):  # flags that several verbs share
        for field in fields(value):
            try:
                check_number(field.type, getattr(value, field.name))
            except ValueError as error:
                raise ValueError(f"--{field.name.replace('_', '-')}: {error}") from None
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError("Must be a finite number.")
    elif isinstance(value, int) and not -_MOST <= value <= _MOST:
        raise ValueError("Must be a number of at most 64 bits.")
    elif isinstance(value, int | float) and least is not None and value < least:
        raise ValueError(f"Must be >= {least}.")


def at_least(least: int) -> Parameter:
    return Parameter(validator=partial(check_number, least=least))


@Parameter(name="*")
@dataclass(frozen=True)
class OutputOptions:
    """What is printed."""

    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"], negative="", show_default=False)] = False
    """Print nothing but errors."""

    json: Switch = False
    """Print the result as one JSON object on standard output; progress goes to standard error."""


@Parameter(name="*")
@dataclass(frozen=True)
class BudgetOptions:
    """What a command may use."""

    memory: str | None = None
    """The memory budget, such as 512MB, 2GiB or auto: half of what this process may use."""

    threads: str | None = None
    """How many threads work; auto is every core."""

    def resolve(self, config: KrillConfig | None = None) -> tuple[str | int, str | int]:
        """Memory and threads: as typed, else as the config says, if there is one, else auto."""
        default = ("auto", "auto") if config is None else (config.memory, config.threads)
        return self.memory or default[0], self.threads or default[1]


@Parameter(name="*")
@dataclass(frozen=True)
class TokenizerBudget(BudgetOptions):
    """Trainers of this kind often count processes: here they are threads."""

    threads: Annotated[str | None, Parameter(name=["--threads", "--processes"])] = None
    """How many threads work; auto is every core."""

    def open(self, path: Path) -> AbstractContextManager[Tokenizer]:
        """A tokenizer, within what the process and its libraries leave of the budget."""
        from krill.tokenizer.tokenizer import open_within

        memory, threads = self.resolve()
        return open_within(path, memory, resolve_threads(threads))


@Parameter(name="*")
@dataclass(frozen=True)
class VerifyOptions:
    """Whether checksums are checked."""

    no_verify: Switch = False
    """Read what Krill wrote without verifying the checksums in its manifest."""

    @property
    def enabled(self) -> bool:
        return not self.no_verify

    @property
    def override(self) -> bool | None:
        """What replaces the config's `verify`; None leaves it as it is."""
        return False if self.no_verify else None


@Parameter(name="*")
@dataclass(frozen=True)
class EngineOptions:
    """Where the work runs."""

    engine: str | None = None
    """Where the work runs: local, ray or datatrove. --memory and --threads are then those of each worker."""

    address: str | None = None
    """The Ray cluster's address; auto for the one that this machine is part of."""

    workers: str | None = None
    """How many tasks run at once; auto for as many as the cluster has cores for."""

    def overrides(self) -> list[str]:
        """The keys of a config that these options set."""
        given = {"name": self.engine, "address": self.address, "workers": self.workers}
        return [f"engine.{key}={value}" for key, value in given.items() if value is not None]

    def refuse_unused(self) -> None:
        """For work that this process does itself: say which flag would change nothing."""
        from krill.errors import ConfigError

        for name in ("address", "workers"):
            if getattr(self, name) is not None:
                raise ConfigError(f"--{name} is given, and no engine that has one", hint="add --engine ray")

    def resolve(self) -> EngineConfig | None:
        """The engine for a verb that has no config; None for the threads of this process."""
        if self.engine in (None, "local"):
            self.refuse_unused()
            return None
        from krill.config import load_config

        return load_config({}, overrides=self.overrides(), environ={}).engine


@Parameter(name="*")
@dataclass(frozen=True)
class ConfigOptions(BudgetOptions):
    """What a command may use, and how its config is changed for it."""

    set: Annotated[tuple[str, ...], Parameter(consume_multiple=False, negative="", show_default=False)] = ()
    """Change one key of the config: --set preprocess.sequence_len=4096. May be given several times."""

    def without_samples(self, wanted: bool) -> Self:
        """The same, where `wanted` with a run that keeps no text of what it drops."""
        return replace(self, set=(*self.set, "preprocess.samples=false")) if wanted else self

    def load(self, config: str, engine: EngineOptions | None = None, **more: Any) -> KrillConfig:
        """The config with these changes; `more` are top-level keys that only some verbs have."""
        from krill.config import load_config

        overrides = (*self.set, *(engine.overrides() if engine is not None else ()))
        loaded = load_config(config, overrides=overrides, memory=self.memory, threads=self.threads, **more)
        if engine is not None and loaded.engine.name == "local":
            engine.refuse_unused()
        return loaded


def load_if_config(path: str) -> KrillConfig | None:
    """The config, if the argument is one (`krill validate config.yaml`); None for a folder."""
    if Path(path).suffix not in (".yaml", ".yml") or Path(path).is_dir():
        return None
    from krill.config import load_config

    return load_config(path)
