"""YAML, read safely: a config file with the line of every key, and single values of the command line.

In: a path or a text. Out: plain Python values. Only YAML's own types are built, never objects; a key that
stands twice is an error instead of a silent last word, and a date is text, since no key takes a date.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Any

import yaml

from krill.config.messages import Path, shown
from krill.errors import ConfigError

_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_PLAIN_TAGS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("null", "bool", "int", "float"))


# PyYAML takes a hundred times as much, and no config has a hundredth of it.
_MOST_BYTES = 1_000_000
# Digits of a number: beyond, Python neither reads nor writes it, and 60 to the power of some is slow work.
_LONGEST_NUMBER = 4300
# What PyYAML raises of a text that is not what its tag says: `!!bool maybe`, `!!int ""`, `!!timestamp now`.
_NOT_OF_ITS_TAG = (ValueError, KeyError, IndexError, AttributeError, OverflowError)
# Keys and values, those behind an alias each time that it stands: a few lines can stand for billions.
_MOST_VALUES = 100_000


class _Loader(yaml.SafeLoader):
    """Safe loading that refuses a repeated key, and aliases that stand for too much."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own shape, one per loader class
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def get_single_node(self) -> yaml.Node | None:
        node: yaml.Node | None = super().get_single_node()
        if node is not None and _values(node, {}) > _MOST_VALUES:
            raise yaml.MarkedYAMLError(
                problem=f"more than {_MOST_VALUES:,} keys and values, with what its aliases stand for",
                problem_mark=node.start_mark,
            )
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        if not isinstance(node, yaml.ScalarNode):
            return super().construct_object(node, deep)
        kind = node.tag.rpartition(":")[2]
        try:
            if kind in ("int", "float") and len(node.value) > _LONGEST_NUMBER:
                raise ValueError(node.value)
            return super().construct_object(node, deep)
        except _NOT_OF_ITS_TAG:
            raise yaml.MarkedYAMLError(
                problem=f"`{shown(node.value)}` can't be read as `{kind}`", problem_mark=node.start_mark
            ) from None

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            name = (key.tag, str(key.value))
            if name in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"the key `{key.value}` appears twice", problem_mark=key.start_mark
                )
            seen.add(name)
        return node


def _values(node: yaml.Node, known: dict[int, int]) -> int:
    """Keys and values at and below `node`; one that holds itself counts as one."""
    if isinstance(node, yaml.ScalarNode):
        return 1
    if id(node) not in known:
        known[id(node)] = 1
        pairs = node.value if isinstance(node, yaml.MappingNode) else [(item,) for item in node.value]
        known[id(node)] = 1 + sum(_values(below, known) for pair in pairs for below in pair)
    return known[id(node)]


def read_yaml(path: FilePath) -> tuple[Any, dict[Path, int]]:
    """The content of a YAML file, and the line on which each key stands. An empty file holds no keys."""
    text = _read_text(path)
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        tree = {} if node is None else loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(path, error) from None
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"{path} is not YAML: {str(error).splitlines()[0]}") from None
    except RecursionError:
        raise ConfigError(f"{path} is nested too deeply") from None
    return ({} if tree is None else tree), dict(_lines(node))


def parse_value(text: str) -> Any:
    """A value as typed after `=`: number, true, false, null, quoted text, `[list]`, or the text itself."""
    text = text.strip()
    if text[:1] in ("[", "{", '"', "'"):
        try:
            return yaml.load(text, Loader=_Loader)
        except (yaml.YAMLError, ValueError, RecursionError):
            return text  # such as the glob `[ab]*.txt`
    loader = _Loader("")
    tag = loader.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    if tag not in _PLAIN_TAGS:
        return text
    try:
        return loader.construct_object(yaml.ScalarNode(tag, text))
    except yaml.YAMLError:
        return text


def _read_text(path: FilePath) -> str:
    try:
        content = _read(path)
        return content.decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"config `{path}` does not exist", hint="give the path of a YAML file") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"config `{path}` is not UTF-8 text: byte {error.start} can't be read") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"config `{path}` can't be read: {str(reason).lower()}") from None


def _read(path: FilePath) -> bytes:
    """All of a file or of a pipe, as of `<(...)`; not of a device, which may never end."""
    # Else opening a pipe that nobody writes to waits for somebody.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb", closefd=True) as file:
        kind = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(kind) and not stat.S_ISFIFO(kind):
            raise ConfigError(f"config `{path}` is not a file", hint="give the path of a YAML file")
        os.set_blocking(descriptor, True)
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ConfigError(f"config `{path}` is larger than {_MOST_BYTES:,} bytes", hint="is it a config?")
    return content


def _syntax_error(path: FilePath, error: yaml.MarkedYAMLError) -> ConfigError:
    problem = ", ".join(filter(None, (error.context, error.problem)))
    mark = error.problem_mark or error.context_mark
    place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
    return ConfigError(f"{place}: {problem}", hint="this is not valid YAML; fix that line")


def _lines(node: yaml.Node | None, path: Path = ()) -> Iterator[tuple[Path, int]]:
    """Lines of all keys, down to an entry's keys; aliases are followed no deeper, so a knot of them ends."""
    if isinstance(node, yaml.MappingNode):
        children = [((*path, str(key.value)), key, below) for key, below in node.value]
    elif isinstance(node, yaml.SequenceNode):
        children = [((*path, index), below, below) for index, below in enumerate(node.value)]
    else:
        return
    for here, marked, below in children:
        yield here, marked.start_mark.line + 1
        if len(here) < _DEEPEST_KEY:
            yield from _lines(below, here)


_DEEPEST_KEY = 5  # datatrove.pipeline_config.quality_filters.0.min_length
