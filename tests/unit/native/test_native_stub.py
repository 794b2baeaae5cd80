"""The stub says what the native module has, no more and no less."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import krill
from krill import _native

STUB_BODY = ast.parse(Path(krill.__file__).with_name("_native.pyi").read_text()).body


def stub_names(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    definitions = (ast.FunctionDef, ast.ClassDef)
    return {
        node.name: node for node in body if isinstance(node, definitions) and not node.name.startswith("_")
    }


def native_names(owner: object) -> set[str]:
    return {name for name in vars(owner) if not name.startswith("_")}


def members(node: ast.ClassDef) -> set[str]:
    """What a class of the stub has, by itself and from private base classes, which exist in the stub
    alone."""
    fields = {
        field.target.id
        for field in node.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
    }
    private = {base.id for base in node.bases if isinstance(base, ast.Name) and base.id.startswith("_")}
    bases = [other for other in STUB_BODY if isinstance(other, ast.ClassDef) and other.name in private]
    return set().union(stub_names(node.body), fields, *map(members, bases))


def test_stub_and_module_name_the_same_things() -> None:
    stub = stub_names(STUB_BODY)
    assert stub.keys() == native_names(_native)


def test_stub_and_module_agree_on_what_is_a_class_and_on_its_members() -> None:
    for name, node in stub_names(STUB_BODY).items():
        native = getattr(_native, name)
        assert inspect.isclass(native) == isinstance(node, ast.ClassDef), name
        if isinstance(node, ast.ClassDef):
            assert native_names(native) <= members(node) <= set(dir(native)), name


def test_stub_and_module_agree_on_arguments() -> None:
    for name, node in stub_names(STUB_BODY).items():
        if isinstance(node, ast.FunctionDef):
            arguments = "".join(f"{argument.arg}: .*" for argument in node.args.args)
            for signature, *_ in getattr(_native, name).__nb_signature__:
                assert re.fullmatch(rf"def {name}\({arguments}\) -> .*", signature)
