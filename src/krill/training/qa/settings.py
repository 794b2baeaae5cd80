"""What a reader is like and how it is trained: plain numbers, checked before anything is opened.

In: what the user gives. Out: `ReaderSettings`. Nothing is held, and no JAX is imported.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, get_args

from krill.errors import ConfigError
from krill.model.sizing import ModelShape

# As `krill.qa.batches.Strategy`, which a command line that only parses its flags would have to wait for.
Selection = Literal["answer_centered", "random_continuous", "first_n"]
# Memory vectors that are carried where the features have no memory tokens and no number is given.
DEFAULT_SLOTS: Final = 16
# Settings that change neither the weights nor how they come about.
SHAPES_NOTHING: Final = ("save_every", "keep_checkpoints", "log_every", "evaluate_every")
_HEAD_SIZE: Final = 32
# No budget has room for more numbers in a hidden state, layers or memory vectors; counting the heads of more,
# or drawing their weights, would not end, or end inside JAX.
_MOST: Final = 65_536
_POSITIVE: Final = (
    *("hidden", "layers", "heads", "bptt", "max_segments", "batch_size", "epochs", "max_steps"),
    *("log_every", "save_every", "evaluate_every", "keep_checkpoints"),
)


@dataclass(frozen=True, slots=True)
class ReaderSettings:
    """The model and its training; None leaves the choice to the features or to another setting."""

    hidden: int = 128
    """Numbers in a hidden state."""

    layers: int = 4
    """Layers of the encoder."""

    heads: int | None = None
    """Attention heads in a layer. Default: as many as leave each 32 numbers or a few more."""

    memory_tokens: int | None = None
    """Vectors that are carried from segment to segment; 0 reads each segment by itself. Default: as many as
    the features have memory tokens, else 16."""

    bptt: int | None = None
    """Segments that a gradient goes back through. Default: all of a document."""

    max_segments: int | None = None
    """Segments of a document that are read in a step, in a row. Default: all of them."""

    segment_selection: Selection = "answer_centered"
    """Which of its segments are read, of a document that has more."""

    batch_size: int = 8
    """Documents in a step."""

    epochs: int = 2
    """Times that every document is read."""

    max_steps: int | None = None
    """Steps of training. Default: as many as the epochs have."""

    learning_rate: float = 0.0005
    """Peak learning rate; it rises over a twentieth of the steps and falls along a cosine to a tenth."""

    weight_decay: float = 0.01
    """Share by which matrices shrink at each step, times the learning rate."""

    seed: int = 42
    """Seed of everything that is drawn at random."""

    log_every: int = 10
    """Steps between lines of progress."""

    save_every: int = 1000
    """Steps between checkpoints."""

    evaluate_every: int | None = None
    """Steps between evaluations. Default: with every checkpoint."""

    keep_checkpoints: int = 2
    """Newest checkpoints that are kept, beside the best."""

    def __post_init__(self) -> None:
        for name in _POSITIVE:
            number = getattr(self, name)
            if number is not None and number < 1:
                raise ConfigError(f"`{name}` is `{number}`", hint="give a number from 1 on")
        for name in ("hidden", "layers", "memory_tokens"):
            if (getattr(self, name) or 0) > _MOST:
                raise ConfigError(f"`{name}` is `{getattr(self, name)}`", hint=f"give a number up to {_MOST}")
        if self.memory_tokens is not None and self.memory_tokens < 0:
            raise ConfigError(f"`memory_tokens` is `{self.memory_tokens}`", hint="give a number from 0 on")
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise ConfigError(f"`learning_rate` is `{self.learning_rate}`", hint="give a number above 0")
        if not (math.isfinite(self.weight_decay) and self.weight_decay >= 0):
            raise ConfigError(f"`weight_decay` is `{self.weight_decay}`", hint="give a number from 0 on")
        if self.segment_selection not in get_args(Selection):
            raise ConfigError(
                f"`segment_selection` is `{self.segment_selection}`",
                hint=f"give one of {', '.join(get_args(Selection))}",
            )
        self.encoder(1)  # heads that don't divide the width are refused here

    def encoder(self, vocab_size: int) -> ModelShape:
        """The encoder's sizes; its feed-forward part has 8/3 of the width, rounded to eights."""
        heads = self.heads or _split_heads(self.hidden)
        feed_forward = -(-self.hidden * 8 // 3 // 8) * 8
        return ModelShape(vocab_size, self.hidden, self.layers, heads, heads, feed_forward)

    def shaping(self) -> dict[str, Any]:
        """What makes two trainings the same, as JSON."""
        return {name: value for name, value in asdict(self).items() if name not in SHAPES_NOTHING}


def _split_heads(width: int) -> int:
    """As many heads of an even size as come nearest to `_HEAD_SIZE` from above."""
    most = max(1, width // _HEAD_SIZE)
    return next((count for count in range(most, 1, -1) if width % (2 * count) == 0), 1)
