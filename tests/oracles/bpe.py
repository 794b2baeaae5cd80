"""Where a word of BPE may be cut without changing its tokens, by the definition.

In: merges as pairs of texts, a word. Out: the places. Held in memory: all pairs of characters at which a
merge may join.
"""

from __future__ import annotations

from collections.abc import Iterable


def reference_cuts(merges: Iterable[tuple[str, str]], word: str) -> list[int]:
    """Offsets in bytes: between two characters unless a merge's left part ends in the one and its right part
    begins with the other. For words all of whose characters have a token."""
    joined = {(left[-1], right[0]) for left, right in merges}
    places = [at for at in range(1, len(word)) if (word[at - 1], word[at]) not in joined]
    return [len(word[:at].encode()) for at in [*places, len(word)]]
