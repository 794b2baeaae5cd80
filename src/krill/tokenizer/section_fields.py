"""Fields of a section of tokenizer.json, checked: what is not of its kind is a `ValueError` that says so.

In: a section, as JSON gives it, and what it is to people (`` normalizer `Strip` ``). Out: values. Nothing is
held.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

Section = Mapping[str, Any]

Step = TypeVar("Step")

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


@dataclass(frozen=True, slots=True)
class SectionReader:
    """Reads sections of one kind, such as `normalizer`; `known` are their types, beside `Sequence`."""

    kind: str
    known: Collection[str]
    own_fields: Mapping[str, Set[str]] = field(default_factory=dict)
    """What sections of older files are known by, where `type` does not say it; like the library."""

    def type_of(self, section: Section) -> str:
        stated = section.get("type")
        if isinstance(stated, str) and (stated == "Sequence" or stated in self.known):
            return stated
        for name, fields in self.own_fields.items():
            if fields <= section.keys():
                return name
        raise ValueError(
            f"a {self.kind} has no `type`" if stated is None else f"unknown {self.kind} `{stated}`"
        )

    def field(self, section: Section, name: str, kind: type, default: object = None) -> Any:
        return field_of(section, name, kind, f"{self.kind} `{self.type_of(section)}`", default)

    def text(self, section: Section, name: str) -> str:
        return unicode_text(self.field(section, name, str), f"`{name}` of a {self.kind}")


def unicode_text(text: str, what: str) -> str:
    """The text, which JSON may give with halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what} is not valid Unicode") from None
    return text


def step_of_pattern(
    pattern: Section,
    of: str,
    *,
    text: str,
    of_string: Callable[[str], Step],
    of_regex: Callable[[str], Step],
) -> Step:
    """What is made of a `pattern`: a string or a regular expression; to people its text is `text`."""
    match pattern:
        case {"String": str(string), **rest} if not rest:
            return of_string(unicode_text(string, text))
        case {"Regex": str(regex), **rest} if not rest:
            try:
                return of_regex(unicode_text(regex, text))
            except ValueError as error:
                raise ValueError(f"the regular expression of {of}: {error}: `{regex}`") from None
    raise ValueError(f"`pattern` of {of} must be `String` or `Regex` with a string")
