"""Tokens shown as text while they come.

In: token ids, one at a time. Out: the text that is certain by now. Held in memory: the ids since the last
whole character. A token may end inside a character: what is incomplete waits for the next one, so the pieces
together are exactly the text of all ids.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

# What decoders show where bytes are no character, or not one yet.
_INCOMPLETE: Final = "\ufffd"


class TextStream:
    """One text in the making; `decode` gives the text of some ids."""

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        # Ids that were shown last, and those that wait. Some decoders treat the first id of a text
        # differently, so what is new is told by what it adds to ids that came before it.
        self._shown: list[int] = []
        self._waiting: list[int] = []

    def add(self, token: int) -> str:
        """What can be shown after one more token; perhaps nothing yet."""
        self._waiting.append(token)
        return self._take(final=False)

    def end(self) -> str:
        """What still waited: bytes that are no character show as U+FFFD."""
        return self._take(final=True)

    def _take(self, *, final: bool) -> str:
        if not self._waiting:
            return ""
        together = self._decode([*self._shown, *self._waiting])
        if together.endswith(_INCOMPLETE) and not final:
            return ""
        new = together[len(self._decode(self._shown)) :]
        self._shown, self._waiting = self._waiting, []
        return new
