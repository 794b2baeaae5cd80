"""Where a loader is: a few integers, and what they are bound to.

Comes in and goes out: a dictionary that JSON can hold. Held in memory: the same.

A state counts the rows that all ranks together have taken of the epoch. So it is the same on every rank, it
holds for any number of ranks or workers, and going on from it costs the same wherever it stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from krill.errors import ConfigError, InputError

VERSION = 1
_HINT = "load a state with the dataset and the arguments that it was made with"


@dataclass(frozen=True)
class Identity:
    """Everything that shapes the order of rows. A state of another order would repeat some and miss
    others."""

    fingerprint: str
    seed: int
    shuffle: bool
    shuffle_window: int | None
    mixture: Mapping[str, Any] | None


def make_state(identity: Identity, epoch: int, samples: int) -> dict[str, Any]:
    return {"version": VERSION, "epoch": epoch, "samples": samples, **asdict(identity)}


def read_state(state: Mapping[str, Any], identity: Identity, most: int, name: str) -> tuple[int, int]:
    """The epoch and the samples of a state, which must be of `identity`; `name` is the dataset's."""
    if not isinstance(state, Mapping) or "version" not in state:
        raise ConfigError("this is not a loader's state: it has no `version`", hint=_HINT)
    if state["version"] != VERSION:
        raise ConfigError(f"the state has version `{state['version']}`, and this Krill reads {VERSION}")
    expected = asdict(identity)
    if state.get("fingerprint") != identity.fingerprint:
        raise InputError(
            f"the state belongs to another dataset than `{name}`: its fingerprint is"
            f" `{state.get('fingerprint')}`, not `{identity.fingerprint}`",
            hint=_HINT,
        )
    differing = [key for key, value in expected.items() if state.get(key) != value]
    if differing:
        shown = ", ".join(f"`{key}` is `{state.get(key)}`, not `{expected[key]}`" for key in differing)
        raise ConfigError(f"the state belongs to another order: {shown}", hint=_HINT)
    return _count(state, "epoch", 2**63), _count(state, "samples", most)


def _count(state: Mapping[str, Any], name: str, most: int) -> int:
    value = state.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise ConfigError(f"the state's `{name}` is `{value}`", hint=f"it must be from 0 to {most}")
    return value
