"""Which keys exist, where, and which one a wrong name was meant to be.

A `Level` is what may stand at one place of the config. It is derived from the models, so a field added
there is known here. Finding the nearest name compares one string with some eighty: nothing is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import Enum
from inspect import isclass
from typing import Any, get_args, get_origin

from pydantic import BaseModel

from krill.config.messages import Path, dotted, listed

_NEAR_ENOUGH = 0.6  # difflib's own cutoff for close matches
_LONGEST_INDEX = 10
_NEAR_ELSEWHERE = 0.75  # a key of another section must be more alike: `limit` is no misspelled `split`


@dataclass(frozen=True, slots=True)
class Level:
    """The keys at one place; a key with a `Level` of its own is a section, one with None takes a value."""

    keys: Mapping[str, Level | None]
    listed: bool = False  # a list whose every entry has these keys
    shorthand: str | None = None  # the key that a plain value here sets

    @property
    def entry(self) -> Level:
        return Level(self.keys)


def level_of(model: type[BaseModel], *, listed: bool = False) -> Level:
    """The level that a model describes, with all levels below it."""
    keys = {name: _below(field.annotation) for name, field in model.model_fields.items()}
    return Level(keys, listed, getattr(model, "shorthand", None))


def _below(annotation: Any) -> Level | None:
    if isclass(annotation) and issubclass(annotation, BaseModel):
        return level_of(annotation)
    if get_origin(annotation) is tuple:
        entry = get_args(annotation)[0]
        if isclass(entry) and issubclass(entry, BaseModel):
            return level_of(entry, listed=True)
    return None


class LeafKind(Enum):
    VALUE = "a value"
    UNKNOWN = "a key that does not exist"
    NOT_A_LIST = "a single value where a list of sections belongs"
    NOT_A_SECTION = "a value where keys belong"


@dataclass(frozen=True, slots=True)
class Leaf:
    """One value of a nested config and the place where it stands."""

    path: Path
    value: Any
    kind: LeafKind = LeafKind.VALUE


def leaves(value: Any, level: Level | None, path: Path = ()) -> Iterator[Leaf]:
    """Take a nested value apart. A list of sections comes first as empty, to replace a former one."""
    if isinstance(value, BaseModel):
        value = value.model_dump(exclude_unset=True)
    if level is None:
        yield Leaf(path, value)
    elif level.listed:
        yield from _list_leaves(value, level, path)
    elif isinstance(value, Mapping):
        for key, below in value.items():
            here = (*path, str(key))
            if key in level.keys:
                yield from leaves(below, level.keys[key], here)
            else:
                yield Leaf(here, below, LeafKind.UNKNOWN)
    elif level.shorthand is not None and isinstance(value, str):
        yield Leaf((*path, level.shorthand), value)
    elif value is not None:  # null: a section whose keys are all commented out
        yield Leaf(path, value, LeafKind.NOT_A_SECTION)


def _list_leaves(value: Any, level: Level, path: Path) -> Iterator[Leaf]:
    if value is not None and not isinstance(value, list | tuple):
        yield Leaf(path, value, LeafKind.NOT_A_LIST)
        return
    yield Leaf(path, [])
    for index, entry in enumerate(value or ()):
        yield Leaf((*path, index), {})
        yield from leaves(entry, level.entry, (*path, index))


def resolve(steps: Iterable[str], level: Level) -> tuple[Path, Level | None, bool]:
    """The place that `datasets.0.path` names, what may stand there, and whether such a key exists."""
    path: list[str | int] = []
    here: Level | None = level
    for step in steps:
        if here is not None and here.listed and step.isdecimal() and len(step) < _LONGEST_INDEX:
            path.append(int(step))
            here = here.entry
        else:
            path.append(step)
            if here is None or here.listed or step not in here.keys:
                return tuple(path), None, False
            here = here.keys[step]
    return tuple(path), here, True


@dataclass(frozen=True, slots=True)
class Suggestion:
    """The key that was probably meant, the sections that have it, and whether it was named exactly."""

    name: str
    sections: tuple[Path, ...]
    exact: bool

    def hint(self, wrong: Path) -> str:
        """What to write instead of `wrong`."""
        if wrong[:-1] in self.sections:
            return f"did you mean `{self.name}`?"
        for section in self.sections:
            if section[:-1] == wrong[:-1] and section and isinstance(section[-1], int):
                return f"did you mean `{dotted((*section, self.name))}`?"
        places = " or ".join(map(_place, self.sections))
        return (
            f"it belongs {places}" if self.exact else f"did you mean `{self.name}`, which belongs {places}?"
        )


def _place(section: Path) -> str:
    names = tuple(step for step in section if isinstance(step, str))
    return f"under `{dotted(names)}:`" if names else "at the top level"


def suggest(wrong: Path, root: Level, aliases: Mapping[str, Path]) -> Suggestion | None:
    """The known key nearest to a wrong one: the same name elsewhere, else the most alike, own level first.

    `aliases` are names that are known only at the top level, with the canonical key of each.
    """
    name, section = str(wrong[-1]), wrong[:-1]
    if section and name in aliases:
        *home, meant = aliases[name]
        return Suggestion(str(meant), (tuple(home),), exact=meant == name)
    known = sorted(_sections(root, section), key=lambda found: found[0] != section)
    homes = tuple(place for place, level in known if name in level.keys)
    if homes:
        return Suggestion(name, homes, exact=True)
    best, best_likeness = None, 0.0
    for place, level in known:
        found = nearest(name, level.keys, _NEAR_ENOUGH if place == section else _NEAR_ELSEWHERE)
        if found is not None and _likeness(name, found) > best_likeness:
            best, best_likeness = Suggestion(found, (place,), exact=False), _likeness(name, found)
    return best


def nearest(name: str, known: Iterable[str], near_enough: float = _NEAR_ENOUGH) -> str | None:
    """The known name most like this one, or None where nothing is alike; the first in order on a tie."""
    found = max(known, key=lambda candidate: _likeness(name, candidate), default=None)
    return found if found is not None and _likeness(name, found) >= near_enough else None


def known_here(path: Path, root: Level) -> str:
    """The keys that exist beside a wrong one, for when no name is alike."""
    for place, level in _sections(root, path[:-1]):
        if place == path[:-1]:
            return f"known keys here are {listed(sorted(level.keys))}"
    return f"`{dotted(path[:-1])}` has no keys of its own"


def _likeness(left: str, right: str) -> float:
    return SequenceMatcher(None, left.lower(), right.lower(), autojunk=False).ratio()


def _sections(level: Level, asked: Path, path: Path = ()) -> Iterator[tuple[Path, Level]]:
    """Every section; a list's is the entry that `asked` lies in, else the first."""
    if level.listed:
        inside = len(asked) > len(path) and asked[: len(path)] == path
        path = (*path, asked[len(path)] if inside else 0)
    yield path, level
    for name, below in level.keys.items():
        if below is not None:
            yield from _sections(below, asked, (*path, name))
