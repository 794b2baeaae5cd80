"""Adam whose running mean and deviation take one byte each.

In: gradients. Out: updates, and a state of 2.03 bytes a parameter: a code each for the mean and for the root
of the running square, and two scales for every 256. Held in memory: that, and a tile's float32 numbers: a
tensor is worked on tile by tile, in place, so nothing else of its size comes into being. Blocks of 256 lie
inside a layer, so that devices which hold parts of every layer hold whole blocks of them.

An embedding's rows have gradients of very different sizes (a rare token has next to none for most steps), so
there a block is a row: no token's numbers are rounded by the size of another's. That is 2.10 bytes a
parameter in rows of 80. Tensors under 4,096 elements keep 32-bit numbers, which cost nothing. The square is
kept as its root, which has half the range, and never in even steps, which diverge.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from krill.training.codes8bit import (
    BLOCK,
    Coded,
    decode_deviation,
    decode_mean,
    encode_deviation,
    encode_mean,
    random_bits,
)
from krill.training.mesh import AXIS, DevicePart

LEAST_ELEMENTS = 4096
# 262,144 numbers: a few arrays of 1 MB, which stay in the cache.
TILE_BLOCKS = 1024


class Adam8bitState(NamedTuple):
    """Steps taken; for each weight the mean and the deviation, as `Coded` or as a float32 array."""

    steps: jax.Array
    mean: Any
    deviation: Any


class _Rates(NamedTuple):
    """What Adam multiplies with at one step."""

    mean: float
    square: float
    eps: float
    mean_correction: jax.Array
    square_correction: jax.Array


def block_size(path: tuple[Any, ...], leaf: Any) -> int | None:
    """How many numbers of a weight's state share a scale; None where all are kept in full."""
    if leaf.size < LEAST_ELEMENTS:
        return None
    return int(leaf.shape[-1]) if "embedding" in jax.tree_util.keystr(path) else BLOCK


def scale_by_adam8bit(
    b1: float = 0.9, b2: float = 0.95, eps: float = 1e-8, *, tile_blocks: int = TILE_BLOCKS
) -> optax.GradientTransformationExtraArgs:
    """As `optax.scale_by_adam`, with the state in 8 bits; `part` says which part of the weights is given."""

    def init(weights: Any) -> Adam8bitState:
        def empty(path: tuple[Any, ...], leaf: Any) -> Any:
            block = block_size(path, leaf)
            if block is None:
                return jnp.zeros(leaf.shape, jnp.float32)
            size = int(math.prod(leaf.shape[:-2])), -int(-math.prod(leaf.shape[-2:]) // block)
            return Coded(jnp.zeros((*size, block), jnp.uint8), jnp.zeros(size, jnp.float32))

        # Two trees of their own: buffers that are donated can't be the same ones.
        mean, deviation = (jax.tree_util.tree_map_with_path(empty, weights) for _ in range(2))
        return Adam8bitState(jnp.zeros((), jnp.int32), mean, deviation)

    def update(
        gradients: Any, state: Adam8bitState, weights: Any = None, *, part: DevicePart | None = None, **_: Any
    ) -> tuple[Any, Adam8bitState]:
        steps = state.steps + 1
        power = steps.astype(jnp.float32)
        rates = _Rates(b1, b2, eps, 1 - b1**power, 1 - b2**power)
        leaves, structure = jax.tree.flatten(gradients)
        tree: Any = structure
        means, deviations = tree.flatten_up_to(state.mean), tree.flatten_up_to(state.deviation)
        cuts = [0] * len(leaves) if part is None else tree.flatten_up_to(part.axes)
        done: list[tuple[Any, Any, Any]] = []
        for number, (gradient, mean, deviation) in enumerate(zip(leaves, means, deviations, strict=True)):
            if isinstance(mean, Coded):
                step = functools.partial(
                    _coded_tile, rates, steps, number, _BlockRange.of(mean, part, cuts[number])
                )
                done.append(_in_tiles(step, gradient, mean, deviation, tile_blocks))
            else:
                done.append(_adam(rates, gradient, mean, deviation))
        updates, means, deviations = (tree.unflatten(column) for column in zip(*done, strict=True))
        return updates, Adam8bitState(steps, means, deviations)

    return optax.GradientTransformationExtraArgs(init, update)


def _adam(
    rates: _Rates, gradient: jax.Array, mean: jax.Array, deviation: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Adam's own arithmetic, with the root of the running square in its place."""
    gradient = gradient.astype(jnp.float32)
    mean = rates.mean * mean + (1 - rates.mean) * gradient
    square = rates.square * deviation * deviation + (1 - rates.square) * gradient * gradient
    update = mean / rates.mean_correction / (jnp.sqrt(square / rates.square_correction) + rates.eps)
    return update, mean, jnp.sqrt(square)


class _BlockRange(NamedTuple):
    """Which part of a tensor a device has: some blocks of each layer, or some columns of each block."""

    layer_blocks: int
    width: int
    part: DevicePart | None
    by_columns: bool

    @classmethod
    def of(cls, coded: Coded, part: DevicePart | None, axis: int) -> _BlockRange:
        """`axis` is the one along which the weight is cut, 0 where it is whole."""
        _, layer_blocks, width = coded.codes.shape
        return cls(layer_blocks, width, part if axis else None, axis == -1)

    def bits(self, own: jax.Array, steps: jax.Array, tensor: int) -> jax.Array:
        """Random bits for the device's own blocks, those that they would have in the whole tensor."""
        if self.part is None:
            return random_bits(own, steps, tensor, width=self.width)
        if self.by_columns:
            columns = self.part.number * self.width + jnp.arange(self.width)
            return random_bits(own, steps, tensor, columns, self.part.parts * self.width)
        layer, block = own // self.layer_blocks, own % self.layer_blocks
        there = (layer * self.part.parts + self.part.number) * self.layer_blocks + block
        return random_bits(there, steps, tensor, width=self.width)

    def largest(self, own: jax.Array) -> jax.Array:
        """The largest value of each whole block, from those of the device's part."""
        if self.part is None or not self.by_columns:
            return own
        found: jax.Array = jax.lax.pmax(own, AXIS)  # type: ignore[no-untyped-call]
        return found


def _coded_tile(
    rates: _Rates,
    steps: jax.Array,
    tensor: int,
    where: _BlockRange,
    first: jax.Array,
    parts: tuple[jax.Array, Coded, Coded],
) -> tuple[jax.Array, Coded, Coded]:
    """The same over some blocks, from block `first` of the tensor on."""
    gradient, mean, deviation = parts
    updated = _adam(rates, gradient, decode_mean(mean), decode_deviation(deviation))
    noise = where.bits(first + jnp.arange(gradient.shape[0]), steps, tensor)
    # Both roundings take bits of the same hash, from its two ends.
    return (
        updated[0],
        encode_mean(updated[1], noise >> 12, where.largest),
        encode_deviation(updated[2], noise, where.largest),
    )


def _in_tiles(
    step: Any, gradient: jax.Array, mean: Coded, deviation: Coded, tile: int
) -> tuple[jax.Array, Coded, Coded]:
    """Whole tiles in a loop that writes into what it reads, then what is left of them."""
    layers, layer_blocks, width = mean.codes.shape
    tile = max(1, tile * BLOCK // width)
    blocks = layers * layer_blocks
    flat = gradient.reshape(layers, -1)
    size = flat.shape[1]
    flat = jnp.pad(flat, ((0, 0), (0, -size % width))) if size % width else flat

    def rows(coded: Coded) -> Coded:
        return Coded(coded.codes.reshape(blocks, width), coded.scales.reshape(blocks))

    parts = flat.reshape(blocks, width), rows(mean), rows(deviation)

    def at(first: jax.Array, rows: int, parts: Any) -> Any:
        taken = jax.tree.map(lambda part: jax.lax.dynamic_slice_in_dim(part, first, rows), parts)
        return jax.tree.map(
            lambda part, new: jax.lax.dynamic_update_slice_in_dim(part, new.astype(part.dtype), first, 0),
            parts,
            step(first, taken),
        )

    whole, left = divmod(blocks, tile)
    if whole:
        parts = jax.lax.fori_loop(0, whole, lambda number, parts: at(number * tile, tile, parts), parts)
    if left:
        parts = at(jnp.asarray(whole * tile, jnp.int32), left, parts)
    update, mean, deviation = parts

    def shaped(coded: Coded) -> Coded:
        return Coded(coded.codes.reshape(layers, -1, width), coded.scales.reshape(layers, -1))

    return update.reshape(layers, -1)[:, :size].reshape(gradient.shape), shaped(mean), shaped(deviation)
