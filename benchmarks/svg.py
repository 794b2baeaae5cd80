"""Plain SVG for charts and diagrams: text stays text, and nothing is loaded from elsewhere.

In: what to draw. Out: SVG with a paper of its own, whose colours follow the reader's light or dark mode, so
that it reads on any page. Written by hand: what is drawn is rectangles, lines and words, and the bytes must
not depend on the version of a library, since tests compare them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

LINE = 17
"""Pixels between two lines of text."""

# Class: what it colours, by day, by night.
_COLOURS = {
    "paper": ("fill", "#ffffff", "#0d1117"),
    "ink": ("fill", "#1f2328", "#e6edf3"),
    "soft": ("fill", "#57606a", "#9da7b3"),
    "line": ("stroke", "#57606a", "#9da7b3"),
    "rule": ("stroke", "#d0d7de", "#30363d"),
    "head": ("fill", "#57606a", "#9da7b3"),
    "ours": ("fill", "#0b62c4", "#4c9aef"),
    "peer": ("fill", "#b1bac4", "#57606a"),
    "budget": ("stroke", "#b3261e", "#ff8a80"),
    "budget-text": ("fill", "#b3261e", "#ff8a80"),
    "base": ("fill", "#8c959f", "#6e7681"),
    "always": ("fill", "#8fb8e8", "#2f6fb5"),
    "first": ("fill", "#d6e6fa", "#16324f"),
    "second": ("fill", "#dff3e3", "#173a22"),
    "third": ("fill", "#fdeccf", "#42310f"),
    "run": ("fill", "#e8f0fe", "#16263d"),
    "run-edge": ("stroke", "#3367d6", "#4c7fd6"),
    "stage": ("fill", "#e6f4ea", "#12291a"),
    "stage-edge": ("stroke", "#188038", "#3fa35c"),
    "engine": ("fill", "#fef7e0", "#2f2610"),
    "engine-edge": ("stroke", "#b06000", "#b98a3c"),
    "disk": ("fill", "#f1f3f4", "#1b2128"),
    "disk-edge": ("stroke", "#5f6368", "#7d8590"),
    "plain": ("fill", "#ffffff", "#0d1117"),
    "plain-edge": ("stroke", "#5f6368", "#7d8590"),
}


def text(
    x: float,
    y: float,
    content: str,
    *,
    bold: bool = False,
    anchor: str = "middle",
    kind: str = "ink",
    size: int = 0,
) -> str:
    """A line of text whose baseline is at `y`."""
    look = (' font-weight="bold"' if bold else "") + (f' font-size="{size}"' if size else "")
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}"{look}>{escape(content)}</text>'


def rectangle(x: float, y: float, width: float, height: float, kind: str, *, round: float = 0) -> str:
    """A filled rectangle; kinds of boxes have an edge."""
    edge = f" {kind}-edge" if f"{kind}-edge" in _COLOURS else ""
    corners = f' rx="{round:g}"' if round else ""
    return f'<rect class="{kind}{edge}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"{corners}/>'


def box(x: float, y: float, width: float, height: float, kind: str, title: str, *lines: str) -> str:
    """A box with a title and lines below it, all centred."""
    middle = x + width / 2
    first = y + (height - LINE * (len(lines) + 1)) / 2 + 13
    return "\n".join(
        [
            rectangle(x, y, width, height, kind, round=6),
            text(middle, first, title, bold=True),
            *(text(middle, first + LINE * (at + 1), line) for at, line in enumerate(lines)),
        ]
    )


def frame(x: float, y: float, width: float, height: float, kind: str, title: str) -> str:
    """A box around others, with its title in the corner."""
    corner = text(x + 12, y + 20, title, bold=True, anchor="start")
    return rectangle(x, y, width, height, kind, round=8) + "\n" + corner


def path(route: str, *, kind: str = "line", head: bool = True) -> str:
    """A line along `route`, with the head of an arrow."""
    end = ' marker-end="url(#head)"' if head else ""
    return f'<path class="{kind}" d="{route}" fill="none"{end}/>'


def arrow(x: float, y: float, to_x: float, to_y: float, label: str = "", dy: float = -6) -> str:
    """A straight arrow, with a label in its middle."""
    line = path(f"M{x:g},{y:g} L{to_x:g},{to_y:g}")
    return line + ("\n" + text((x + to_x) / 2, (y + to_y) / 2 + dy, label) if label else "")


def svg(width: float, height: float, title: str, parts: Sequence[str], *, size: int = 13) -> str:
    """The whole picture; `title` is for those who do not see it."""
    head = (
        '<marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8"'
        ' orient="auto"><path class="head" d="M0,0 L8,4 L0,8 z"/></marker>'
    )
    drawn = "\n".join([rectangle(0, 0, width, height, "paper", round=8), *parts])
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}"'
            f' height="{height:g}" font-family="system-ui, sans-serif" font-size="{size}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{_style(drawn, 1)}",
            f"@media (prefers-color-scheme: dark) {{ {_style(drawn, 2)} }}</style>",
            *([f"<defs>{head}</defs>"] if "#head" in drawn else []),
            drawn,
            "</svg>\n",
        ]
    )


def _style(drawn: str, mode: int) -> str:
    """The colours of what is drawn, by day (1) or by night (2)."""
    used = {kind for classes in re.findall(r'class="([^"]*)"', drawn) for kind in classes.split()} | {"head"}
    return " ".join(
        f".{kind} {{ {colour[0]}: {colour[mode]} }}" for kind, colour in _COLOURS.items() if kind in used
    )
