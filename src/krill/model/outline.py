"""The model of a config and what training it holds, before anything runs or is installed.

In: `train:` of the config, a vocabulary, the tokens in a row. Out: the shape, its parameters by part, and
the bytes of each thing that a step holds, by plain arithmetic: exact for weights, gradients and the
optimizer, rough for activations. Nothing is held. Imports no JAX; the step's true memory comes from XLA, when
it is compiled.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from krill.config import TrainConfig
from krill.model.sizing import ModelShape, breakdown, count_parameters, find_shape, preset_shape

_FEED_FORWARD_RATIO = 8 / 3
_FLOAT = 4
# Numbers of the 8-bit optimizer that share a scale; in an embedding, those of a row do.
_BLOCK_8BIT = 256
_LEAST_8BIT = 4096
# Numbers of a layer that the backward pass needs, for each token: those as wide as the model, and as its
# feed-forward part.
_WIDE_STATES = 8
_HIDDEN_STATES = 4


@dataclass(frozen=True, slots=True)
class ModelOutline:
    """A model and what a step of its training holds, in bytes."""

    shape: ModelShape
    parts: dict[str, int]
    """Parameters: `embedding`, `attention`, `feed_forward`, `norms`."""
    step_rows: int
    row_tokens: int
    weights: int
    gradients: int
    optimizer: int
    activations: int
    """Of a whole batch with everything kept; the plan cuts and recomputes until a step fits the budget."""
    shuffle_buffer: int

    @property
    def parameters(self) -> int:
        return sum(self.parts.values())

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "parameters": self.parameters}


def model_shape(settings: TrainConfig, vocab_size: int) -> ModelShape:
    """Of the preset, of the config's own sizes, or of the target number of parameters."""
    if settings.preset is not None:
        return preset_shape(settings.preset, vocab_size)
    target = settings.target_params
    if settings.width is not None and settings.layers is not None:
        # Both together decide the size: the feed-forward part has its usual proportion.
        hidden = round(settings.width * _FEED_FORWARD_RATIO)
        target = count_parameters(ModelShape(vocab_size, settings.width, settings.layers, 1, 1, hidden))
    return find_shape(
        target,
        vocab_size,
        heads=settings.heads,
        layers=settings.layers,
        width=settings.width,
        kv_heads=settings.kv_heads,
    )


def outline(settings: TrainConfig, vocab_size: int, row_tokens: int) -> ModelOutline:
    """The model of a config with this vocabulary, trained on rows of `row_tokens`."""
    shape = model_shape(settings, vocab_size)
    parts = breakdown(shape)
    total = sum(parts.values())
    # bfloat16 counts in full: only accelerators keep it small, and the budget is the host's.
    width = 2 if settings.mixed_precision == "fp16" else _FLOAT
    tokens = settings.batch_size * row_tokens
    per_token = shape.layers * (
        _WIDE_STATES * shape.width + _HIDDEN_STATES * shape.hidden + 3 * shape.heads * row_tokens
    )
    # Streamed rows wait as 32-bit ids.
    buffered = settings.shuffle_buffer_size * row_tokens * _FLOAT if settings.streaming else 0
    return ModelOutline(
        shape,
        parts,
        settings.step_rows,
        row_tokens,
        weights=_FLOAT * total,
        gradients=_FLOAT * total,
        optimizer=_optimizer_bytes(settings, parts, shape.width),
        activations=width * tokens * per_token,
        shuffle_buffer=buffered,
    )


def _optimizer_bytes(settings: TrainConfig, parts: dict[str, int], width: int) -> int:
    if settings.optimizer == "adamw":
        return 2 * _FLOAT * sum(parts.values())
    embedding = _bytes_8bit(parts["embedding"], width)
    layers = _bytes_8bit(parts["attention"] + parts["feed_forward"], _BLOCK_8BIT)
    return 2 * _FLOAT * parts["norms"] + embedding + layers


def _bytes_8bit(count: int, block: int) -> int:
    """Both moments as bytes, and a scale of 4 bytes for each block of them."""
    return round(2 * count * (1 + _FLOAT / block)) if count >= _LEAST_8BIT else 2 * _FLOAT * count
