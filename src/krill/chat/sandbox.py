"""Templates in Jinja's sandbox, as transformers runs them, with bounds on what they write and do.

In: the source of a template; then its variables. Out: the text, and which parts of it the template marks with
`{% generation %}`. Held in memory: the compiled template and one rendering.

A rendering is ended by the characters that it writes and the steps that it takes (rounds of loops, calls),
never by time: what is left out does not depend on the machine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final, cast

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment

from krill.chat import syntax
from krill.chat.options import ChatDrop
from krill.errors import ConfigError, KrillError

Span = tuple[int, int]

# A template of gpt-oss takes 60 steps a message; some look at all later messages from each.
MOST_STEPS: Final = 4_000_000
# A round of a loop takes 0.1 us, a call of a macro 2.
_STEPS_OF_A_CALL: Final = 10
# Parts of a rendering whose place has to be found afterwards stand between these noncharacters.
_BEGIN, _END = "\ufdd0", "\ufdd1"
_DICT_ATTRIBUTES: Final = frozenset(dir(dict))
_WIDE: Final = re.compile(r"\*|\d{5}")


class Environment(ImmutableSandboxedEnvironment):
    """The sandbox, which counts calls and looks at the size of what operators make."""

    intercepted_binops = frozenset(["+", "*", "**", "%"])

    def __init__(self, date: datetime | None, most: int) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
        self.most = most
        self.steps = 0
        self.marked = 0
        self.brackets = False
        self.filters["tojson"] = _tojson
        self.filters["_rounds"] = self._rounds
        self.filters["_sized"] = self._sized
        self.globals.update(
            raise_exception=_raise_exception,
            strftime_now=lambda format: _today(date).strftime(format),
            dict=_Dict(),
            namespace=_Namespace,
        )

    def call(self, context: Any, called: Any, /, *args: Any, **kwargs: Any) -> Any:
        self.step(_STEPS_OF_A_CALL)
        for value in args:
            if type(value) is int and value > self.most:
                raise ChatDrop("template_too_long", f"a call with the number {value:,}")
        return self._sized(super().call(context, called, *args, **kwargs))

    def getattr(self, obj: Any, attribute: str) -> Any:
        # The sandbox would look for an attribute first, which takes an exception.
        if type(obj) is dict and attribute in obj and attribute not in _DICT_ATTRIBUTES:
            return obj[attribute]
        return super().getattr(obj, attribute)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "+":
            value = left + right
            return self._sized(value) if type(value) is str else value
        if operator == "*":
            self._check(_repeated(left, right))
        elif operator == "**" and isinstance(left, int) and isinstance(right, int):
            self._check(abs(left).bit_length() * max(right, 0))
        elif operator == "%" and isinstance(left, str) and _WIDE.search(left):
            raise ChatDrop("template_too_long", f"the format `{left[:100]}`")
        return self._sized(self.binop_table[operator](left, right))

    def step(self, count: int = 1) -> None:
        self.steps += count
        if self.steps > MOST_STEPS:
            raise ChatDrop("template_too_many_steps", f"more than {MOST_STEPS:,}")

    def _rounds(self, items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            self.step()
            yield item

    def _sized(self, value: Any) -> Any:
        if type(value) is str:
            self._check(len(value))
        return value

    def _check(self, size: int) -> None:
        if size > self.most:
            raise ChatDrop("template_too_long", f"a text of {size:,} characters")


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
        return nodes.CallBlock(self.call_method("mark"), [], [], body).set_lineno(line)

    def mark(self, caller: Macro) -> str:
        environment = cast(Environment, self.environment)
        environment.marked += 1
        text = str(caller())
        return f"{_BEGIN}{text}{_END}" if environment.brackets else text


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
        tree = self.environment.parse(source)
        markers = [block for block in tree.find_all(nodes.CallBlock) if _is_generation(block)]
        self.has_markers = bool(markers)
        # Where the text is collected before it is written, what was written so far does not tell its place.
        self._buffered = any(_is_generation(block) for block in syntax.buffered_blocks(tree))
        # Strings have to be read before the tree is changed.
        self.literals = syntax.literals(tree)
        self.looked_for = syntax.looked_for(tree)
        self.cuts = syntax.cuts(tree)
        self._template = self.environment.from_string(syntax.bounded(tree))

    def render(self, variables: dict[str, Any]) -> str:
        """The text, or `ChatDrop`; `SecurityError` for a template that leaves the sandbox."""
        return self._render(variables, False)[0]

    def render_marked(self, variables: dict[str, Any]) -> tuple[str, list[Span]]:
        """The same, and the parts that the template marks, in characters, in order."""
        text, spans = self._render(variables, False)
        if not self._buffered:
            return text, spans
        bracketed, _ = self._render(variables, True)
        found, spans = _without_brackets(bracketed)
        if found != text:
            raise ChatDrop("markers_not_placed")
        return text, spans

    def _render(self, variables: dict[str, Any], brackets: bool) -> tuple[str, list[Span]]:
        environment = self.environment
        environment.steps, environment.marked, environment.brackets = 0, 0, brackets
        pieces: list[str] = []
        spans: list[Span] = []
        written = marked = 0
        context = self._template.new_context(variables)
        try:
            for piece in self._template.root_render_func(context):
                if environment.marked != marked:
                    marked = environment.marked
                    spans.append((written, written + len(piece)))
                written += len(piece)
                if written > environment.most:
                    raise ChatDrop("template_too_long", f"more than {environment.most:,} bytes")
                pieces.append(piece)
        except (ChatDrop, KrillError, SecurityError, MemoryError):
            raise
        except RecursionError:
            raise ChatDrop("template_too_many_steps", "macros that call themselves") from None
        except Exception as error:
            raise ChatDrop("template_error", str(error) or type(error).__name__) from None
        return "".join(pieces), spans


def _without_brackets(text: str) -> tuple[str, list[Span]]:
    spans: list[Span] = []
    pieces: list[str] = []
    written, begins = 0, []
    at = 0
    for position, character in enumerate(text):
        if character not in (_BEGIN, _END):
            continue
        pieces.append(text[at:position])
        written += position - at
        at = position + 1
        if character == _BEGIN:
            begins.append(written)
        elif begins:
            spans.append((begins.pop(), written))
    pieces.append(text[at:])
    return "".join(pieces), sorted(spans)


def _is_generation(node: nodes.Node) -> bool:
    if not isinstance(node, nodes.CallBlock):
        return False
    method = getattr(node.call, "node", None)
    return isinstance(method, nodes.ExtensionAttribute) and method.identifier == _Generation.identifier
