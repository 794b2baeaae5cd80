"""Slow references of what is native about web pages: how much work a page is, and its text without tags.

Both read a page as the HTML standard cuts it into tags; `measure_page` then keeps the list of open elements
as the standard's tree construction does, where that is simple, and keeps more open where it is not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field


def _words(names: str) -> set[str]:
    return set(names.split())


SPACE = " \n\t\r\f"
VOID = _words(
    "area base basefont bgsound br col embed frame hr image img input keygen link meta param source track wbr"
)
HIDDEN_RAW = {"iframe", "noembed", "noframes", "script", "style", "title"}
RAW = HIDDEN_RAW | {"textarea", "xmp"}
FORMATTING = _words("a b big code em font i nobr s small strike strong tt u")
BLOCK = _words(
    "address article aside blockquote center details dir div dl fieldset figcaption figure "
    "footer header hgroup listing main menu nav ol pre search section summary ul"
)
HEADING = {f"h{level}" for level in range(1, 7)}
CLOSES_P = BLOCK | HEADING | {"dialog", "dd", "dt", "form", "hr", "li", "p", "plaintext", "xmp"}
INTEGRATION = {"annotation-xml", "desc", "foreignobject", "mi", "mn", "mo", "ms", "mtext"}
SCOPE = INTEGRATION | {"applet", "caption", "html", "marquee", "object", "table", "td", "template", "th"}
ROW_GROUP = {"caption", "colgroup", "tbody", "tfoot", "thead"}
ROOT = {"body", "frameset", "head", "html"}
SPECIAL = (VOID | RAW | BLOCK | HEADING | SCOPE | ROW_GROUP | ROOT) | {
    "button",
    "dd",
    "dt",
    "form",
    "li",
    "noscript",
    "p",
    "plaintext",
    "select",
    "tr",
}
BLOCK_END = BLOCK | {"applet", "button", "dialog", "marquee", "object"}
FOREIGN = {"math", "svg"}
LEAVES_FOREIGN = {"body", "br", "embed", "head", "hr", "img", "meta"}
BREAK = (
    BLOCK
    | HEADING
    | (ROW_GROUP - {"colgroup"})
    | {"option", "optgroup"}
    | _words("body br dd dialog dt form hr li p plaintext table tr xmp")
)


@dataclass
class Tag:
    name: str
    end: bool
    attributes: int
    self_closing: bool
    attribute_bytes: int = 0


def tokens(page: str, raw_text: object) -> Iterator[str | Tag | None]:
    """Texts, tags, and None for a comment; `raw_text(tag)` says whether a raw element holds text."""
    at = 0
    while at < len(page):
        found = re.compile(r"<(?=[A-Za-z!?]|/.)", re.DOTALL).search(page, at)
        text_end = len(page) if found is None else found.start()
        if text_end > at:
            yield page[at:text_end]
        if found is None:
            return
        at = text_end
        if page.startswith("<!--", at):
            closed = re.compile(r"<!--(?:>|->|.*?--!?>|.*)", re.DOTALL).match(page, at)
            assert closed is not None
            at = closed.end()
            yield None
            continue
        if re.compile(r"<(?:[!?]|/[^A-Za-z])", re.DOTALL).match(page, at):
            closed = re.compile(r"[^>]*>?").match(page, at)
            assert closed is not None
            at = closed.end()
            yield None
            continue
        read = _tag(page, at)
        if read is None:
            return
        tag, at = read
        yield tag
        if not tag.end and tag.name in RAW and raw_text(tag):  # type: ignore[operator]
            ends = re.compile(rf"</{tag.name}(?=[\s/>])", re.IGNORECASE | re.ASCII).search(page, at)
            stop = len(page) if ends is None else ends.start()
            if stop > at:
                yield page[at:stop]
            at = stop


def _tag(page: str, at: int) -> tuple[Tag, int] | None:
    """The tag at `at`, and where it ends; None if the page does before."""
    head = re.compile(r"<(/?)([^ \n\t\r\f/>]*)").match(page, at)
    assert head is not None
    lowered = "".join(chr(ord(c) | 32) if "A" <= c <= "Z" else c for c in head[2])
    tag = Tag(lowered, head[1] == "/", 0, False)
    at = head.end()
    name_end = at
    while at < len(page):
        if page[at] == ">":
            tag.attribute_bytes = len(page[name_end:at].encode())
            return tag, at + 1
        if page[at] in SPACE + "/":
            tag.self_closing = page.startswith("/>", at)
            at += 1
            continue
        tag.attributes += 1
        name = re.compile(r".[^ \n\t\r\f/>=]*", re.DOTALL).match(page, at)
        assert name is not None
        at = name.end()
        value = re.compile(r"[ \n\t\r\f]*=[ \n\t\r\f]*").match(page, at)
        if value is not None:
            at = value.end()
            rest = re.compile(r"\"[^\"]*\"?|'[^']*'?|[^ \n\t\r\f>]*").match(page, at)
            assert rest is not None
            at = rest.end()
    return None


@dataclass
class Measure:
    """What `measure_page` finds, tag by tag."""

    limits: tuple[int, int, int]
    tags: int = 0
    depth: int = 0
    work: int = 0
    attributes: int = 0
    attribute_bytes: int = 0
    open: list[str] = field(default_factory=list)
    foreign: int = 0
    options: int = 0
    only_options: bool = False
    empty_raw: bool = False
    root_attributes: int = 0
    reopened: Counter[tuple[str, bool]] = field(default_factory=Counter)

    def within(self) -> bool:
        return self.tags <= self.limits[0] and self.depth <= self.limits[1] and self.work <= self.limits[2]

    def now_open(self) -> int:
        return len(self.open) + sum(self.reopened.values())

    def start(self, tag: Tag) -> None:
        name = tag.name
        if not self.foreign:
            self.close_before(name)
        self.attributes += tag.attributes
        self.attribute_bytes += tag.attribute_bytes
        compared = tag.attributes * (tag.attributes - 1) // 2
        if name in ROOT:
            compared += tag.attributes * self.root_attributes
            self.root_attributes += tag.attributes
        if name == "select":
            self.options = 0
            self.work += (self.open.index("select") + 1) if "select" in self.open else len(self.open)
            self.only_options = "select" not in self.open
        elif name not in ("option", "optgroup"):
            self.only_options = False
        if name in ("option", "optgroup"):
            compared += self.options
            self.options += 1
        self.tags += 1
        self.work += self.now_open() + compared // 8
        if name in FORMATTING and (tag.attributes or self.reopened[name, False] < 3):
            self.reopened[name, tag.attributes > 0] += 1
        html = not self.foreign or name in LEAVES_FOREIGN
        if html and (name in VOID or (name in ROOT and self.open)):
            return
        if tag.self_closing and (self.foreign or (self.empty_raw and name in RAW)):
            return
        self.foreign += name in FOREIGN
        self.open.append(name)
        self.depth = max(self.depth, self.now_open())

    def end(self, name: str) -> None:
        if name not in ("option", "optgroup"):
            self.only_options = False
        if name in ROOT:
            return
        at = self.ended(name)
        if at is None:
            if name in ("p", "br"):
                self.tags += 1
                self.work += self.now_open()
        elif name == "form":
            del self.open[at]
        else:
            self.cut(at)

    def ended(self, name: str) -> int | None:
        """Where the element is that an end tag ends."""
        stop = SPECIAL
        if name in BLOCK_END | HEADING | {"dd", "dt", "form"}:
            stop = SCOPE
        elif name == "li":
            stop = SCOPE | {"ol", "ul"}
        elif name == "p":
            stop = SCOPE | {"button"}
        elif name in ROW_GROUP | {"table", "td", "th", "tr"}:
            stop = {"table", "template"}
        elif name in FOREIGN | {"template"}:
            stop = set()
        for at in reversed(range(len(self.open))):
            self.work += 1
            other = self.open[at]
            if other == name or (name in HEADING and other in HEADING):
                self.no_longer_reopened(name)
                return at
            if other in stop or (self.foreign and stop):
                return None
        self.no_longer_reopened(name)
        return None

    def no_longer_reopened(self, name: str) -> None:
        for varied in (True, False):
            if self.reopened[name, varied] > 0:
                self.reopened[name, varied] -= 1
                return

    def close_before(self, name: str) -> None:
        if name in CLOSES_P:
            self.close_nearest({"p"}, SCOPE | {"button"})
        if name in ("li", "dd", "dt"):
            items = {"li"} if name == "li" else {"dd", "dt"}
            self.close_nearest(items, SPECIAL - items - {"address", "div", "p"})
        if name in HEADING and self.open and self.open[-1] in HEADING:
            self.open.pop()
        if name in ("option", "optgroup") and self.options and self.open[-1:] == ["option"]:
            self.open.pop()
        if name == "optgroup" and self.only_options and self.open[-1:] in (["option"], ["optgroup"]):
            self.open.pop()
        holders = {"td": {"tr"}, "th": {"tr"}, "tr": ROW_GROUP}.get(
            name, set() if name in ROW_GROUP else None
        )
        if holders is not None:
            for at in reversed(range(len(self.open))):
                self.work += 1
                if self.open[at] in {"table", "template"} | holders:
                    return self.cut(at + 1)
        return None

    def close_nearest(self, wanted: set[str], stop: set[str]) -> None:
        for at in reversed(range(len(self.open))):
            self.work += 1
            if self.open[at] in wanted:
                return self.cut(at)
            if self.open[at] in stop:
                return None
        return None

    def cut(self, at: int) -> None:
        gone = self.open[at:]
        self.foreign -= sum(name in FOREIGN for name in gone)
        if gone and gone[0] in FOREIGN and any(name in INTEGRATION | {"title"} for name in gone):
            self.foreign += 1
        del self.open[at:]


def measure_page(
    page: str, limits: tuple[int, int, int] = (2**60, 2**60, 2**60), empty_raw: bool = False
) -> tuple[int, ...]:
    """Elements and comments, the most elements open at once, what has to be looked at for them, their
    attributes and the bytes of these."""
    found = Measure(limits, empty_raw=empty_raw)

    def raw_text(tag: Tag) -> bool:
        return not found.foreign and not (empty_raw and tag.self_closing)

    for token in tokens(page, raw_text):
        if token is None:
            found.tags += 1
        elif isinstance(token, Tag):
            if token.end:
                found.end(token.name)
            else:
                found.start(token)
        if not isinstance(token, str) and not found.within():
            break
    return found.tags, found.depth, found.work, found.attributes, found.attribute_bytes


def page_text(page: str) -> str:
    """A page without its tags."""
    text: list[str] = []
    hidden = False
    for token in tokens(page, lambda _: True):
        if isinstance(token, str):
            text.append("" if hidden else token)
            hidden = False
        elif token is not None:
            text.append("\n" if token.name in BREAK else " " if token.name in ("td", "th") else "")
            hidden = not token.end and token.name in HIDDEN_RAW
    return "".join(text)
