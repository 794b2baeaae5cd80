"""Figures to where people look at them: TensorBoard's files, or Weights & Biases.

In: figures by name. Out: what these tools show. Held in memory: what their libraries hold, outside the plan;
they are only there if asked for, and if installed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from krill.config import KrillConfig, to_dict
from krill.errors import MissingExtra
from krill.training.metrics import Logger

# What each is imported as; the extra that brings it has the logger's name.
_LIBRARIES: Final = {"tensorboard": "tensorboardX", "wandb": "wandb"}


def check_loggers(names: Sequence[str]) -> None:
    """Raise `MissingExtra` unless each can be imported; imports nothing itself."""
    for name in names:
        if find_spec(_LIBRARIES[name]) is None:
            raise MissingExtra(f"the logger `{name}`", name)


def open_loggers(names: Sequence[str], config: KrillConfig) -> tuple[Logger, ...]:
    """Those that were asked for."""
    kinds: dict[str, Callable[[KrillConfig], Logger]] = {
        "tensorboard": TensorBoard,
        "wandb": WeightsAndBiases,
    }
    return tuple(kinds[name](config) for name in names)


class TensorBoard:
    """Event files in the folder `tensorboard` of the output."""

    def __init__(self, config: KrillConfig) -> None:
        library = import_module(_LIBRARIES["tensorboard"])
        self._writer: Any = library.SummaryWriter(str(Path(config.train.output_dir) / "tensorboard"))

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """One point in each curve."""
        for name, value in figures.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class WeightsAndBiases:
    """A run named after the output folder; where and as whom, its own settings say."""

    def __init__(self, config: KrillConfig) -> None:
        library = import_module(_LIBRARIES["wandb"])
        self._run: Any = library.init(
            name=Path(config.train.output_dir).name, config=to_dict(config), resume="allow"
        )

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """One point in each curve."""
        self._run.log(dict(figures), step=step)

    def close(self) -> None:
        self._run.finish()
