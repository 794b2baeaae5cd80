"""`krill preprocess`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from krill.cli.options import ConfigOptions, EngineOptions, OutputOptions, VerifyOptions, at_least


def preprocess(
    config: str,
    /,
    *,
    overwrite: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    disk: str | None = None,
    task: str | None = None,
    wait: Annotated[float | None, at_least(0)] = None,
    engine: EngineOptions = EngineOptions(),  # noqa: B008
    options: ConfigOptions = ConfigOptions(),  # noqa: B008  a frozen value, never changed
    believed: VerifyOptions = VerifyOptions(),  # noqa: B008
    output: OutputOptions = OutputOptions(),  # noqa: B008
) -> None:
    """Documents in, packed dataset out: read, clean, deduplicate, tokenise, pack.

    The same command on a killed run continues it; on a finished one it says so and does nothing.

    Parameters
    ----------
    config
        The config file (YAML). Relative paths in it are relative to the working directory.
    overwrite
        Start anew, and replace the finished output in the end; refused while it holds files that Krill did
        not write.
    disk
        The most that may be kept on disk between stages, such as 20GB.
    task
        Do one share of the work, such as 3/16, beside other processes on any machines that see the same
        folders; when all have ended, `--task finish` puts the dataset in its place.
    wait
        With --task, the seconds to wait while none of the others gets on; 600 by default.
    """
    from krill.cli.progress import watch
    from krill.cli.screen import over_budget, print_json, print_notices
    from krill.cli.screen_dataset import print_summary

    loaded = options.load(config, engine, disk=disk, verify=believed.key)
    from krill.budget import resolve_limit
    from krill.engines.rank import FINISH, PATIENCE, Rank
    from krill.errors import ConfigError
    from krill.pipeline.job import run_preprocess

    rank = None if task is None or task == FINISH else Rank.parse(task)
    if wait is not None and rank is None:
        raise ConfigError("--wait is given, and no share of the work that could wait", hint="add --task 1/2")
    if rank is not None and overwrite:
        raise ConfigError(
            f"--overwrite starts a run anew, and task {rank} is a part of one",
            hint="start the first task of a new run without it, in another `preprocess.prepared_path`",
        )
    if not output.quiet:
        print_notices(loaded.notices)
    with watch(output, limit=resolve_limit(loaded.memory)) as progress:
        summary = run_preprocess(
            loaded,
            overwrite=overwrite,
            progress=progress,
            rank=rank,
            patience=PATIENCE if wait is None else wait,
        )
    if summary is None:
        if not output.quiet:
            print_notices([f"task {rank} is done; when all are: krill preprocess {config} --task {FINISH}"])
        return
    budget = summary.manifest.budget
    if summary.status == "done" and budget["measured_peak"] > budget["limit"]:
        print_notices([over_budget(budget)])
    if output.json:
        print_json(summary.to_json())
    elif not output.quiet:
        print_summary(summary)
