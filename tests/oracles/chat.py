"""Slow, obvious references of chat data: which characters are trained, which tokens share a byte with them,
and what text is encoded to if control tokens in some of it are text."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from tokenizers import Tokenizer

Span = tuple[int, int]


def reference_turns(
    render: Callable[..., str], messages: list[dict[str, Any]], switches: Sequence[dict[str, bool]] = ()
) -> list[tuple[str, Span]] | None:
    """Of each assistant's message the rendering that ends with it, and in it what the model writes; None if
    one does not begin with what the model was asked with, whatever variable of the template is set, as long
    as it leaves the rendering as it is."""
    found = []
    for number, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        answered = render(messages[: number + 1], False)
        prompts = [
            render(messages[:number], True, **switch)
            for switch in ({}, *switches)
            if render(messages[: number + 1], False, **switch) == answered
        ]
        fitting = [prompt for prompt in prompts if answered.startswith(prompt)]
        if not fitting:
            return None
        found.append((answered, (len(fitting[0]), len(answered))))
    return found


def until_stop(text: str, span: Span, stops: Sequence[str]) -> Span:
    """A turn without the whitespace behind its stop token."""
    begin, end = span
    bare = text[begin:end].rstrip()
    return (begin, begin + len(bare)) if bare.endswith(tuple(stops)) else span


def reference_flags(tokenizer: Tokenizer, text: str, spans: Sequence[Span]) -> tuple[list[int], list[int]]:
    """Ids, and 1 for each that shares a character with a span but is not the first."""
    encoding = tokenizer.encode(text, add_special_tokens=False)
    flags = [
        int(any(begin < last and first < end for first, last in spans)) for begin, end in encoding.offsets
    ]
    return encoding.ids, [0, *flags[1:]]


def reference_guarded(
    content: str, text: str, guards: Sequence[tuple[int, int, int]], levels: dict[int, int]
) -> list[int]:
    """Ids of a text of a tokenizer whose added tokens are not found in guarded places: cut by hand, and the
    rest encoded by the same tokenizer without added tokens. Added tokens must not be normalized, and must
    leave the whitespace beside them."""
    parsed = json.loads(content)
    added = {token["content"]: token["id"] for token in parsed["added_tokens"]}
    bare = Tokenizer.from_str(json.dumps({**parsed, "added_tokens": [], "post_processor": None}))

    def found_at(at: int) -> str | None:
        for token in sorted(added, key=len, reverse=True):
            if not text.startswith(token, at):
                continue
            level = levels.get(added[token], 0)
            end = at + len(token)
            if not any(level and begin < end and at < last and level >= own for begin, last, own in guards):
                return token
        return None

    ids: list[int] = []
    at = plain = 0
    while at < len(text):
        token = found_at(at)
        if token is None:
            at += 1
            continue
        ids += bare.encode(text[plain:at], add_special_tokens=False).ids
        ids.append(added[token])
        at = plain = at + len(token)
    return ids + bare.encode(text[plain:], add_special_tokens=False).ids
