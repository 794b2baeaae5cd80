"""What stands in a template, and bounds put into it: its tree of syntax.

In: a parsed template. Out: the strings in it, and what it does with them; a template whose loops are counted.
Nothing is held.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, cast

from jinja2 import nodes
from jinja2.visitor import NodeTransformer

_BUFFERED: Final = (nodes.Macro, nodes.CallBlock, nodes.AssignBlock, nodes.FilterBlock, nodes.For)
_CUTTING: Final = frozenset({"split", "rsplit", "partition", "rpartition", "replace"})


def buffered_blocks(template: nodes.Template) -> Iterator[nodes.Node]:
    """Calls whose output is collected in a variable or a macro before it is written."""
    for outer in template.find_all(_BUFFERED):
        if isinstance(outer, nodes.For) and not outer.recursive:
            continue
        for body in outer.iter_child_nodes(only=("body",)):
            yield body
            yield from body.find_all(nodes.CallBlock)


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


def bounded(template: nodes.Template) -> nodes.Template:
    """The same template, whose loops are counted and whose joined texts are looked at."""
    return cast(nodes.Template, _Bounds().visit(template))


class _Bounds(NodeTransformer):
    def visit_For(self, node: nodes.For) -> nodes.Node:
        self.generic_visit(node)
        node.iter = nodes.Filter(node.iter, "_rounds", [], [], None, None, lineno=node.lineno)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return nodes.Filter(node, "_sized", [], [], None, None, lineno=node.lineno)
