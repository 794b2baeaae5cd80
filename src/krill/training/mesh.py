"""Several devices for one step: each computes its rows of the batch, with `fsdp` on its part of the state.

In: how to spread (`data` or `fsdp`) and a batch's rows. Out: a `Placement`: which device holds what, for
`first_state`, a step and a checkpoint; and inside a step `Collectives`: the communication between devices.
Held in memory by each device: with `data` the whole state and its rows' activations; with `fsdp` its part of
every weight, gradient and moment, the whole embedding, and one layer's whole weights at a time.

A step is one program that every device runs on its own part (`shard_map`), and all communication is written
out here: nothing is left to the compiler, so what a device holds is known. Losses are those of one device to
float tolerance: only the order of sums differs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from krill.errors import ConfigError
from krill.model.transformer import Layers, Transformer
from krill.training.codes8bit import BLOCK, Coded

Parallelism = Literal["none", "data", "fsdp"]
AXIS = "devices"

Tree = TypeVar("Tree")


def make_devices(kind: Parallelism, batch_rows: int) -> Placement | None:
    """All devices that JAX has, for batches of `batch_rows`; None where there is one, or `kind` is `none`."""
    count = jax.device_count()
    if kind == "none" or count == 1:
        return None
    if batch_rows % count:
        raise ConfigError(
            f"a batch of `{batch_rows}` rows can't be spread over `{count}` devices",
            hint=f"give a batch size that is a multiple of {count}",
        )
    return Placement(kind, jax.make_mesh((count,), (AXIS,), axis_types=(AxisType.Auto,)))


class DevicePart(NamedTuple):
    """The shard of the weights that a device has: `number` of `parts`, where `axes` shards them."""

    number: jax.Array
    parts: int
    axes: Any


@dataclass(frozen=True, slots=True)
class Placement:
    """Which device holds which part of a state and of a batch."""

    kind: Parallelism
    mesh: Mesh

    @property
    def count(self) -> int:
        return self.mesh.size

    @property
    def sharing_memory(self) -> int:
        """How many of them hold their part in this process's memory: all, where the CPU emulates them."""
        return self.count if self.mesh.devices.flat[0].platform == "cpu" else 1

    @property
    def batch(self) -> NamedSharding:
        """The sharding of every column (B, T) of a batch: by rows."""
        return NamedSharding(self.mesh, along(0))

    def state(self, shapes: Tree) -> Tree:
        """The sharding of every array of a state; arrays or their shapes are given."""
        found: Tree = jax.tree.map(lambda spec: NamedSharding(self.mesh, spec), self.specs(shapes))
        return found

    def specs(self, shapes: Any) -> Any:
        """The same as partition specs; moments are sharded as their weights."""

        def of_node(node: Any) -> Any:
            if not isinstance(node, Transformer):
                return along(None)
            return jax.tree.map(
                lambda axis, leaf: jax.tree.map(lambda array: _spec(axis, array, leaf), leaf),
                self.axes(shapes.model),
                node,
            )

        return jax.tree.map(of_node, shapes, is_leaf=lambda node: isinstance(node, Transformer))

    def axes(self, model: Transformer) -> Transformer:
        """The axis along which each weight is sharded, counted from its end (-1 or -2); 0 where it is not."""
        found: Transformer = (
            jax.tree.map(lambda _: 0, model)
            if self.kind == "data"
            else jax.tree_util.tree_map_with_path(self._axis, model)
        )
        return found

    def _axis(self, path: tuple[Any, ...], leaf: Any) -> int:
        if leaf.ndim < 2 or "norm" in jax.tree_util.keystr(path):
            return 0
        if "embedding" in jax.tree_util.keystr(path):
            return next((axis for axis in (-2, -1) if leaf.shape[axis] % self.count == 0), 0)
        # Whole blocks of 8-bit codes on every device, so that the same numbers share a scale as on one.
        rows, columns = leaf.shape[-2:]
        return -2 if rows % self.count == 0 and rows // self.count * columns % BLOCK == 0 else 0

    def collectives(self, model: Transformer) -> Collectives:
        return Collectives(self.count, self.axes(model))


def along(axis: int | None) -> PartitionSpec:
    """An array sharded along `axis`; None replicates it."""
    names = () if axis is None else (*[None] * axis, AXIS)
    return PartitionSpec(*names)  # type: ignore[no-untyped-call]


def _spec(axis: int, array: Any, leaf: Any) -> PartitionSpec:
    if axis == 0:
        return along(None)
    if not isinstance(leaf, Coded):
        return along(array.ndim + axis)
    # Codes are (layers, blocks, width) and their scales (layers, blocks): both are sharded along the blocks;
    # or, where rows of an embedding are sharded, each device has a part of every block and all scales.
    if axis == -1:
        return along(2 if array.ndim == 3 else None)
    return along(1)


@dataclass(frozen=True, slots=True)
class Collectives:
    """Communication inside a step; with one device every method returns what it is given."""

    count: int = 1
    axes: Any = None

    @property
    def part(self) -> DevicePart | None:
        return None if self.count == 1 else DevicePart(jax.lax.axis_index(AXIS), self.count, self.axes)

    def total(self, value: jax.Array) -> jax.Array:
        if self.count == 1:
            return value
        summed: jax.Array = jax.lax.psum(value, AXIS)  # type: ignore[no-untyped-call]
        return summed

    def layer(self, weights: Layers) -> Layers:
        """One layer's whole weights; on the way back each device gets its part of the summed gradient."""
        return weights if self.count == 1 else _all_gather(weights, self.axes.layers)

    def embedding(self, weights: jax.Array) -> jax.Array:
        """The whole embedding, in the same way."""
        return weights if self.count == 1 else _all_gather(weights, self.axes.embedding)

    def gradients(self, own: Transformer) -> Transformer:
        """Summed over devices; those of sharded weights are summed already."""
        if self.count == 1:
            return own
        summed: Transformer = jax.tree.map(
            lambda leaf, axis: leaf if axis else self.total(leaf), own, self.axes
        )
        return summed

    def norm(self, gradients: Transformer) -> jax.Array:
        """The global norm of all gradients."""
        squares = jax.tree.map(lambda leaf: jnp.vdot(leaf, leaf), gradients)
        if self.count == 1:
            return jnp.sqrt(sum(jax.tree.leaves(squares)))
        pairs = list(zip(jax.tree.leaves(squares), jax.tree.leaves(self.axes), strict=True))
        cut = sum((square for square, axis in pairs if axis), jnp.zeros(()))
        return jnp.sqrt(self.total(cut) + sum(square for square, axis in pairs if not axis))


ONE_DEVICE = Collectives()


def _all_gather(weights: Tree, axes: Any) -> Tree:
    def whole(leaf: jax.Array, axis: int) -> jax.Array:
        if axis == 0:
            return leaf
        gathered: jax.Array = jax.lax.all_gather(leaf, AXIS, axis=leaf.ndim + axis, tiled=True)
        return gathered

    found: Tree = jax.tree.map(whole, weights, axes)
    return found
