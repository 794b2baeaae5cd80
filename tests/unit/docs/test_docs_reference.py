"""The Python reference has every name that `krill` and its packages offer, and each says what it does."""

from __future__ import annotations

import re
from importlib import import_module
from types import ModuleType

from docs_pages import PAGES, ROOT, blocks_of

NAMES = re.findall(r"^::: (\S+)$", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), re.MULTILINE)
PACKAGES = ("krill", "krill.loading", "krill.qa", "krill.tokenizer")


def named(path: str) -> object:
    package, _, name = path.rpartition(".")
    return import_module(path) if path == "krill.errors" else getattr(import_module(package), name)


def is_older(value: object) -> bool:
    """Whether it is there for users of older projects; docs/migration.md has those."""
    return str(getattr(value, "__module__", "")).startswith("krill.compat")


def test_every_name_is_there_and_has_a_docstring() -> None:
    assert len(NAMES) > 30
    for path in NAMES:
        assert named(path).__doc__, path


def test_no_public_name_is_missing() -> None:
    documented = {id(named(path)) for path in NAMES}
    for package in map(import_module, PACKAGES):
        offered = {name: getattr(package, name) for name in package.__all__}
        for name, value in offered.items():
            described = id(value) in documented or is_older(value) or isinstance(value, ModuleType | str)
            assert described, f"{package.__name__}.{name}"


def test_every_name_has_an_example_that_runs() -> None:
    run = [block for page in PAGES for block in blocks_of(page) if "skip" not in block.notes]
    examples = "\n".join(block.content for block in run if block.language == "python")
    for path in NAMES:
        assert re.search(rf"\b{path.rpartition('.')[2]}\b", examples), path
