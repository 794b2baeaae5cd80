"""One tree of errors.

Each error says the fact and the value in its message, the remedy in its hint, and carries the exit code
that the command line ends with. Whatever is not a `KrillError` is a bug and exits with 1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

# Characters of a message: a name or a value in it may be a megabyte.
_LONGEST = 8000
_BEGINNING, _END = 6000, 1500


def readable(text: str) -> str:
    """A text that a person can read: of a longer one, its beginning and its end."""
    if len(text) <= _LONGEST:
        return text
    left_out = len(text) - _BEGINNING - _END
    return f"{text[:_BEGINNING]} ... ({left_out:,} characters left out) ... {text[-_END:]}"


# What a terminal or a browser obeys instead of showing it: control characters but for tabs and line ends, C1
# codes (a terminal may obey U+009B as it does ESC `[`), marks that change the direction of text, and
# separators that some viewers take for line ends.
_OBEYED: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ud800-\udfff]|\r(?!\n)"
)


def escape(text: str) -> str:
    """The text as any terminal or page may show it; line ends and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return _OBEYED.sub(lambda found: ascii(found[0])[1:-1], text)


def escape_json(text: str) -> str:
    """The same for JSON: the result is JSON of the same value."""
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


# Characters of a value that a message shows.
_LONGEST_VALUE = 80


def shown(value: object) -> str:
    """A value as YAML would have it, in one line and shortened."""
    if isinstance(value, str):
        text = value
    else:
        try:
            text = json.dumps(value, ensure_ascii=False, default=str)
        except (ValueError, TypeError, RecursionError):
            text = _written(value)
    text = printable(re.sub(r"\s+", " ", text) if "\n" in text else text)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."


def _written(value: object) -> str:
    """Python's repr; of what it can't write, such as a number of 5,000 digits, the type."""
    try:
        return repr(value)
    except (ValueError, RecursionError):
        return type(value).__name__


def printable(text: str) -> str:
    """Text that any terminal takes: bytes that were not UTF-8 arrive from the shell as lone surrogates."""
    return text.encode("utf-8", "backslashreplace").decode()


class KrillError(Exception):
    """Something the user can cause or mend; shown as a message, never as a traceback."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = readable(message)
        self.hint = None if hint is None else readable(hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\nhint: {self.hint}"


class ConfigError(KrillError):
    """A key, value or argument that can't be used."""

    exit_code = 2


class MissingExtra(KrillError):
    """A part of Krill that is not installed."""

    exit_code = 2

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs the extra `{extra}`", hint=f"pip install 'krill-lm[{extra}]'")


class InputError(KrillError):
    """A source that is missing, empty, damaged, or not what the config says it is."""

    exit_code = 3


class BudgetError(KrillError):
    """The stated memory or disk can't hold the work."""

    exit_code = 4


class StorageError(KrillError):
    """The output can't be written: no space, no permission, or another run holds it."""

    exit_code = 5


class Interrupted(KrillError):
    """The user or the scheduler asked the run to stop."""

    exit_code = 130


def encode_error(error: KrillError) -> dict[str, Any]:
    """The error as values that JSON can say, for another process."""
    kind = next(kind for kind in type(error).__mro__ if kind.__module__ == __name__)
    return {"kind": kind.__name__, "message": error.message, "hint": error.hint}


def decode_error(described: Mapping[str, Any]) -> KrillError:
    """The error that another process described."""
    kinds = {kind.__name__: kind for kind in KrillError.__subclasses__()}
    kind = kinds.get(described["kind"], KrillError)
    error = kind.__new__(kind)  # not every kind is made of a message and a hint
    KrillError.__init__(error, described["message"], hint=described["hint"])
    return error
