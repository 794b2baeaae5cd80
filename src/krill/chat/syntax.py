"""What stands in a template, and bounds put into it: its tree of syntax.

In: a parsed template. Out: the strings in it, and what it does with them; a template whose loops are counted.
Nothing is held.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, cast

from jinja2 import nodes
from jinja2.meta import find_undeclared_variables
from jinja2.visitor import NodeTransformer

_BUFFERED: Final = (
    nodes.Macro,
    nodes.CallBlock,
    nodes.AssignBlock,
    nodes.FilterBlock,
    nodes.Block,
    nodes.ScopedEvalContextModifier,  # `{% autoescape %}`: what it writes are copies
    nodes.For,
)
MARKS: Final = ("begin_mark", "end_mark")
"""Attributes of the environment that `{% generation %}` writes around what it marks."""
_CUTTING: Final = frozenset({"split", "rsplit", "partition", "rpartition", "replace"})


def has_marks(node: nodes.Node) -> bool:
    """Whether the template marks what stands there."""
    return any(each.name in MARKS for each in node.find_all(nodes.EnvironmentAttribute))


def buffered_blocks(template: nodes.Template) -> Iterator[nodes.Node]:
    """Blocks whose output is collected in a variable or a macro before it is written."""
    for outer in template.find_all(_BUFFERED):
        if not isinstance(outer, nodes.For) or outer.recursive:
            yield outer


def literals(template: nodes.Template) -> tuple[str, ...]:
    """All text that stands in the template."""
    written = [data.data for data in template.find_all(nodes.TemplateData)]
    strings = [const.value for const in template.find_all(nodes.Const) if isinstance(const.value, str)]
    return tuple(dict.fromkeys([*written, *strings]))


def looked_for(template: nodes.Template) -> tuple[str, ...]:
    """Strings that the template looks for in others, as `</think>`: with `in`, `split`, `startswith`."""
    found: list[nodes.Node] = []
    for call in template.find_all(nodes.Call):
        if isinstance(call.node, nodes.Getattr):
            found += call.args
    for comparison in template.find_all(nodes.Compare):
        if any(operand.op in ("in", "notin") for operand in comparison.ops):
            found.append(comparison.expr)
    strings = [node.value for node in found if isinstance(node, nodes.Const) and isinstance(node.value, str)]
    return tuple(dict.fromkeys(text for text in strings if len(text) > 2 and not text.isalnum()))


def cuts(template: nodes.Template) -> tuple[str, ...]:
    """Strings at which the template may cut others, so that texts come together that were apart."""
    found: list[nodes.Node] = []
    for call in template.find_all(nodes.Call):
        if isinstance(call.node, nodes.Getattr) and call.node.attr in _CUTTING:
            found += call.args
    for each in template.find_all(nodes.Filter):
        if each.name in _CUTTING:
            found += each.args
    strings = [node.value for node in found if isinstance(node, nodes.Const) and isinstance(node.value, str)]
    return tuple(dict.fromkeys(text for text in strings if text))


def reads(template: nodes.Template, names: Iterable[str]) -> tuple[str, ...]:
    """Those of some variables that the template reads, and that it is not given by itself."""
    unset = find_undeclared_variables(template)
    return tuple(name for name in names if name in unset)


def bounded(template: nodes.Template) -> nodes.Template:
    """The same template, whose loops are counted and whose sums and joined texts are looked at."""
    return cast(nodes.Template, _Bounds().visit(template))


class _Bounds(NodeTransformer):
    def visit_For(self, node: nodes.For) -> nodes.Node:
        self.generic_visit(node)
        node.iter = nodes.Filter(node.iter, "_rounds", [], [], None, None, lineno=node.lineno)
        return node

    def visit_Add(self, node: nodes.Add) -> nodes.Node:
        """One call adds all of `a + b + c`."""
        others: list[nodes.Expr] = []
        first: nodes.Expr = node
        while isinstance(first, nodes.Add):
            others.insert(0, self.visit(first.right))
            first = first.left
        return nodes.Filter(self.visit(first), "_added", others, [], None, None, lineno=node.lineno)

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return nodes.Filter(node, "_sized", [], [], None, None, lineno=node.lineno)

    def visit_List(self, node: nodes.List) -> nodes.Node:
        return self._checked(node, node.items)

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:
        return self._checked(node, node.items) if node.ctx == "load" else node

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:
        return self._checked(node, [pair.value for pair in node.items])

    def _checked(self, node: nodes.Expr, items: Iterable[nodes.Node]) -> nodes.Node:
        """Lists in which two things stand that may be one and the same are looked at."""
        named = sum(not isinstance(item, nodes.Const | nodes.TemplateData) for item in items)
        self.generic_visit(node)
        if named < 2:
            return node
        return nodes.Filter(node, "_made", [], [], None, None, lineno=node.lineno)
