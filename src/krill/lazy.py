"""Names of a package that are imported when they are first used: `import krill` costs next to nothing."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, Sequence[str]] | None = None
) -> tuple[Callable[[str], Any], list[str]]:
    """The `__getattr__` and the `__all__` of a package; `homes` gives for each module the names in it.

    What a name of an earlier version is called now is in `krill.compat.renamed`.
    """
    modules = {name: module for module, names in (homes or {}).items() for name in names}

    def load(name: str) -> Any:
        if name in modules:
            return getattr(import_module(modules[name]), name)
        renamed = import_module("krill.compat.renamed").RENAMED.get(package, {})
        if name in renamed:
            return getattr(import_module(package), renamed[name])
        raise AttributeError(f"module `{package}` has no attribute `{name}`")

    return load, sorted(modules)
