"""Figures of a run: one JSON object a line in `metrics.jsonl`, and the loggers that the config names.

In: the figures of steps and evaluations. Out: a line for every `log_every` steps and every evaluation, in the
order of the steps, none twice and none missing however often the run was killed: what a run wrote after the
checkpoint that it goes on from is cut off first, and written again. Held in memory: the sums of a few steps.
"""

from __future__ import annotations

import errno
import math
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from io import FileIO
from pathlib import Path
from typing import Any, Final, Protocol

import orjson

from krill.config import KrillConfig, to_dict
from krill.errors import MissingExtra, StorageError
from krill.storage.atomic import storage_errors, write_bytes
from krill.storage.input_file import read_input

BITS_PER_NAT = 1 / math.log(2)
# Lines that are kept while the disk is full; of more, the oldest are lost.
MOST_WAITING = 10_000


@dataclass(slots=True)
class StepWindow:
    """Steps since the last line, added up; plain numbers, so that a checkpoint can hold them."""

    steps: int = 0
    tokens: int = 0
    nats: float = 0.0
    text_bytes: float = 0.0
    grad_norm: float = 0.0
    skipped: int = 0

    def add(self, loss: float, grad_norm: float, tokens: int, text_bytes: float, *, skipped: bool) -> None:
        """One more step; of a skipped one only that it was skipped is counted."""
        self.steps += 1
        if skipped:
            self.skipped += 1
            return
        self.tokens += tokens
        self.nats += loss * tokens
        self.text_bytes += text_bytes
        self.grad_norm += grad_norm

    @property
    def loss(self) -> float | None:
        """The mean of all tokens, in nats."""
        return self.nats / self.tokens if self.tokens else None

    @property
    def bits_per_byte(self) -> float | None:
        """Over the bytes of text that the tokens stand for."""
        return self.nats * BITS_PER_NAT / self.text_bytes if self.text_bytes else None

    def line(self) -> dict[str, Any]:
        taken = self.steps - self.skipped
        return {
            "loss": self.loss,
            "bits_per_byte": self.bits_per_byte,
            "grad_norm": self.grad_norm / taken if taken else None,
            **({"skipped_steps": self.skipped} if self.skipped else {}),
        }


class Logger(Protocol):
    """Where figures go besides the file."""

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """Figures of a step, by name."""

    def close(self) -> None: ...


class MetricsFile:
    """`metrics.jsonl`, written a whole line at a time."""

    def __init__(
        self,
        path: Path,
        after_step: int,
        *,
        note: Callable[[str], None],
        loggers: tuple[Logger, ...] = (),
    ) -> None:
        """Lines of steps above `after_step` are removed: they are of a run that ended after its last
        checkpoint. A disk that is full does not end training: that is noted, and lines wait for room."""
        self._path = path
        self._note = note
        self._loggers = loggers
        self._waiting: deque[bytes] = deque(maxlen=MOST_WAITING)
        kept = [line for line in _whole_lines(path) if orjson.loads(line)["step"] <= after_step]
        write_bytes(path, b"".join(kept))
        with storage_errors(path):
            # Without a buffer: a line is there whole or not at all.
            self._file = FileIO(path, "ab")

    def write(self, step: int, kind: str, figures: Mapping[str, Any]) -> None:
        """One line, `kind` is `train` or `validation`."""
        line = orjson.dumps({"step": step, "kind": kind, **figures}, option=orjson.OPT_APPEND_NEWLINE)
        self._waiting.append(line)
        self._write_waiting()
        numbers = {
            f"{kind}/{name}": float(value)
            for name, value in figures.items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        }
        for logger in self._loggers:
            logger.log(step, numbers)

    def sync(self) -> None:
        """Before a checkpoint is written, so that it never is ahead of the lines on disk."""
        with suppress(OSError):
            os.fsync(self._file.fileno())

    def _write_waiting(self) -> None:
        """Lines that could not be written before come first; a partly written one is truncated again."""
        size = self._file.seek(0, os.SEEK_END)
        try:
            with storage_errors(self._path):
                while self._waiting:
                    line = self._waiting[0]
                    if self._file.write(line) != len(line):
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                    size += len(line)
                    self._waiting.popleft()
        except StorageError as error:
            self._file.truncate(size)
            if len(self._waiting) == 1:  # noted once, not with each line
                self._note(f"{error.message}; training goes on ({error.hint})")

    def close(self) -> None:
        self._file.close()
        for logger in self._loggers:
            logger.close()


def _whole_lines(path: Path) -> list[bytes]:
    """Without a last line that a full disk cut short."""
    try:
        content = read_input(path)
    except FileNotFoundError:
        return []
    return [line for line in content.splitlines(keepends=True) if line.endswith(b"\n")]


# What each is imported as; the extra that brings it has the logger's name.
_LIBRARIES: Final = {"tensorboard": "tensorboardX", "wandb": "wandb"}


def check_loggers(names: Sequence[str]) -> None:
    """Raise `MissingExtra` unless each can be imported; imports nothing itself."""
    for name in names:
        if find_spec(_LIBRARIES[name]) is None:
            raise MissingExtra(f"the logger `{name}`", name)


def open_loggers(names: Sequence[str], config: KrillConfig) -> tuple[Logger, ...]:
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
        for name, value in figures.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class WeightsAndBiases:
    """A run named after the output folder; project and account come from wandb's own settings."""

    def __init__(self, config: KrillConfig) -> None:
        library = import_module(_LIBRARIES["wandb"])
        self._run: Any = library.init(
            name=Path(config.train.output_dir).name, config=to_dict(config), resume="allow"
        )

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        self._run.log(dict(figures), step=step)

    def close(self) -> None:
        self._run.finish()
