"""A config put together from its layers.

In: single settings, each with the layer it comes from (file, environment, `--set`, argument) and the name
it was written under. Out: one nested tree of canonical keys for the models to check, the notices to
print, and for every key the place where it was written, so that an error can point there. A later layer
wins over an earlier one; inside one layer, two names of the same setting must agree.

The environment and overrides name a key and carry its value as text. `KRILL_PREPROCESS__SEQUENCE_LEN=512` and
`--set preprocess.sequence_len=512` say the same; entries of a list are named by their index, as
`datasets.0.path`. pydantic-settings is not used for them: it passes over unknown variables in silence, can't
name an entry of a list, forgets where a value came from, and takes 12 MB and half a second to import.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

from krill.config.aliases import (
    DATATROVE_KEYS,
    DATATROVE_LEVEL,
    FLAT_KEYS,
    MOVED_FROM_TOP,
    Appended,
    Inert,
    Moved,
    Rule,
    Switched,
)
from krill.config.axolotl import asks_nothing, remedy
from krill.config.keys import Leaf, LeafKind, Level, known_here, leaves, resolve, suggest
from krill.config.messages import MOST_LISTED, Path, dotted, join_faults, shown
from krill.config.yaml_file import parse_value
from krill.errors import ConfigError

DATATROVE = "datatrove"
VARIABLE_PREFIX = "KRILL_"
OTHER_VARIABLES = frozenset({"KRILL_NO_PROGRESS"})
"""Variables of Krill's that are not keys of the config."""


class Layer(IntEnum):
    """Where settings come from; a higher one wins."""

    FILE = 0
    ENVIRONMENT = 1
    OVERRIDE = 2
    ARGUMENT = 3


@dataclass(frozen=True, slots=True)
class Origin:
    layer: Layer
    name: str
    where: str

    def describe(self, path: Path) -> str:
        """The place, with the name that was used unless it is the canonical one."""
        return self.where if self.name == dotted(path) else f"`{self.name}` in {self.where}"


class ConfigMerger:
    """The layers so far. `canonical` is the level of the models; the seeds' keys are added to it here."""

    def __init__(self, canonical: Level) -> None:
        self._canonical = canonical
        self.level = Level({**canonical.keys, **dict.fromkeys(FLAT_KEYS), DATATROVE: DATATROVE_LEVEL})
        self.tree: dict[str, Any] = {}
        self.notices: list[str] = []
        self.datatrove: dict[str, Any] = {}
        self._origins: dict[Path, Origin] = {}
        self._holders: set[Path] = set()  # places inside of which something was put
        self._unknown: list[tuple[Path, Origin]] = []

    def add_tree(self, tree: Any, layer: Layer, where: Callable[[Path], str]) -> None:
        """Add a nested config; `where` gives the place of a key in it."""
        for leaf in leaves(tree, self.level):
            self._add_leaf(leaf, Origin(layer, dotted(leaf.path), where(leaf.path)))

    def add_environment(self, environ: Mapping[str, str]) -> None:
        """Every `KRILL_A__B=value`; the order of the environment does not matter."""
        for name in sorted(environ):
            if name.startswith(VARIABLE_PREFIX) and name not in OTHER_VARIABLES:
                key = name.removeprefix(VARIABLE_PREFIX).lower()
                origin = Origin(Layer.ENVIRONMENT, dotted((name,)), "the environment")
                self._add_value(key.split("__"), parse_value(environ[name]), origin)

    def add_overrides(self, overrides: Iterable[str]) -> None:
        """Every `a.b=value`, a later one winning over an earlier one."""
        for override in overrides:
            key, equals, text = override.partition("=")
            key = key.strip()
            if not equals or not key:
                raise ConfigError(
                    f"override `{shown(override)}` is not of the form `key=value`",
                    hint="for example --set preprocess.sequence_len=1024",
                )
            origin = Origin(Layer.OVERRIDE, dotted((key,)), "--set")
            self._add_value(key.split("."), parse_value(text), origin)

    def add_arguments(self, arguments: Mapping[str, object]) -> None:
        """Keyword arguments of a Python call; None means not given."""
        for name, value in arguments.items():
            if value is not None:
                self._add_value([name], value, Origin(Layer.ARGUMENT, name, "the arguments"))

    def finish(self) -> dict[str, Any]:
        """The tree in canonical keys alone; all keys that do not exist are refused together."""
        self._unfold_datatrove(self.tree.pop(DATATROVE, {}))
        if self._unknown:
            raise self._unknown_keys()
        return self.tree

    def place_of(self, path: Path) -> str:
        """Where a key, or the nearest section around it, was written; empty if nowhere."""
        for length in range(len(path), 0, -1):
            origin = self._origins.get(path[:length])
            if origin is not None:
                return origin.describe(path[:length])
        return ""

    def _add_value(self, steps: list[str], value: Any, origin: Origin) -> None:
        """One value, or a section at once, at the place that the steps name."""
        path, level, known = resolve(steps, self.level)
        if not known:
            self._add_leaf(Leaf(path, value, LeafKind.UNKNOWN), origin)
            return
        for leaf in leaves(value, level, path):
            name = dotted((origin.name, *leaf.path[len(path) :]))
            self._add_leaf(leaf, replace(origin, name=name))

    def _add_leaf(self, leaf: Leaf, origin: Origin) -> None:
        rule = FLAT_KEYS.get(str(leaf.path[0])) if len(leaf.path) == 1 else None
        if leaf.kind is LeafKind.UNKNOWN:
            if not asks_nothing(leaf.path, leaf.value):
                self._unknown.append((leaf.path, origin))
        elif leaf.kind is not LeafKind.VALUE:
            raise _wrong_shape(leaf, origin)
        elif rule is not None:
            self._apply(rule, leaf.value, origin)
        else:
            self._put(leaf.path, leaf.value, origin)

    def _apply(self, rule: Rule, value: Any, origin: Origin) -> None:
        if isinstance(rule, Moved):
            self._put(rule.target, value, origin)
        elif isinstance(rule, Appended):
            *home, last = rule.target
            before = _value_at(self.tree, tuple(home)).get(last, []) if home[0] in self.tree else []
            if value is not None and value is not False:
                _set_at(self.tree, rule.target, [*before, rule.entry(value)])
        elif isinstance(rule, Switched):
            if value is not None and not isinstance(value, bool):
                raise ConfigError(
                    f"`{origin.name}` is `{shown(value)}`: must be `true` or `false` ({origin.where})"
                )
            if value:
                self._put(rule.target, rule.value, origin)
        elif isinstance(rule, Inert):
            self.notices.append(f"`{origin.name}` changes nothing: {rule.why}")
        elif value is not None and value is not False:
            raise ConfigError(
                f"`{origin.name}` is `{shown(value)}`: {rule.why} ({origin.where})", hint=rule.hint
            )

    def _put(self, path: Path, value: Any, origin: Origin) -> None:
        earlier = self._origins.get(path)
        if earlier is not None and earlier.layer > origin.layer:
            return
        if earlier is not None and earlier.layer == origin.layer <= Layer.ENVIRONMENT:
            earlier_value = _value_at(self.tree, path)
            if value != earlier_value:
                raise ConfigError(
                    f"`{earlier.name}` is `{shown(earlier_value)}` ({earlier.where}) "
                    f"but `{origin.name}` is `{shown(value)}` ({origin.where})",
                    hint="they are two names of one setting: keep one of them",
                )
        if path in self._holders:  # a section in the place of its keys: rare, and a look at all of them
            for inside in [known for known in self._origins if known[: len(path)] == path]:
                del self._origins[inside]
        self._holders.update(path[:length] for length in range(len(path)))
        self._origins[path] = origin
        _set_at(self.tree, path, value)

    def _unfold_datatrove(self, block: dict[str, Any]) -> None:
        enabled = block.get("enabled", False)
        if not isinstance(enabled, bool):
            raise ConfigError(f"`datatrove.enabled` is `{shown(enabled)}`: must be `true` or `false`")
        if not enabled:
            self._unknown = [(path, origin) for path, origin in self._unknown if path[0] != DATATROVE]
            return
        self.datatrove = block
        for leaf in leaves(block, DATATROVE_LEVEL, (DATATROVE,)):
            rule = DATATROVE_KEYS.get(str(leaf.path[-1]))
            if rule is not None:
                # The block belongs to the file, whatever the file's other keys were overridden with.
                where = self._origins[leaf.path].where
                self._apply(rule, leaf.value, Origin(Layer.FILE, dotted(leaf.path), where))
        elsewhere = self.tree.get("engine", {}).get("name") == DATATROVE
        where = "on datatrove's executors (`engine: datatrove`)" if elsewhere else "without datatrove"
        self.notices.append(f"`datatrove`: Krill runs these steps itself, {where}")

    def _unknown_keys(self) -> ConfigError:
        faults = [f"unknown key `{origin.name}` in {origin.where}" for _, origin in self._unknown]
        # Finding the nearest known name takes a millisecond.
        hints = [self._hint(path, origin.layer) for path, origin in self._unknown[:MOST_LISTED]]
        if len(faults) == 1:
            return ConfigError(faults[0], hint=hints[0])
        faults[: len(hints)] = [f"{fault}: {hint}" for fault, hint in zip(faults, hints, strict=False)]
        return join_faults(faults, "keys of the config are unknown")

    def _hint(self, path: Path, layer: Layer) -> str:
        known_elsewhere = remedy(path)
        if known_elsewhere is not None:
            return known_elsewhere
        # The block's names serve as suggestions only inside it.
        keys = {
            name: below for name, below in self.level.keys.items() if name != DATATROVE or path[0] == name
        }
        suggestion = suggest(path, Level(keys), MOVED_FROM_TOP)
        if suggestion is None:
            return known_here(path, self._canonical if len(path) == 1 else self.level)
        if layer is Layer.ENVIRONMENT:
            return f"did you mean `{variable_name((*suggestion.sections[0], suggestion.name))}`?"
        return suggestion.hint(path)


def variable_name(path: Path) -> str:
    """The environment variable that sets a key: `KRILL_PREPROCESS__SEQUENCE_LEN`."""
    return VARIABLE_PREFIX + "__".join(str(step).upper() for step in path)


def _wrong_shape(leaf: Leaf, origin: Origin) -> ConfigError:
    key, value = dotted(leaf.path) or "config", shown(leaf.value)
    if leaf.kind is LeafKind.NOT_A_LIST:
        return ConfigError(
            f"`{key}` is `{value}`: must be a list ({origin.where})",
            hint=f"write each entry of `{key}` after a `-`",
        )
    hint = "write `- path: ...` for each dataset" if leaf.path[:1] == ("datasets",) else None
    return ConfigError(f"`{key}` is `{value}`: must be a section of keys ({origin.where})", hint=hint)


def _value_at(tree: Any, path: Path) -> Any:
    for step in path:
        tree = tree[step]
    return tree


def _set_at(tree: dict[str, Any], path: Path, value: Any) -> None:
    """Set a value in a nest of dicts and lists, making what is missing; a list grows by one at most."""
    parent: Any = tree
    for depth, (step, following) in enumerate(zip(path, (*path[1:], None), strict=True)):
        if isinstance(step, int) and step > len(parent):
            held = f"`{dotted(path[:depth])}` has {len(parent)} entries"
            raise ConfigError(
                f"{held}, so there is no `{dotted(path[: depth + 1])}`", hint=f"the next is {len(parent)}"
            )
        if isinstance(step, int) and step == len(parent):
            parent.append({})
        if following is None:
            parent[step] = value
        elif isinstance(step, int):
            parent = parent[step]
        else:
            parent = parent.setdefault(step, [] if isinstance(following, int) else {})
