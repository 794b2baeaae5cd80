"""The kinds of pages that cost a library most, each as large as the limits of extraction let it be.

A kind is a function from a size to a page. As a program, with the section `extract` as JSON and the names of
kinds: seconds of CPU time and bytes of memory that pages of these, or of all kinds, take, and their size.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from krill.text.page_limits import PageLimits

Kind = Callable[[int], str]

MOST_BYTES: Final = 10_000_000
BLOCKS: Final = ("p", "div", "li", "section", "blockquote", "h2", "pre", "dd")
INLINE: Final = ("b", "i", "a", "em", "font", "code", "span", "u")


def _nested(tag: str, depth: int, around: str) -> Kind:
    """Elements inside of `depth` levels, as often as there is room for."""
    return lambda n: (f"<{tag}>" * depth + around * 20 + f"</{tag}>" * depth) * max(1, n // (depth + 20))


def _soup(seed: int) -> Kind:
    """Any tags in any order, of which most are never closed in turn."""

    def page(n: int) -> str:
        chance = Random(seed)
        names = chance.sample([*BLOCKS, *INLINE, *_OTHERS], 6)
        parts = []
        for _ in range(n):
            name = chance.choice(names)
            parts.append(
                chance.choice([f"<{name}>", f"<{name} class=c{chance.randrange(50)}>", f"</{name}>", "text "])
            )
        return "".join(parts)

    return page


_OTHERS: Final = (
    "table",
    "tr",
    "td",
    "select",
    "option",
    "svg",
    "math",
    "form",
    "button",
    "template",
    "ul",
    "dl",
)

KINDS: Final[Mapping[str, Kind]] = {
    **{f"flat <{tag}>": lambda n, tag=tag: f"<{tag}>a</{tag}>" * n for tag in (*BLOCKS, *INLINE)},
    **{
        f"open <{tag}>": lambda n, tag=tag: f"<{tag}>a" * n for tag in (*BLOCKS, *INLINE, "table", "tr", "ul")
    },
    **{
        f"{depth} levels of <{tag}>": _nested(tag, depth, "<p>a</p>")
        for tag in ("div", "ul", "table", "blockquote", "span", "font", "ul><li", "table><tr><td")
        for depth in (10, 100, 240, 450)
    },
    "paragraphs of words": lambda n: f"<p>{'some words of a text, ' * 20}</p>" * n,
    "one text": lambda n: "some words, and then some more. " * n,
    "one word": lambda n: "a" * n,
    "spaces": lambda n: " " * n + "a",
    "newlines": lambda n: "\n" * n + "a",
    "newlines in <pre>": lambda n: "<pre>" + "\n" * n + "a</pre>",
    "less-than signs": lambda n: "a < b " * n,
    "<br>": lambda n: "a<br>" * n,
    "<hr>": lambda n: "a<hr>" * n,
    "<img alt>": lambda n: '<img src="/a.png" alt="a picture of words">' * n,
    "table of cells": lambda n: "<table>" + "<tr><td>a<td>b<td>c" * (n // 4) + "</table>",
    "table of one row": lambda n: "<table><tr>" + "<td>a" * n + "</table>",
    "text in a table, moved in front": lambda n: "<table>" + "a<tr>" * n,
    "elements in a table, moved in front": lambda n: "<table>" + "<b>a</b><tr>" * n,
    "links": lambda n: '<a href="/some/address">a link</a> ' * n,
    "long links": lambda n: f'<p><a href="/{"x" * 90}">b</a></p>' * n,
    "list of links": lambda n: "<ul>" + '<li class="item"><a href="/a">b</a></li>' * n + "</ul>",
    "classes": lambda n: '<p class="comment sidebar related share">a word</p>' * n,
    "many classes": lambda n: f'<div class="{"a b " * 50}">a</div>' * n,
    "one long class": lambda n: f'<div class="{"a " * n}">some text</div>',
    "one long attribute": lambda n: f'<p title="{"x" * n}">some text</p>',
    "one long id": lambda n: f'<p id="{"share-" * n}">some text</p>',
    "attributes": lambda n: "<p " + " ".join(f"a{k}=1" for k in range(n)) + ">text",
    "elements with attributes": lambda n: ("<p " + " ".join(f"a{k}=1" for k in range(30)) + ">text</p>") * n,
    "the same attribute": lambda n: "<p " + "a=1 " * n + ">text",
    "comments": lambda n: "<!-- a comment -->a" * n,
    "one comment": lambda n: "<!--" + "- <p> " * n + "-->a",
    "CDATA": lambda n: "<svg>" + "<![CDATA[ a ]]>" * n,
    "processing instructions": lambda n: "<?a b>a" * n,
    "scripts": lambda n: "<script>var a = '<p>';</script>a" * n,
    "one script": lambda n: "<script>" + "var a = '<p>';\n" * n + "</script>a",
    "JSON-LD": lambda n: (
        '<script type="application/ld+json">{"a": [' + '{"@type": "Article"},' * n + "{}]}</script>a"
    ),
    "styles": lambda n: "<style>p {}</style>a" * n,
    "entities": lambda n: "&amp;&eacute;&#233;&notin; " * n,
    "wrong entities": lambda n: "&a&b;&#x110000;&#0; " * n,
    "SVG": lambda n: "<svg>" + "<path d='M 1 1'/>" * n + "</svg>text",
    "nested SVG": _nested("svg><g", 100, "<path/>"),
    "HTML in SVG": lambda n: "<svg><foreignObject><p>a</p></foreignObject></svg>" * n,
    "MathML": lambda n: "<math>" + "<mrow><mi>a</mi><mo>=</mo><mn>1</mn></mrow>" * n + "</math>text",
    "frames": lambda n: "<frameset>" + "<frame src=a>" * n + "</frameset>",
    "iframes": lambda n: "<iframe src=a>a</iframe>" * n,
    "options": lambda n: "<select>" + "<option>a" * n + "</select>",
    "groups of options": lambda n: "<optgroup>a" * n,
    "groups of options in a list": lambda n: "<select>" + "<optgroup><option>a" * n,
    "selects": lambda n: "<select><option>a<option>b</select>" * n,
    "forms": lambda n: "<form><input name=a value=b><button>a</button></form>" * n,
    "text areas": lambda n: "<textarea>a</textarea>" * n,
    "bold and italic, crossed": lambda n: "<b><i>a</b></i>" * n,
    "paragraphs in open bold": lambda n: "<b><i><u>" + "<p>a" * n,
    "bold left open in paragraphs": lambda n: "<p><b>a" * n,
    "fonts left open in paragraphs": lambda n: "".join(f"<p><font color={k % 20}>a" for k in range(n)),
    "links left open in blocks": lambda n: "<a href=b><div>a" * n,
    "formatting around blocks": lambda n: "<b><div>a</b></div>" * n,
    "nobr": lambda n: "<nobr><div>a" * n,
    "noscript": lambda n: "<noscript><p>a</p></noscript>" * n,
    "templates": lambda n: "<template><p>a</p></template>" * n,
    "nested templates": _nested("template", 100, "<p>a</p>"),
    "headings": lambda n: "<h1>a</h1><h2>b</h2>" * n,
    "quotes": lambda n: "<blockquote><q>a</q></blockquote>" * n,
    "definitions": lambda n: "<dl>" + "<dt>a<dd>b" * n + "</dl>",
    "tables of paragraphs": lambda n: ("<table>" + "<p>a</p>" * 20 + "</table>") * max(1, n // 20),
    "lists of paragraphs": lambda n: ("<ul>" + "<li><p>a</p>" * 20 + "</ul>") * max(1, n // 20),
    "short paragraphs between long ones": lambda n: f"<p>a</p><p>b</p><p>{'and so on, ' * 10}</p>" * n,
    "tags in a text area": lambda n: "<textarea>" + "<p>a" * n,
    "tags in a frame": lambda n: "<iframe>" + "<p>a" * n,
    "tags in an example": lambda n: "<xmp>" + "<p>a" * n,
    "tags in a title": lambda n: "<title>" + "<p>a" * n,
    "tags in <noframes>": lambda n: "<noframes>" + "<p>a" * n,
    "tags in <noembed>": lambda n: "<noembed>" + "<p>a" * n,
    "tags behind plain text": lambda n: "<plaintext>" + "<p>a" * n,
    "tags in a comment": lambda n: "<!-- --!><!-->" + "<p>a" * n,
    "a tag that does not end": lambda n: "some text <p " + "a=b " * n,
    "an attribute that does not end": lambda n: 'some text <p a="' + "<p>" * n,
    "code": lambda n: "<pre><code>a = b\n</code></pre>" * n,
    "end tags that end nothing": lambda n: "</b></p></x>a" * n,
    "bodies": lambda n: "<body a=b>a" * n,
    "articles": lambda n: f"<article><p>{'some words ' * 8}</p></article>" * n,
    "paragraphs in divisions": lambda n: f"<div><div><p>{'some words ' * 8}</p></div></div>" * n,
    "lists in lists": lambda n: "<ul><li>a<ul><li>b</ul></ul>" * n,
    "tables in tables": lambda n: "<table><td>a<table><td>b</table></table>" * n,
    "breaks in a paragraph": lambda n: "<p>" + "a<br><br>" * n + "</p>",
    "details": lambda n: "<details><summary>a</summary>b</details>" * n,
    "same ids": lambda n: "<p id=a>a</p>" * n,
    "hidden": lambda n: '<p style="display:none" hidden>a</p>' * n,
    **{f"soup {seed}": _soup(seed) for seed in range(12)},
}


def peak_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if "VmHWM" in line)


def framed(body: str) -> str:
    return f"<!DOCTYPE html><html><head><title>A page</title></head><body><main>{body}</main></body></html>"


def largest(kind: Kind, limits: PageLimits, most_bytes: int = MOST_BYTES) -> str:
    """The page of this kind that is within the limits, while one a sixteenth larger is not."""

    def fits(size: int) -> bool:
        page = framed(kind(size)).encode()
        return len(page) <= most_bytes and limits.held_bytes(page) is not None

    low = 16
    while low < most_bytes and fits(2 * low):
        low *= 2
    for share in (2, 4, 8, 16):
        if fits(low + low // share):
            low += low // share
    return framed(kind(low))


@dataclass(frozen=True)
class Cost:
    """What extracting a page took: seconds of CPU time, and bytes of memory."""

    kind: str
    page_bytes: int
    seconds: float
    grown: int


def measure(extract: Callable[[str], object], kinds: Sequence[str], limits: PageLimits) -> Iterator[Cost]:
    """The cost of the largest page of each kind, each in a fork of this process."""
    extract(framed("<p>some text</p>" * 100))
    for name in kinds:
        page = largest(KINDS[name], limits)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            Path("/proc/self/clear_refs").write_text("5")  # the peak is what is held now
            before, begun = peak_bytes(), time.thread_time()
            extract(page)
            os.write(writer, json.dumps([time.thread_time() - begun, peak_bytes() - before]).encode())
            os._exit(0)
        os.close(writer)
        _, status = os.waitpid(child, 0)
        with open(reader, "rb") as answer:
            assert status == 0, f"{name}: status {status}"
            yield Cost(name, len(page), *json.loads(answer.read()))


def main() -> None:
    from krill import _native
    from krill.config.extract import ExtractConfig
    from krill.text.extractors import extractor_of, limits_of

    _native.configure_malloc()
    config = ExtractConfig(**json.loads(sys.argv[1]))
    for cost in measure(extractor_of(config, titles=True), sys.argv[2:] or list(KINDS), limits_of(config)):
        print(f"{cost.seconds:.2f}", cost.grown, cost.page_bytes, cost.kind, sep="\t", flush=True)


if __name__ == "__main__":
    main()
