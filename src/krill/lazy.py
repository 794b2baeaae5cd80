"""Names of a package that are imported when they are first used: `import krill` costs next to nothing."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_attributes(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package; `homes` gives for each of its names the module that defines it.

    What a name of an earlier version is called now is in `krill.compat.renamed`.
    """

    def load(name: str) -> Any:
        if name in homes:
            return getattr(import_module(homes[name]), name)
        renamed = import_module("krill.compat.renamed").RENAMED.get(package, {})
        if name in renamed:
            return getattr(import_module(package), renamed[name])
        raise AttributeError(f"module `{package}` has no attribute `{name}`")

    return load
