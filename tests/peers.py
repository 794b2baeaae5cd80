"""Libraries that Krill is held against, loaded when a test first uses one.

Every process of pytest collects all tests, and these take seconds to import: `torch = peer("torch")` in a
module of tests costs those processes nothing that run none of them.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest


class Peer:
    """Stands for a module, and has its attributes."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):  # pytest asks every name in a module whether it is a fixture or a mock
            raise AttributeError(attribute)
        return getattr(import_module(self._name), attribute)


def peer(name: str) -> Peer:
    """The library `name`; where it is not installed, the module of tests that asks is skipped."""
    if find_spec(name.partition(".")[0]) is None:
        pytest.skip(f"{name} is not installed", allow_module_level=True)
    return Peer(name)
