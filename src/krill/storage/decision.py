"""What a command does about the output that is there, and about a run that was not finished."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from krill.errors import ConfigError, StorageError

START: Final = "start"
CONTINUE: Final = "continue"
FINISHED: Final = "finished"
PUBLISHED: Final = "published"
PUT_INTO_PLACE: Final = "an earlier run had done everything but put its output into place: it is there now"

Differences = Callable[[Mapping[str, Any], Mapping[str, Any]], list[str]]
"""What differs between two runs, each in a few words."""


def decide(
    finished: Mapping[str, Any] | None,
    before: Mapping[str, Any] | None,
    run: Mapping[str, Any],
    *,
    overwrite: bool,
    committed: Callable[[Mapping[str, Any]], bool],
    differences: Differences,
    output: str,
    setting: str,
) -> str:
    """What a command does, given the output that is there and the unfinished run: see `RunFolder.begin`."""

    def made_differently(there: Mapping[str, Any], what: str) -> ConfigError:
        """The refusal to mix two runs in one place, naming what differs."""
        found = differences(there, run)
        if there.get("krill") != run["krill"]:
            found.append(f"Krill's version, {there.get('krill')} then and {run['krill']} now")
        return ConfigError(
            f"{what} was made differently: {'; '.join(found) or 'its identity'}",
            hint=f"use another `{setting}`, undo the change, or start anew with --overwrite",
        )

    if overwrite:
        return START
    if before is not None:
        if before.get("identity") == run["identity"]:
            if finished is None or before.get("overwrite"):
                return CONTINUE
        elif committed(before):
            raise made_differently(before, f"an unfinished run for `{output}`")
    if finished is None:
        return START
    if finished.get("identity") != run["identity"]:
        raise made_differently(finished, f"the output `{output}`")
    return FINISHED


def not_ours(output: str, setting: str) -> StorageError:
    """The refusal to write where somebody else has."""
    return StorageError(
        f"`{output}` is there already and is not a Krill output: nothing in it was touched",
        hint=f"choose another `{setting}`, or move what is there away",
    )
