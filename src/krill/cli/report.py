"""`krill report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from krill.budget import format_size
from krill.cli.options import OutputOptions, Switch, load_if_config
from krill.errors import ConfigError


def report(
    paths: Annotated[tuple[str, ...], Parameter(negative="")],
    /,
    *,
    output: Path = Path("report.html"),
    no_samples: Switch = False,
    memory: str = "auto",
    display: OutputOptions = OutputOptions(),  # noqa: B008  a frozen value, never changed
) -> None:
    """Make a page to look at: where documents went and why, memory, time, tokens, curves.

    The page is one file that needs no network. Runs may be finished, stopped or at work; several
    are compared.

    Parameters
    ----------
    paths
        What `krill preprocess`, `tokenizer train`, `train`, `qa prepare`, `qa train`, `export` made, here or
        in an object store; a folder with a `tokenizer.json`; or a config (YAML), for its `prepared_path`.
    output
        The page; an earlier report of that name is replaced.
    no_samples
        Leave all texts of documents out, for sharing.
    memory
        The memory budget, such as 512MB, 2GiB or auto: half of what this process may use.
    """
    from krill.cli.screen import console_of, print_json
    from krill.report.page import write_report

    if not paths:
        raise ConfigError(
            "no run is named", hint="krill report PATH, such as the `prepared_path` of a config"
        )
    configs = {path: load_if_config(path) for path in paths}
    named = [path if (config := configs[path]) is None else config.preprocess.prepared_path for path in paths]
    made = write_report(named, output, samples=not no_samples, memory=memory)
    if display.json:
        print_json(made.to_json())
    elif not display.quiet:
        console_of().print(f"{made.output}: {format_size(made.bytes)}; open it in a browser")
