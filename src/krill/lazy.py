"""Names of a package that are imported when they are first used, so that `import krill` stays quick.

In: the module that has each name. Out: the package's `__getattr__`. Nothing is held.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_attributes(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package that gets each name of `homes` from its module."""

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module `{package}` has no attribute `{name}`")
        return getattr(import_module(homes[name]), name)

    return get
