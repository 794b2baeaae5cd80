"""Every error that a user can cause says what to do about it."""

from __future__ import annotations

import ast
from pathlib import Path

import krill

TOLD = {"InputError", "StorageError", "BudgetError", "DocumentError"}


def test_every_error_of_input_storage_and_budget_has_a_hint():
    without = [
        f"{path.name}:{call.lineno}: {ast.unparse(call)[:100]}"
        for path in sorted(Path(krill.__file__).parent.rglob("*.py"))
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id in TOLD
        and not any(keyword.arg in ("hint", None) for keyword in call.keywords)
    ]
    assert without == []
