"""Batches for JAX.

In: a loaded dataset, and where arrays shall be. Out: dictionaries of `jax.Array`s, int32, placed on the
devices, each process giving its own rows. While a batch is used the next one is on its way to the devices.
Held in memory: that batch, on the devices, besides what the loader holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from krill.errors import ConfigError, MissingExtra
from krill.loading.columns import Batch
from krill.loading.loader import Loader

try:
    import jax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding
except ImportError as error:
    raise MissingExtra("loading for JAX", "train") from error

if TYPE_CHECKING:
    from krill.loading.dataset import LoadedDataset

Arrays = dict[str, jax.Array]

# JAX leaves these without types.
_spec: Any = PartitionSpec
_array_of_local_rows: Any = jax.make_array_from_process_local_data


def jax_loader(
    dataset: LoadedDataset,
    *,
    batch_size: int,
    mesh: Mesh | None = None,
    sharding: Sharding | None = None,
    rank: int | None = None,
    world: int | None = None,
    **options: Any,
) -> JaxBatches:
    """Batches of `batch_size` rows from each process. With a `mesh` they are split over its first axis; a
    `sharding` of arrays [rows, tokens] says it in full; without either they are on the default device."""
    if mesh is not None and sharding is not None:
        raise ConfigError("`mesh` and `sharding` say the same", hint="give one of them")
    if mesh is not None:
        sharding = NamedSharding(mesh, _spec(mesh.axis_names[0]))
    if rank is None and world is None:
        rank, world = jax.process_index(), jax.process_count()
    loader = dataset.loader(batch_size=batch_size, rank=rank, world=world, **options)
    if sharding is not None:
        _check_split(sharding, (loader.global_batch, dataset.source.width))
        if not options.get("drop_last", True):
            raise ConfigError(
                "`drop_last` is `False`: a last batch of fewer rows can't be split over the devices",
                hint="leave `drop_last` out",
            )
    return JaxBatches(loader, sharding)


class JaxBatches:
    """Iterates from its state to the end of the epoch. The state counts what was handed out, and not the
    batch that is on its way."""

    def __init__(self, loader: Loader, sharding: Sharding | None) -> None:
        self.loader = loader
        self.sharding = sharding
        self._remember()

    def __len__(self) -> int:
        return self._left

    def __iter__(self) -> Iterator[Arrays]:
        # A loop that was left early had one batch on its way, which was not handed out.
        self.loader.load_state_dict(self._state)
        ahead: tuple[Arrays, dict[str, Any]] | None = None
        for batch in self.loader:
            placed, ahead = ahead, (self._placed(batch), self.loader.state_dict())
            if placed is not None:
                yield self._handed_out(*placed)
        if ahead is not None:
            yield self._handed_out(*ahead)
        self._remember()  # by now the loader is at the next epoch

    def _remember(self) -> None:
        self._state, self._left = self.loader.state_dict(), len(self.loader)

    def _handed_out(self, arrays: Arrays, state: dict[str, Any]) -> Arrays:
        self._state = state
        self._left -= 1
        return arrays

    def _placed(self, batch: Batch) -> Arrays:
        if self.sharding is None:
            return {name: jax.device_put(column) for name, column in batch.items()}
        sharding = self.sharding
        return {
            name: _array_of_local_rows(sharding, column, (len(column) * self.loader.world, *column.shape[1:]))
            for name, column in batch.items()
        }

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch, unless it is the one that the state is in."""
        self.loader.load_state_dict(self._state)
        self.loader.set_epoch(epoch)
        self._remember()

    def state_dict(self) -> dict[str, Any]:
        """After the batch that was last handed out."""
        return dict(self._state)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.loader.load_state_dict(state)
        self._remember()

    def close(self) -> None:
        """End what is on its way; the batches can still be used."""
        self.loader.close()


def _check_split(sharding: Sharding, shape: tuple[int, int]) -> None:
    """JAX would say so too, at the first batch."""
    try:
        sharding.shard_shape(shape)
    except ValueError as error:
        rows, tokens = shape
        raise ConfigError(
            f"batches of {rows} rows can't be split over the devices as `{sharding}` says: {error}",
            hint=f"{rows} rows and {tokens} tokens must be multiples of the devices that they are split over",
        ) from error
