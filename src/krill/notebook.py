"""HTML for notebooks: facts in a table, and texts by token.

In: labels and values of any kind. Out: a few lines of HTML without scripts, links or styles of its own beyond
colours that suit a light and a dark notebook; all text is escaped. Nothing is held.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Final

from krill.errors import escape

# Half transparent, so that they tint whatever the notebook's own background is.
_TINTS: Final = ("59,130,246", "234,179,8", "34,197,94", "236,72,153", "139,92,246")
_LONGEST: Final = 300


def facts_html(title: str, rows: Iterable[tuple[str, object]]) -> str:
    """A table of labels and values under a title."""
    lines = "".join(
        f'<tr><td style="text-align:left">{_shown(label)}</td>'
        f'<td style="text-align:left">{_shown(str(value))}</td></tr>'
        for label, value in rows
    )
    return f"<div><b>{_shown(title)}</b><table>{lines}</table></div>"


def tokens_html(pieces: Iterable[tuple[int, str]]) -> str:
    """A text by its tokens, each an id and what it shows, tinted by turns."""
    marks = "".join(
        f'<span title="{number}" style="background:rgba({_TINTS[place % len(_TINTS)]},0.3)">'
        f"{html.escape(escape(text))}</span>"
        for place, (number, text) in enumerate(pieces)
    )
    return f'<pre style="white-space:pre-wrap">{marks}</pre>'


def _shown(text: str) -> str:
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    return html.escape(escape(text))
