"""The stretches into which Hugging Face's regex engine divides a text: its matches and what lies between.

The engine is asked through `Split`, which says where pieces are but not what they are, and drops empty ones.
So the behaviours are compared: what `removed` with `invert` leaves are the matches.
"""

from __future__ import annotations

from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

Stretch = tuple[int, int, bool]


def reference_stretches(pattern: str, text: str) -> list[Stretch]:
    """Where each stretch begins and ends in the text's UTF-8, and whether it is a match."""
    begins = [0]
    for character in text:
        begins.append(begins[-1] + len(character.encode()))
    regex = Regex(pattern)
    pieces = Split(regex, "isolated").pre_tokenize_str(text)
    matches = {place for _, place in Split(regex, "removed", invert=True).pre_tokenize_str(text)}
    return [(begins[begin], begins[end], (begin, end) in matches) for _, (begin, end) in pieces]


def is_regex(pattern: str) -> bool:
    """Whether the engine takes a pattern."""
    try:
        Regex(pattern)
    except Exception:  # the library raises plain Exception
        return False
    return True
