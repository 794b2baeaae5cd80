"""Fields of a section of tokenizer.json, checked: what is not of its kind is a `ValueError` that says so.

In: a section, as JSON gives it, and what it is to people (`` normalizer `Strip` ``). Out: values. Nothing is
held.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Section = Mapping[str, Any]

DEEPEST: Final = 64
"""Sections that are nested more deeply are no tokenizer but an attack on the stack."""

_KINDS: Final[Mapping[type, str]] = {
    bool: "a boolean",
    str: "a string",
    list: "a list",
    dict: "an object",
    int: "a number",
}


def field_of(section: Section, name: str, kind: type, of: str, default: object = None) -> Any:
    """A field that has to be of a kind."""
    value = section.get(name, default)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"`{name}` of {of} must be {_KINDS[kind]}, not {kind_of(value)}")
    return value


def kind_of(value: object) -> str:
    """What a value of JSON is, for people."""
    return "missing or null" if value is None else _KINDS.get(type(value), "a number")
