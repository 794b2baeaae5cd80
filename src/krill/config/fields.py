"""The base of all sections, and the kinds of value that a field takes.

Each kind is a pydantic annotation that checks one value and says, in Krill's words, what is allowed. Values
may come from YAML, from the environment or from Python, so `2048`, `"2048"` and `2e3` are all whole
numbers, while `true` never is one.
"""

from __future__ import annotations

import math
import os
import sys
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    StringConstraints,
)
from pydantic_core import CoreSchema, core_schema

from krill.budget.size import parse_size
from krill.config.messages import MOST_LISTED, one_of
from krill.errors import ConfigError

_LARGEST = 2**63 - 1
_EXACT_UNITS = (
    ("TB", 10**12),
    ("GB", 10**9),
    ("MB", 10**6),
    ("KB", 10**3),
    ("GiB", 2**30),
    ("MiB", 2**20),
    ("KiB", 2**10),
)


def size_text(size: int) -> str:
    """The shortest way to write exactly this many bytes: `32MB`, `2GiB`, `1001`."""
    units = ((unit, factor) for unit, factor in _EXACT_UNITS if size and size % factor == 0)
    return min((f"{size // factor}{unit}" for unit, factor in units), key=len, default=str(size))


class Section(BaseModel):
    """A part of the config: frozen, without keys that are not declared."""

    # Built when first used: a config is checked as a whole, so most sections need no validator of their own.
    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=(), defer_build=True)

    shorthand: ClassVar[str | None] = None
    """The key that a plain value in place of the section sets: `dedup: exact`."""


def key(default: Any, description: str) -> Any:
    """A key with its default; the description goes to the command line's help and to docs/config.md."""
    return Field(default=default, description=description)


@dataclass(frozen=True, slots=True)
class Check(ABC):
    """An annotation that checks, and may rewrite, a value before pydantic looks at its type.

    `words` are values that stand for a decision of Krill's, or for none; they stay as they are.
    """

    words: tuple[str | None, ...] = field(default=(), kw_only=True)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._check_unless_word, handler(source))

    def _check_unless_word(self, value: Any) -> Any:
        if value in self.words:
            return value
        try:
            return self.check(value)
        except _NotAllowed as error:
            choice = f", or {one_of(self.words)}" if self.words else ""
            raise ValueError(f"{error}{choice}") from None

    @abstractmethod
    def check(self, value: Any) -> Any:
        """The value to use; raises `ValueError` that says what is allowed, as after `<key> is <value>:`."""


class _NotAllowed(ValueError):
    """Not a value of this kind; the message also names `words`."""


@dataclass(frozen=True, slots=True)
class Size(Check):
    """Bytes: `4MB`, `2GiB` or a plain number."""

    at_least: int = 1000
    below: int = _LARGEST

    def check(self, value: Any) -> Any:
        try:
            size = parse_size(value)
        except ConfigError:
            raise _NotAllowed("must be a size such as `512MB`, `2GiB` or a number of bytes") from None
        if size < self.at_least:
            raise ValueError(f"must be at least `{size_text(self.at_least)}`")
        if size >= self.below:
            raise ValueError(f"must be below `{size_text(self.below)}`")
        return size


@dataclass(frozen=True, slots=True)
class Whole(Check):
    """A whole number from `at_least` to `at_most`."""

    at_least: int = 0
    at_most: int = _LARGEST

    def check(self, value: Any) -> Any:
        number = _as_number(value)
        if number is None or number != int(number) or not self.at_least <= number <= self.at_most:
            bounds = f"from {self.at_least} to {self.at_most}"
            if self.at_most == _LARGEST:
                bounds = f"of at least {self.at_least}"
            raise _NotAllowed(f"must be a whole number {bounds}")
        return int(number)


@dataclass(frozen=True, slots=True)
class Positive(Check):
    """A number above zero, or with `or_zero` of at least zero."""

    or_zero: bool = False

    def check(self, value: Any) -> Any:
        number = _as_number(value)
        if number is None or number < 0 or number > sys.float_info.max or (number == 0 and not self.or_zero):
            raise _NotAllowed(f"must be a number {'of at least' if self.or_zero else 'above'} 0")
        return float(number)


@dataclass(frozen=True, slots=True)
class Fraction(Check):
    """A number from 0 to 1; with `above` or `below`, strictly so."""

    above: float | None = None
    below: float | None = None

    def check(self, value: Any) -> Any:
        number = _as_number(value)
        low = number is not None and (number >= 0 if self.above is None else number > self.above)
        high = number is not None and (number <= 1 if self.below is None else number < self.below)
        if number is None or not (low and high):
            least = "from 0" if self.above is None else f"above {self.above:g}"
            most = "up to 1" if self.below is None else f"below {self.below:g}"
            raise _NotAllowed(f"must be a number {least} {most}")
        return float(number)


def _as_number(value: Any) -> int | float | None:
    """The finite number that a value means, or None. YAML reads `1e6` as text, so text counts too."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, int):
        return value
    try:
        return int(value) if isinstance(value, str) else _finite(value)
    except ValueError:
        pass
    try:
        return _finite(float(value))
    except ValueError:
        return None


_LONGEST_PATH = 4095  # the system's own limit


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _path_text(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not isinstance(value, str):
        return value
    if "\0" in value:
        raise ValueError("must be a path, and a path can't contain a NUL character")
    if len(value.encode("utf-8", "surrogatepass")) > _LONGEST_PATH:
        raise ValueError(f"must be a path of at most {_LONGEST_PATH:,} bytes")
    try:
        return str(Path(value).expanduser()) if value.startswith("~") else value
    except RuntimeError as error:
        raise ValueError("must be a path, and there is no such user") from error


def distinct(values: tuple[str, ...]) -> tuple[str, ...]:
    """The values, which must not repeat."""
    repeated = sorted(value for value, times in Counter(values).items() if times > 1)
    if repeated:
        raise ValueError(f"must not repeat {one_of(repeated[:MOST_LISTED], last='and')}")
    return values


Text = Annotated[str, StringConstraints(min_length=1)]
"""Text that is not empty."""

PathText = Annotated[Text, BeforeValidator(_path_text)]
"""A path, kept as typed except that a leading `~` becomes the home folder."""

Names = Annotated[tuple[Text, ...], AfterValidator(distinct)]
"""Texts that must not repeat."""

Count = Annotated[int, Whole(0)]
CountOrNone = Annotated[int | None, Whole(1, words=(None,))]
