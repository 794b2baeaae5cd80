"""How large a model is, exactly, and which shape has a given number of parameters.

In: a target and a vocabulary. Out: a `ModelShape` within 2 % of it, the same one every time. Held in memory:
nothing. Imports nothing but Python, so that a plan can be made where JAX is not installed.

The search tries every width and depth that can reach the target and solves for the width of the feed-forward
part, the one knob fine enough to hit it. Among what is close enough the best proportioned shape wins: about
`2 + width / 96` layers (three at 96, six at 384, ten at 768, twenty-three at 2,048: what published models of
each size have), a feed-forward part of 8/3 of the width, and sizes that vector units like.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from krill.errors import ConfigError

TOLERANCE = 0.02
# Closer than this is not worth a worse proportioned shape.
_CLOSE = 0.01
_HEAD_SIZES = range(16, 129, 2)
_MOST_LAYERS = 96
_WIDEST = 8192
# The feed-forward part against the width: 8/3 is as many weights as a plain one of 4x has.
_HIDDEN_RATIO = 8 / 3
_MOST_HIDDEN_RATIO = 8


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The sizes of a decoder: everything that decides its weights and what they compute."""

    vocab_size: int
    width: int
    layers: int
    heads: int
    kv_heads: int
    hidden: int
    rope_theta: float = 10000.0
    norm_eps: float = 1e-5

    def __post_init__(self) -> None:
        for name in ("vocab_size", "width", "layers", "heads", "kv_heads", "hidden"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise ConfigError(
                    f"a model's `{name}` is `{str(value)[:80]}`", hint="give a whole number of at least 1"
                )
        if not (math.isfinite(self.rope_theta) and self.rope_theta > 0):
            raise ConfigError(f"a model's `rope_theta` is `{self.rope_theta}`", hint="give a number above 0")
        if not (math.isfinite(self.norm_eps) and self.norm_eps >= 0):
            raise ConfigError(f"a model's `norm_eps` is `{self.norm_eps}`", hint="give a number from 0 on")
        if self.width % self.heads or (self.width // self.heads) % 2:
            raise ConfigError(
                f"a width of `{self.width}` can't be split over `{self.heads}` heads of an even size",
                hint=f"give a width that is a multiple of {2 * self.heads}",
            )
        if self.heads % self.kv_heads:
            raise ConfigError(
                f"`{self.heads}` heads can't share `{self.kv_heads}` heads of keys and values",
                hint="give a number of kv heads that divides the heads",
            )

    @property
    def head_size(self) -> int:
        return self.width // self.heads

    @property
    def kv_width(self) -> int:
        return self.head_size * self.kv_heads


# Without the vocabulary, which the tokenizer decides: width, layers, heads, kv heads, feed-forward width.
PRESETS: dict[str, tuple[int, int, int, int, int]] = {
    "tiny": (128, 4, 4, 4, 352),
    "mini": (256, 6, 8, 8, 704),
    "small": (512, 8, 8, 8, 1408),
    "base": (768, 12, 12, 12, 2048),
    "large": (1024, 24, 16, 16, 2816),
    "xl": (2048, 22, 32, 4, 5632),
}


def preset_shape(name: str, vocab_size: int) -> ModelShape:
    if name not in PRESETS:
        raise ConfigError(
            f"there is no model preset `{name}`", hint=f"give one of {', '.join(PRESETS)}, or a target"
        )
    width, layers, heads, kv_heads, hidden = PRESETS[name]
    return ModelShape(vocab_size, width, layers, heads, kv_heads, hidden)


def count_parameters(shape: ModelShape) -> int:
    """Every weight, once: the embedding is tied to the output."""
    return sum(breakdown(shape).values())


def breakdown(shape: ModelShape) -> dict[str, int]:
    width, layers = shape.width, shape.layers
    return {
        "embedding": shape.vocab_size * width,
        "attention": layers * 2 * width * (width + shape.kv_width),
        "feed_forward": layers * 3 * width * shape.hidden,
        "norms": (2 * layers + 1) * width,
    }


def find_shape(
    target_params: int,
    vocab_size: int,
    *,
    heads: int | None = None,
    layers: int | None = None,
    width: int | None = None,
    kv_heads: int | None = None,
) -> ModelShape:
    """The best proportioned shape within 2 % of `target_params`; what is given is kept as it is."""
    best: tuple[float, ModelShape] | None = None
    reach: list[int] = []
    for wide, split in _frames(heads, width, kv_heads):
        frame = ModelShape(vocab_size, wide, layers or 1, split, kv_heads or split, wide)
        reach.append(count_parameters(frame))
        if reach[-1] > target_params * (1 + TOLERANCE):
            break
        for deep in _depths(frame, target_params) if layers is None else (layers,):
            deeper = replace(frame, layers=deep)
            if best is not None and _frame_badness(deeper) >= best[0]:
                continue
            fitted = _fit_hidden(deeper, target_params)
            if fitted is not None and (best is None or _badness(fitted, target_params) < best[0]):
                best = _badness(fitted, target_params), fitted
    if best is None:
        raise _out_of_reach(target_params, vocab_size, reach)
    return best[1]


def _depths(frame: ModelShape, target: int) -> range:
    """How many layers of this width can reach the target, from the widest feed-forward part to the least."""
    outside = (frame.vocab_size + 1) * frame.width
    thin = count_parameters(frame) - outside
    thick = thin + 3 * frame.width * frame.width * (_MOST_HIDDEN_RATIO - 1)
    fewest = math.ceil((target * (1 - TOLERANCE) - outside) / thick)
    most = math.floor((target * (1 + TOLERANCE) - outside) / thin)
    return range(max(fewest, 1), min(most, _MOST_LAYERS) + 1)


def _frames(heads: int | None, width: int | None, kv_heads: int | None) -> Iterator[tuple[int, int]]:
    """Every width that may be tried, narrowest first, and the heads it is split into."""
    for wide in _widths(heads) if width is None else (width,):
        split = _split_heads(wide, kv_heads) if heads is None else heads
        if split is not None and wide % split == 0 and wide // split in _HEAD_SIZES:
            yield wide, split
        elif width is not None:
            raise _no_heads(wide, heads, kv_heads)


def _widths(heads: int | None) -> Iterator[int]:
    """Every width that could do, in steps that grow with it; multiples of the heads when those are given."""
    if heads is not None:
        yield from (heads * size for size in _HEAD_SIZES if heads * size <= _WIDEST)
        return
    yield from range(16, 256, 2)
    yield from range(256, 1024, 8)
    yield from range(1024, _WIDEST + 1, 64)


def _split_heads(width: int, kv_heads: int | None) -> int | None:
    """The number of heads whose size is nearest to 64 in wide models and to 32 in narrow ones."""
    preferred = 64 if width >= 512 else 32
    sizes = [
        size
        for size in _HEAD_SIZES
        if width % size == 0 and (kv_heads is None or (width // size) % kv_heads == 0)
    ]
    if not sizes:
        return None
    return width // min(sizes, key=lambda size: (abs(math.log(size / preferred)), size))


def _fit_hidden(frame: ModelShape, target: int) -> ModelShape | None:
    """The frame with the feed-forward width that comes nearest, as round a number as stays close."""
    slope = 3 * frame.layers * frame.width
    ideal = frame.width + (target - count_parameters(frame)) / slope
    for step in (64, 32, 16, 8, 4, 2, 1):
        hidden = round(ideal / step) * step
        hidden = min(max(hidden, frame.width), _MOST_HIDDEN_RATIO * frame.width)
        shape = replace(frame, hidden=hidden)
        if _miss(shape, target) <= (_CLOSE if step > 1 else TOLERANCE):
            return shape
    return None


def _miss(shape: ModelShape, target: int) -> float:
    return abs(count_parameters(shape) - target) / target


def _badness(shape: ModelShape, target: int) -> float:
    """How far a shape is from the proportions that serve well; smaller is better."""
    rough = next(cost for step, cost in _UNEVEN if shape.hidden % step == 0)
    return (
        _frame_badness(shape)
        + abs(math.log(shape.hidden / (_HIDDEN_RATIO * shape.width)))
        + rough / 2
        + 10 * _miss(shape, target)
    )


def _frame_badness(shape: ModelShape) -> float:
    """The part of it that the feed-forward width doesn't change: what no choice of that can mend."""
    usual_layers = 2 + shape.width / 96
    uneven = next(cost for step, cost in _UNEVEN if shape.width % step == 0)
    return abs(math.log(shape.layers / usual_layers)) + uneven + abs(math.log(shape.head_size / 64)) / 8


# What it costs to be a multiple of no larger number than this.
_UNEVEN = ((64, 0.0), (32, 0.03), (16, 0.08), (8, 0.15), (4, 0.3), (2, 0.4), (1, 0.5))


def _no_heads(width: int, heads: int | None, kv_heads: int | None) -> ConfigError:
    if heads is not None:
        return ConfigError(
            f"a width of `{width}` can't be split over `{heads}` heads",
            hint=f"a head has an even size from {_HEAD_SIZES[0]} to {_HEAD_SIZES[-1]}; width = heads x size",
        )
    shared = "" if kv_heads is None else f" that are a multiple of `{kv_heads}` kv heads"
    return ConfigError(
        f"a width of `{width}` can't be split into heads{shared}",
        hint="give a width that is a multiple of 32, or --heads",
    )


def _out_of_reach(target: int, vocab_size: int, reach: list[int]) -> ConfigError:
    least = min(reach, default=0)
    if target < least:
        return ConfigError(
            f"`{target:,}` parameters are too few: with a vocabulary of `{vocab_size:,}` the least possible"
            f" is {least:,}, since the embedding grows with the vocabulary",
            hint=f"give --target-params {least} or more, or a smaller --vocab-size",
        )
    return ConfigError(
        f"no well proportioned model with these settings has `{target:,}` parameters",
        hint="leave out one of --width, --layers, --heads and --kv-heads, or change --target-params",
    )
