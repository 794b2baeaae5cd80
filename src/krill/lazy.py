"""Public names of a package, loaded when they are first used.

In: the names, by the module that has them. Out: the package's `__getattr__`. Held in memory: the table.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, modules: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """Finds each name in the module that `modules` lists it under."""
    homes = {name: module for module, names in modules.items() for name in names}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module `{package}` has no attribute `{name}`")
        return getattr(import_module(homes[name]), name)

    return get
