"""Names of earlier versions still lead to what they stood for."""

from __future__ import annotations

from importlib import import_module

import pytest

from krill.compat.renamed import RENAMED


@pytest.mark.parametrize(
    ("package", "former", "now"),
    [(package, *names) for package, renamed in RENAMED.items() for names in renamed.items()],
)
def test_a_former_name_is_what_is_called_otherwise_now(package: str, former: str, now: str) -> None:
    module = import_module(package)
    assert getattr(module, former) is getattr(module, now)
    assert now in module.__all__
    assert former not in module.__all__


@pytest.mark.parametrize("package", RENAMED)
def test_what_was_never_there_is_named(package: str) -> None:
    with pytest.raises(AttributeError, match=f"module `{package}` has no attribute `Nothing`"):
        import_module(package).Nothing  # noqa: B018
