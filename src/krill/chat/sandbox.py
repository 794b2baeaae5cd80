"""Templates in Jinja's sandbox, as transformers runs them, with bounds on what they write and do.

In: the source of a template; then its variables. Out: the text, and which parts of it the template marks with
`{% generation %}`. Held in memory: the compiled template and one rendering.

A rendering is ended by the characters that it writes and the steps that it takes (rounds of loops, calls),
never by time: what is left out does not depend on the machine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import wraps
from itertools import islice
from typing import Any, Final

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment

from krill.chat import sizes, syntax
from krill.chat.options import ChatDrop
from krill.errors import ConfigError, KrillError

Span = tuple[int, int]

MOST_TOKENS: Final = 20_000
"""Of a template as Jinja reads it. Gemma 4's has 4,112; compiling one takes 3 KB for each, at most."""
# A template of gpt-oss takes 60 steps a message; some look at all later messages from each.
MOST_STEPS: Final = 4_000_000
# A round of a loop takes 0.1 us, a call of a macro 2.
_STEPS_OF_A_CALL: Final = 10
# In a list that is looked at, a value takes 0.05 us.
_VALUES_OF_A_STEP: Final = 16
# A namespace may hold all texts of a row, in several lists.
_HELD: Final = 4
# What stands around a marked part of a rendering. Pieces are compared with these very objects.
_BEGIN, _END = "\ufdd0", "\ufdd1"
_MARKS: Final = re.compile("([\ufdd0\ufdd1])")
_DICT_ATTRIBUTES: Final = frozenset(dir(dict))
# What the sandbox finds safe in these after a long look; of `format` it gives another than Python's.
_SAFE_ATTRIBUTES: Final[Mapping[type, frozenset[str]]] = {
    kind: frozenset(name for name in dir(kind) if not name.startswith("_")) - {"format", "format_map"}
    for kind in (str, LoopContext)
}
# Of JSON, which has as many lines as values.
_MOST_INDENT: Final = 16
# Variables by which templates of many models end the generation prompt with thoughts or without.
_SWITCHES: Final = ("enable_thinking", "thinking")


class Environment(ImmutableSandboxedEnvironment):
    """The sandbox, which counts calls and looks at the size of what operators make."""

    intercepted_binops = frozenset(["*", "**", "%"])  # `_added` is `+`

    def __init__(self, date: datetime | None, most: int) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
        self.most = most
        self.steps = 0
        self.begin_mark = self.end_mark = ""
        self.filters["tojson"] = _tojson
        for name, size in sizes.FILTERS.items():
            self.filters[name] = self._checked(self.filters[name], size)
        self.filters["_added"] = self._added
        self.filters["_rounds"] = self._rounds
        self.filters["_sized"] = self._sized
        self.filters["_made"] = self._made
        self.globals.update(
            raise_exception=_raise_exception,
            strftime_now=lambda format: _today(date).strftime(format),
            dict=_Dict(),
            namespace=self._namespace(),
        )

    def call(self, context: Any, called: Any, /, *args: Any, **kwargs: Any) -> Any:
        self.step(_STEPS_OF_A_CALL)
        for value in args:
            if type(value) is int and value > self.most:
                raise ChatDrop("template_too_long", f"a call with the number {value:,}")
        self._check(sizes.size_of_call(called, args, kwargs))
        if isinstance(called, Macro) and (called.catch_varargs or called.catch_kwargs):
            self._made((args, kwargs))
        made = super().call(context, called, *args, **kwargs)
        return self._made(made) if isinstance(made, dict) else self._sized(made)

    def getattr(self, obj: Any, attribute: str) -> Any:
        # The sandbox would look for an attribute first, which takes an exception.
        if type(obj) is dict and attribute not in _DICT_ATTRIBUTES:
            return obj[attribute] if attribute in obj else self.undefined(obj=obj, name=attribute)
        if attribute in _SAFE_ATTRIBUTES.get(type(obj), ()):
            return getattr(obj, attribute)
        return super().getattr(obj, attribute)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "*":
            self._check(_repeated(left, right))
        elif operator == "**" and isinstance(left, int) and isinstance(right, int):
            self._check(abs(left).bit_length() * max(right, 0))
        elif operator == "%" and isinstance(left, str):
            values = right if isinstance(right, tuple) else (right,)
            self._check(sizes.size_with(sizes.formatted, (left, *values), {}))
        made = self.binop_table[operator](left, right)
        return self._made(made) if isinstance(made, list) else self._sized(made)

    def step(self, count: int = 1) -> None:
        self.steps += count
        if self.steps > MOST_STEPS:
            raise ChatDrop("template_too_many_steps", f"more than {MOST_STEPS:,}")

    def _namespace(self) -> type[_Namespace]:
        """Namespaces outlive a round of a loop, so that texts may be piled up in them."""
        check = self._made

        class Checked(_Namespace):
            def __setitem__(self, name: str, value: Any) -> None:
                super().__setitem__(name, check(value))

        return Checked

    def _made(self, value: Any) -> Any:
        """The value, if all that it holds is not too long: many texts, or the same ones many times."""
        if isinstance(value, str | int | float | None):
            return value
        size, values = sizes.size_held(value, _HELD * self.most)
        self.step(values // _VALUES_OF_A_STEP)
        if size > _HELD * self.most:
            raise ChatDrop("template_too_long", f"more than {_HELD * self.most:,} in a list or object")
        return value

    def _rounds(self, items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            self.step()
            yield item

    def _added(self, value: Any, *others: Any) -> Any:
        for other in others:
            value = self._sized(value + other)
        return self._made(value) if isinstance(value, list) else value

    def _sized(self, value: Any) -> Any:
        if isinstance(value, str | list) and len(value) > self.most:
            self._check(len(value))
        return value

    def _checked(self, function: Callable[..., Any], size: sizes.Size) -> Callable[..., Any]:
        """A filter that is not called where its result would be too long."""
        before = 1 if hasattr(function, "jinja_pass_arg") else 0

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            self._check(sizes.size_with(size, args[before:], kwargs))
            return function(*args, **kwargs)

        return call

    def _check(self, size: int) -> None:
        if size > self.most:
            raise ChatDrop("template_too_long", f"a text or list of {size:,}")


def _today(date: datetime | None) -> datetime:
    if date is None:
        raise ConfigError(
            "the chat template writes today's date, so that the output would depend on it",
            hint="set `chat_template_date`, as `2026-01-31`",
        )
    return date


def _repeated(left: Any, right: Any) -> int:
    """How long a text or list is that `*` makes; of numbers, how many bits."""
    if isinstance(left, int) and isinstance(right, int):
        return left.bit_length() + right.bit_length() if max(abs(left), abs(right)) >> 64 else 0
    if isinstance(left, int):
        left, right = right, left
    return len(left) * right if isinstance(right, int) and hasattr(left, "__len__") else 0


class _Generation(Extension):
    """`{% generation %}`: what the assistant wrote."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        marks = [nodes.Output([nodes.EnvironmentAttribute(name)]) for name in syntax.MARKS]
        return nodes.Scope([marks[0], *body, marks[1]]).set_lineno(line)


class _Dict:
    """`dict` without its other attributes."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict(*args, **kwargs)

    def fromkeys(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict.fromkeys(*args, **kwargs)


class _Namespace(jinja2.utils.Namespace):
    """A namespace without names that begin with an underscore."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        self, *given = args
        names = dict(*given, **kwargs)
        for name in names:
            _check_name(name)
        jinja2.utils.Namespace.__init__(self, names)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        super().__setitem__(name, value)


def _check_name(name: Any) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"a chat template can't store `{name}` in a namespace")


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    if indent is not None and indent > _MOST_INDENT:
        raise ChatDrop("template_too_long", f"JSON indented by {indent:,}")
    # Jinja's own escapes what is special in HTML.
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _raise_exception(message: str) -> None:
    raise TemplateError(message)


class CompiledTemplate:
    """One template; one thread at a time renders with it."""

    def __init__(self, source: str, date: datetime | None, most: int) -> None:
        self.environment = Environment(date, most)
        try:
            self._compile(source)
        except (RecursionError, MemoryError):  # Python's parser says the latter
            raise TemplateError("it is nested too deeply") from None
        except (SyntaxError, ValueError) as error:  # of the code that Jinja makes of a template
            raise TemplateError(str(error)) from None

    def _compile(self, source: str) -> None:
        tokens = self.environment.lexer.tokeniter(source, None)
        if next(islice(tokens, MOST_TOKENS, None), None) is not None:
            raise TemplateError(f"it has more than {MOST_TOKENS:,} names, signs and texts")
        tree = self.environment.parse(source)
        self.has_markers = syntax.has_marks(tree)
        # Where the text is collected before it is written, what was written so far does not tell its place.
        self._buffered = any(syntax.has_marks(block) for block in syntax.buffered_blocks(tree))
        # Strings have to be read before the tree is changed.
        self.literals = syntax.literals(tree)
        self.looked_for = syntax.looked_for(tree)
        self.cuts = syntax.cuts(tree)
        self.switches = syntax.reads(tree, _SWITCHES)
        self._template = self.environment.from_string(syntax.bounded(tree))

    def render(self, variables: dict[str, Any]) -> str:
        """The text, or `ChatDrop`; `SecurityError` for a template that leaves the sandbox."""
        self.environment.begin_mark = self.environment.end_mark = ""
        return "".join(self._pieces(variables))

    def render_marked(self, variables: dict[str, Any]) -> tuple[str, list[Span]]:
        """The same, and the parts that the template marks, in characters, in order."""
        text = self.render(variables) if self._buffered else None
        self.environment.begin_mark, self.environment.end_mark = _BEGIN, _END
        pieces = self._pieces(variables)
        if text is None:
            return _without_marks(pieces)
        found, spans = _without_marks(_cut_at_marks("".join(pieces)))
        if found != text:
            raise ChatDrop("markers_not_placed")
        return text, spans

    def _pieces(self, variables: dict[str, Any]) -> list[str]:
        environment = self.environment
        environment.steps = 0
        pieces: list[str] = []
        written = 0
        context = self._template.new_context(variables)
        try:
            for piece in self._template.root_render_func(context):
                pieces.append(piece)
                if piece is _BEGIN or piece is _END:
                    continue
                written += len(piece)
                if written > environment.most:
                    raise ChatDrop("template_too_long", f"more than {environment.most:,} bytes")
        except (ChatDrop, KrillError, SecurityError, MemoryError):
            raise
        except RecursionError:
            raise ChatDrop("template_too_many_steps", "macros that call themselves") from None
        except Exception as error:
            raise ChatDrop("template_error", str(error) or type(error).__name__) from None
        return pieces


def _without_marks(pieces: Iterable[str]) -> tuple[str, list[Span]]:
    """The text, and the parts between marks. A text that only equals a mark is none: a row may have it."""
    texts: list[str] = []
    spans: list[Span] = []
    begins: list[int] = []
    written = 0
    for piece in pieces:
        if piece is _BEGIN:
            begins.append(written)
        elif piece is _END:
            if begins:
                spans.append((begins.pop(), written))
        else:
            texts.append(piece)
            written += len(piece)
    return "".join(texts), sorted(spans)


def _cut_at_marks(text: str) -> list[str]:
    """The pieces of a text that has marks in it; those of a row are taken for marks too."""
    marks = {_BEGIN: _BEGIN, _END: _END}
    return [marks.get(piece, piece) for piece in _MARKS.split(text)]
