"""Pages measured and stripped natively as the references do, and measured not below what a parser builds."""

from __future__ import annotations

import lxml.html
from hypothesis import given
from hypothesis import strategies as st
from resiliparse.parse.html import HTMLTree, NodeType

from krill import _native
from oracles import web
from properties import tried

MOST = 2**60
NAMES = sorted(
    web.VOID
    | web.RAW
    | web.FORMATTING
    | web.SPECIAL
    | web.FOREIGN
    | web.BREAK
    | {"span", "custom-element", "path", "optgroup", "option"}
)


def measured(page: str) -> tuple[int, ...]:
    return _native.measure_page(page.encode(), MOST, MOST, MOST)


@st.composite
def soups(draw: st.DrawFn, names: list[str] = NAMES, size: int = 40) -> str:
    """Tags in any order, some with attributes, with texts and comments between."""
    some = draw(st.lists(st.sampled_from(names), min_size=1, max_size=6))
    parts = []
    for _ in range(draw(st.integers(1, size))):
        name = draw(st.sampled_from(some))
        form = draw(
            st.sampled_from(["<{}>", "<{}>", "<{}>", "</{}>", "<{} a=b>", "<{} a=1 b='>' c>", "<{}/>"])
        )
        parts.append(form.format(name))
        parts.append(draw(st.sampled_from(["", "", "x", " ", "<!-- <b> -->", "<!-->", "<?a>", "&amp;"])))
    return "".join(parts)


noise = st.text("<>/!?-=\"' abpABP1\n&\0é", max_size=60)


@tried(200)
@given(soups() | noise)
def test_a_page_is_measured_as_the_reference_does(page: str) -> None:
    assert measured(page) == web.measure_page(page)
    found = _native.measure_page(page.encode(), MOST, MOST, MOST, True)
    assert found == web.measure_page(page, empty_raw=True)


@tried(100)
@given(soups(), st.integers(0, 20), st.integers(0, 10), st.integers(0, 200))
def test_measuring_ends_at_the_first_tag_beyond_a_limit(page: str, tags: int, depth: int, work: int) -> None:
    limits = (tags, depth, work)
    assert _native.measure_page(page.encode(), *limits) == web.measure_page(page, limits)


@tried(200)
@given(soups() | noise)
def test_a_page_is_stripped_as_the_reference_does(page: str) -> None:
    assert _native.page_text(page.encode()) == web.page_text(page).encode()


def tree_size(page: str) -> tuple[int, int]:
    """Elements and nesting below `body`, as a parser builds them."""
    elements = depth = 0
    body = HTMLTree.parse(page).body
    queue = [(child, 1) for child in (body.child_nodes if body is not None else [])]
    while queue:
        node, level = queue.pop()
        if node.type == NodeType.ELEMENT:
            elements, depth = elements + 1, max(depth, level)
        queue += [(child, level + 1) for child in node.child_nodes]
    return elements, depth


# A cell may stand in a row, a group of rows and a table that are not written.
IMPLIED = 2


@tried(300)
@given(soups(size=30))
def test_no_parser_builds_much_more_than_was_measured(page: str) -> None:
    tags, depth, work, *_ = measured(page)
    elements, levels = tree_size(page)
    assert levels <= IMPLIED * depth + IMPLIED
    assert elements <= IMPLIED * (tags + work) + IMPLIED


# It ends a page there, and has elements that hold others where browsers have none, such as `image`.
LIBXML2_LEVELS = 256


def libxml2_size(page: str) -> tuple[int, int]:
    """The same as libxml2 builds them, which Trafilatura parses by."""
    root = lxml.html.document_fromstring(page, parser=lxml.html.HTMLParser(encoding="utf-8"))
    nodes = [node for node in root.iter() if node.tag not in ("html", "head", "body", "title", "p")]
    return len(nodes), max((sum(1 for _ in node.iterancestors()) for node in nodes), default=0)


@tried(200)
@given(soups(size=30))
def test_nor_does_libxml2(page: str) -> None:
    tags, _, work, *_ = _native.measure_page(page.encode(), MOST, MOST, MOST, True)
    elements, levels = libxml2_size("<html><body>" + page)
    assert levels <= LIBXML2_LEVELS
    assert elements <= IMPLIED * (tags + work) + IMPLIED
