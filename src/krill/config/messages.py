"""How faults of a config are described: values as the user would write them, and pydantic's errors in Krill's
words.

Every fault reads `<key>` is `<value>`: what is allowed (where it was written). Several become one error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from krill.errors import ConfigError, printable
from krill.errors import shown as shown

Path = tuple[str | int, ...]
"""Where a value stands: `("datasets", 0, "path")`."""

_WITHOUT_VALUE = {"missing": "is required", "string_too_short": "must not be empty"}
_WITH_VALUE = {
    "string_unicode": "must be text that UTF-8 can hold",
    "string_type": "must be text; put it in quotes",
    "bool_type": "must be `true` or `false`",
    "bool_parsing": "must be `true` or `false`",
    "tuple_type": "must be a list",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "model_type": "must be a section of keys",
}


class SectionFault(ValueError):
    """A fault between keys of one section; it names them, so the section's value is not shown."""


def dotted(path: Path) -> str:
    """`datasets.0.path`, the way `--set` names a key."""
    return printable(".".join(str(step) for step in path))


def one_of(values: Sequence[object], last: str = "or") -> str:
    """The values in backticks, in one phrase: `a`, `b` or `c`."""
    quoted = [f"`{shown(value)}`" for value in values]
    return " ".join(filter(None, (", ".join(quoted[:-1]), last if quoted[1:] else "", quoted[-1])))


# Faults of one config that are listed; a file with more is another one than was meant.
MOST_LISTED = 20


def join_faults(faults: Sequence[str], summary: str) -> ConfigError:
    """One error for all faults: the fault itself when it is alone, else a list under a summary."""
    if len(faults) == 1:
        return ConfigError(faults[0])
    lines = [f"  {fault}" for fault in faults[:MOST_LISTED]]
    if len(faults) > MOST_LISTED:
        lines.append(f"  and {len(faults) - MOST_LISTED:,} more")
    return ConfigError("\n".join((f"{len(faults)} {summary}:", *lines)))


def as_config_error(error: ValidationError, where: Callable[[Path], str]) -> ConfigError:
    """Pydantic's findings as one `ConfigError`; `where` says in which file or option a key was written."""
    details = error.errors(include_url=False)
    return join_faults([_fault(detail, where) for detail in details], "values of the config can't be used")


def _fault(detail: ErrorDetails, where: Callable[[Path], str]) -> str:
    kind, path = detail["type"], detail["loc"]
    key = f"`{dotted(path)}`"
    value = f"{key} is `{shown(detail['input'])}`"
    if kind in _WITHOUT_VALUE:
        fact = f"{key} {_WITHOUT_VALUE[kind]}"
    elif kind == "extra_forbidden":
        fact = f"{key} is not a key of this section"
    elif kind == "literal_error":
        fact = f"{value}: must be {_choices(detail['ctx']['expected'])}"
    elif kind == "value_error":
        fault = detail["ctx"]["error"]
        fact = f"{key if isinstance(fault, SectionFault) else value}: {fault}"
    else:
        fact = f"{value}: {_WITH_VALUE.get(kind, detail['msg'].lower())}"
    place = where(path)
    return f"{fact} ({place})" if place else fact


def _choices(expected: str) -> str:
    """Pydantic's `'auto', True or False` in backticks and YAML's spelling."""
    return re.sub(
        r"'([^']*)'|\b(True|False|None)\b", lambda found: f"`{found[1] or _YAML[found[2]]}`", expected
    )


_YAML = {"True": "true", "False": "false", "None": "null"}


def listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
