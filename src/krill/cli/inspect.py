"""`krill inspect`, also as the seed's `krill inspect-dataset CONFIG`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from krill.cli.config_argument import config_at
from krill.cli.options import OutputOptions, at_least


def inspect(
    path: str,
    /,
    *,
    samples: Annotated[int, at_least(0)] = 2,
    seed: int = 0,
    duplicates: bool = False,
    memory: str = "auto",
    output: OutputOptions = OutputOptions(),  # noqa: B008  a frozen value, never changed
) -> None:
    """Look into an output: samples, lengths, reasons for drops, stages, memory.

    Parameters
    ----------
    path
        A folder that Krill has made, or the config (YAML) that names it as its `prepared_path`.
    samples
        How many rows, or clusters, to show.
    seed
        Which rows: the same seed shows the same.
    duplicates
        Show clusters of near-duplicates instead, side by side: what was kept, and what was dropped for it.
        The run must have kept them (`rejected: true`, `dedup: {method: minhash, clusters: true}`).
    memory
        The memory budget, such as 512MB, 2GiB or auto: half of what this process may use.
    """
    from krill.cli.screen import print_json
    from krill.cli.screen_dataset import print_clusters, print_inspection
    from krill.pipeline.look import look_at_duplicates, look_into

    config = config_at(path)
    folder = Path(path if config is None else config.preprocess.prepared_path)
    if duplicates:
        clusters = look_at_duplicates(folder, count=samples, memory=memory)
        if output.json:
            print_json({"clusters": [cluster.to_json() for cluster in clusters]})
        elif not output.quiet:
            print_clusters(clusters)
        return
    inspection = look_into(folder, samples=samples, seed=seed, memory=memory)
    if output.json:
        print_json(inspection.to_json())
    elif not output.quiet:
        print_inspection(inspection)
