"""How well the computed order shuffles: how far apart neighbours end up, against a full shuffle.

Comes in: the rows of an epoch, in order. Goes out: distances, to be compared with those of a full shuffle.
Held in memory: a few numbers for each row.

In a full shuffle, two rows that lie side by side are a third of the epoch apart on average, and the chance
that they meet in a batch of 32 is about 64 in the number of rows.

    python benchmarks/shuffle_quality.py
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from krill.loading.order import Shuffled

ROWS, BLOCK_ROWS = 1_000_000, 256
WINDOWS = (1_024, 8_192, 65_536, 262_144)


@dataclass(frozen=True, slots=True)
class NeighbourDistances:
    """Of rows that lie side by side: the distance in the order as a share of the epoch, and the share of
    pairs that are less than a batch of 32 apart."""

    mean: float
    median: float
    within_a_batch: float


def neighbour_distances(order: npt.NDArray[np.int64], batch_size: int = 32) -> NeighbourDistances:
    """What became of each pair of neighbours in an order of at least two rows."""
    places: npt.NDArray[Any] = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    apart = np.abs(np.diff(places))
    return NeighbourDistances(
        mean=float(apart.mean()) / len(order),
        median=float(np.median(apart)) / len(order),
        within_a_batch=float((apart < batch_size).mean()),
    )


def main() -> None:
    """A table over windows, and the full shuffle."""
    orders = {f"window {window:,}": Shuffled(ROWS, BLOCK_ROWS, window) for window in WINDOWS}
    print(f"{ROWS:,} rows in blocks of {BLOCK_ROWS}; of rows side by side:")
    for name, order in orders.items():
        tell(name, neighbour_distances(order.rows((0, 0), 0, ROWS)))
    tell("full shuffle", neighbour_distances(np.random.default_rng(0).permutation(ROWS)))


def tell(name: str, found: NeighbourDistances) -> None:
    print(f"{name:16} {found.mean:7.2%} of the epoch apart, {found.within_a_batch:.4%} within a batch of 32")


if __name__ == "__main__":
    main()
