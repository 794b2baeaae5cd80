"""How long a text or list is that a filter or a method of Jinja's would make, before it makes it.

In: what it would be called with. Out: characters or items, at the most. Nothing is held.

Here are those whose result may be much longer than all they are given. What is called wrongly has no size:
the call itself says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from jinja2.utils import Namespace

# How wide a field of a format is, and how precise.
_WIDTH: Final = re.compile(r"[:%.][^\d\s{}]{0,4}(\d{1,18})")
# Of a value in a list.
_WORD: Final = 8
# What fills up a list is larger than any that is allowed, once it has so many characters.
_LARGE: Final = 100_000_000
Size = Callable[..., int]


def _replaced(text: Any, old: str = "", new: str = "", count: int | None = None) -> int:
    replaced = str(text)
    return len(replaced) + replaced.count(str(old)) * len(str(new))


def _joined(items: Iterable[Any], separator: str = "", attribute: Any = None) -> int:
    found = list(items) if isinstance(items, list | tuple | str) else []
    texts = sum(len(item) for item in found if isinstance(item, str))
    return texts + len(found) * len(str(separator))


def _indented(text: str, width: int | str = 4, first: bool = False, blank: bool = False) -> int:
    each = width if isinstance(width, int) else len(width)
    return len(text) + (len(text.splitlines()) + 1) * each


def _wrapped(text: str, width: int = 79, breaks: bool = True, between: str | None = None, *_: Any) -> int:
    return len(text) + (len(text) if width < 2 else len(text.split()) + len(text) // width) * len(
        between or ""
    )


def formatted(text: str, *values: Any, **named: Any) -> int:
    """Of what `text` makes of values, as a format of either kind: each field as wide as the widest."""
    given = (*values, *named.values())
    widths = [len(value) for value in given if isinstance(value, str)]
    widths += [int(width) for width in _WIDTH.findall(text)]
    if "*" in text or ":{" in text:  # a value says how wide
        widths += [value for value in given if isinstance(value, int)]
    return len(text) + (text.count("{") + text.count("%")) * max(widths, default=0)


def _filling(fill: Any) -> int:
    return 1 if fill is None else size_held(fill, _LARGE)[0]


FILTERS: Final[Mapping[str, Size]] = {
    "batch": lambda items, count, fill=None: count * _filling(fill),
    "center": lambda text, width=80: width,
    "format": formatted,
    "indent": _indented,
    "join": _joined,
    "replace": _replaced,
    "slice": lambda items, count, fill=None: count * _filling(fill),
    "wordwrap": _wrapped,
}
METHODS: Final[Mapping[str, Size]] = {
    "expandtabs": lambda text, size=8: len(text) + text.count("\t") * size,
    "format": formatted,
    "format_map": lambda text, values: formatted(text, **values),
    "join": lambda separator, items: _joined(items, separator),
    "replace": _replaced,
    "translate": lambda text, table: len(text) * max((len(str(new)) for new in table.values()), default=1),
}


def size_of_call(called: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
    """Of what a method of a text would make; 0 of other calls."""
    size = METHODS.get(getattr(called, "__name__", ""))
    if size is None:
        return 0
    # The sandbox has put a function of its own around formats.
    text = getattr(getattr(called, "__wrapped__", called), "__self__", None)
    return size_with(size, (text, *args), kwargs) if isinstance(text, str) else 0


def size_with(size: Size, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
    try:
        return int(size(*args, **kwargs))
    except (TypeError, ValueError, AttributeError):
        return 0


def size_held(value: Any, most: int) -> tuple[int, int]:
    """Characters of all texts in lists and objects, with a word for each value; and how many values.

    What stands in several places counts in each, as whatever writes or compares it meets it there. Counting
    ends beyond `most`, also of a list in itself."""
    size = values = 0
    waiting = [value]
    while waiting and size <= most:
        found = waiting.pop()
        values += 1
        size += _WORD
        kind = type(found)
        if kind is str:
            size += len(found)
        elif kind is list or kind is tuple:
            waiting += found
        elif kind is dict:
            waiting += [*found, *found.values()]
        elif kind is not int:
            waiting += _parts(found)
    return size, values


def _parts(value: Any) -> Iterable[Any]:
    """What stands in a value of a less usual type."""
    if isinstance(value, Mapping):
        return [*value, *value.values()]
    if isinstance(value, list | tuple | set):
        return value
    if isinstance(value, Namespace):
        return list(Namespace.__getattribute__(value, "_Namespace__attrs").values())
    return [str(value)] if isinstance(value, str) else ()
