"""Control tokens: which there are, whether the template's are tokens, and those that a row's text imitates.

In: the added tokens of a tokenizer and a template; then conversations. Out: an error that names what is
missing; for each conversation the places where its own text would become a control token. Held in memory: the
tokens, and one rendering.

Where a text may hold such a token, the conversation is rendered once more, with a noncharacter in place of
each character that a control token begins with: where the noncharacters come out, the text is the row's.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from krill.chat.forms import Conversation
from krill.chat.options import ChatDrop, KnownToken
from krill.errors import shown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Of a token: a tag of the template, or a special one. Of a place in the text: the least of these
# that stays text there. An assistant may write `<think>`, nobody may write `<|im_end|>`.
CONTROL: Final = 1
SPECIAL: Final = 2
Guard = tuple[int, int, int]

# What looks like a control token, in the families of templates there are.
_WRITTEN: Final = re.compile(
    r"<\|[^\s<>|]+\|?>|<[^\s<>|/]+\|>|<\uff5c[^<>\uff5c]+\uff5c>|</?s>|<(?:bos|eos|sop|eop)>"
    r"|<(?:start|end|begin)_of_\w+>|\[gMASK\]"
)
_FIRST_NONCHARACTER: Final = 0xFDD2
_END_OF_NONCHARACTERS: Final = 0xFDF0
_NONCHARACTERS: Final = re.compile("[\ufdd2-\ufdef]")
# Keys of messages and tool calls that are names: templates compare them.
NAMES: Final = frozenset({"role", "name", "id", "tool_call_id", "type"})
_USUAL_KEYS: Final = frozenset({"role", "content"})


@dataclass(frozen=True)
class ControlTokens:
    """The control tokens of a tokenizer and a template, with their level and id."""

    levels: Mapping[str, int]
    ids: Mapping[str, int]
    looked_for: tuple[str, ...]
    """What the template looks for in an assistant's content, and writes itself."""
    cuts: tuple[str, ...] = ()
    """Where the template may cut a text."""

    @classmethod
    def of(
        cls,
        added: Sequence[KnownToken],
        literals: Iterable[str],
        looked_for: Iterable[str] = (),
        cuts: Iterable[str] = (),
    ) -> ControlTokens:
        """Special tokens, those that look like one (Command R's are not declared so), and what else of added
        tokens the template writes; whitespace is ordinary text."""
        written = "\0".join(literals)
        levels = {}
        for token in added:
            if token.special or _WRITTEN.fullmatch(token.content):
                levels[token.content] = SPECIAL
            elif token.content in written and not token.content.isspace():
                levels[token.content] = CONTROL
        ids = {token.content: token.id for token in added if token.content in levels}
        return cls(levels, ids, tuple(looked_for), tuple(cuts))

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """All lengths of tokens, the longest first."""
        return tuple(sorted({len(text) for text in self.levels}, reverse=True))

    @cached_property
    def _sorted(self) -> list[str]:
        return sorted(self.levels)

    @cached_property
    def _part(self) -> int:
        """Characters that tell most texts from all tokens."""
        return min(3, *self.lengths) if self.lengths else 0

    @cached_property
    def _by_beginning(self) -> dict[str, tuple[int, ...]]:
        return _lengths_by((text[: self._part], text) for text in self.levels)

    @cached_property
    def _by_ending(self) -> dict[str, tuple[int, ...]]:
        return _lengths_by((text[len(text) - self._part :], text) for text in self.levels)

    def begins(self, text: str, position: int, level: int = CONTROL) -> bool:
        """Whether a token of that level or a higher one begins there."""
        for length in self._by_beginning.get(text[position : position + self._part], ()):
            if self.levels.get(text[position : position + length], 0) >= level:
                return True
        return False

    def begins_with(self, text: str) -> bool:
        """Whether a token begins with all of a text."""
        at = bisect_left(self._sorted, text)
        return at < len(self._sorted) and self._sorted[at].startswith(text)

    def end_at(self, text: str, position: int) -> int:
        """The end of the longest token that begins there, else the position."""
        for length in self.lengths:
            token = text[position : position + length]
            if token in self.levels:
                return position + len(token)
        return position

    def last_in(self, text: str, begin: int, end: int) -> tuple[int, int] | None:
        """The stop token that ends a part of the text, but for whitespace; `</tool_call>` is none."""
        while end > begin and text[end - 1].isspace():
            end -= 1
        for length in self._by_ending.get(text[max(begin, end - self._part) : end], ()):
            level = self.levels.get(text[end - length : end], 0) if end - length >= begin else 0
            if level == SPECIAL or (level and not text.startswith("</", end - length)):
                return end - length, end
        return None

    def id_levels(self, vocab_size: int) -> NDArray[np.uint8]:
        """The level of each id."""
        import numpy as np

        levels = np.zeros(vocab_size, np.uint8)
        for text, number in self.ids.items():
            levels[number] = self.levels[text]
        return levels

    def unknown_in(self, rendering: str) -> list[str]:
        """What looks like a control token in a rendering of the template, and is none."""
        return sorted({text for text in _WRITTEN.findall(rendering) if text not in self.levels})


def _lengths_by(parts: Iterable[tuple[str, str]]) -> dict[str, tuple[int, ...]]:
    """The lengths of the tokens that have a part in common, the longest first."""
    lengths: defaultdict[str, set[int]] = defaultdict(set)
    for part, text in parts:
        lengths[part].add(len(text))
    return {part: tuple(sorted(some, reverse=True)) for part, some in lengths.items()}


def any_of(texts: Iterable[str]) -> re.Pattern[str] | None:
    """Finds the longest of some texts; None if there are none."""
    longest_first = sorted(texts, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first))) if longest_first else None


class GuardFinder:
    """Finds control tokens in what came from a row."""

    def __init__(self, tokens: ControlTokens) -> None:
        self._tokens = tokens
        firsts = sorted({text[0] for text in tokens.levels})
        # Pairs of noncharacters: in others' text, in an assistant's.
        codes = range(_FIRST_NONCHARACTER, _END_OF_NONCHARACTERS, 2)
        if len(firsts) > len(codes):
            raise ValueError("control tokens begin with too many different characters")
        self._others = [(first, chr(code)) for first, code in zip(firsts, codes, strict=False)]
        self._own = [(first, chr(code + 1)) for first, code in zip(firsts, codes, strict=False)]
        self._firsts = firsts
        self._first = re.compile(f"[{re.escape(''.join(firsts))}]") if firsts else None
        self._longest = max(tokens.lengths, default=0)
        self._looked_for = any_of(tokens.looked_for)
        self._cuts = any_of(tokens.cuts)

    def find(
        self, conversation: Conversation, text: str, render: Callable[[Conversation], str]
    ) -> list[Guard]:
        """Where in `text`, in characters, a control token is the row's own; `render` gives the same for
        other contents."""
        others = (conversation.tools, conversation.kwargs)
        if not any(self._holds_suspicious(value) for value in (*conversation.messages, *others)):
            return []
        replaced = render(self._replaced(conversation))
        back = replaced
        for first, instead in [*self._others, *self._own]:
            back = back.replace(instead, first)
        if back != text:
            raise ChatDrop("control_not_placed")
        return self._guards(replaced, text)

    def find_plain(self, text: str) -> list[Guard]:
        """The same in a text of which all is the row's."""
        if not self._is_suspicious(text):
            return []
        return self._guards(_replace(text, self._others), text)

    def _holds_suspicious(self, value: Any) -> bool:
        if type(value) is str:
            return self._is_suspicious(value)
        if isinstance(value, Mapping):
            for name, item in value.items():
                if self._holds_suspicious(item) or (name not in _USUAL_KEYS and self._is_suspicious(name)):
                    return True
            return False
        return isinstance(value, Sequence) and any(map(self._holds_suspicious, value))

    def _is_suspicious(self, text: str) -> bool:
        """Whether a control token may come of it: one stands there; or one begins at its end, which the
        template goes on; or one begins where the template cuts the text."""
        for first in self._firsts:
            if first in text:
                break
        else:
            return False
        assert self._first is not None
        match = self._first.search(text)
        if self._cuts is not None and self._cuts.search(text):
            return True
        tokens, stripped = self._tokens, text.rstrip()
        end = len(stripped) - self._longest
        while match is not None:
            at = match.start()
            if tokens.begins(text, at):
                return True
            if at > end and (tokens.begins_with(stripped[at:]) or tokens.begins_with(text[at:])):
                return True
            match = self._first.search(text, at + 1)
        return False

    def _guards(self, replaced: str, text: str) -> list[Guard]:
        found = []
        for match in _NONCHARACTERS.finditer(replaced):
            at = match.start()
            level = SPECIAL if (ord(match.group()) - _FIRST_NONCHARACTER) % 2 else CONTROL
            if self._tokens.begins(text, at, level):
                found.append((at, at + 1, level))
        return found

    def _replaced(self, conversation: Conversation) -> Conversation:
        messages = [
            {key: self._value(key, value, message["role"] == "assistant") for key, value in message.items()}
            for message in conversation.messages
        ]
        tools, kwargs = (self._value("", value, False) for value in (conversation.tools, conversation.kwargs))
        return Conversation(messages, conversation.trained, conversation.details, tools, kwargs)

    def _value(self, key: str, value: Any, own: bool) -> Any:
        if isinstance(value, str):
            if key in NAMES:
                self._check_name(value)
                return value
            if not own:
                return _replace(value, self._others)
            return self._own_text(value) if key == "content" else _replace(value, self._own)
        if isinstance(value, Mapping):
            for name in value:
                self._check_name(name)
            return {name: self._value(name, item, own) for name, item in value.items()}
        return [self._value(key, item, own) for item in value] if isinstance(value, Sequence) else value

    def _own_text(self, text: str) -> str:
        if self._looked_for is None:
            return _replace(text, self._own)
        pieces, at = [], 0
        for match in self._looked_for.finditer(text):
            pieces += [_replace(text[at : match.start()], self._own), match.group()]
            at = match.end()
        return "".join([*pieces, _replace(text[at:], self._own)])

    def _check_name(self, name: str) -> None:
        if self._first is None:
            return
        if any(self._tokens.begins(name, match.start()) for match in self._first.finditer(name)):
            raise ChatDrop("control_in_name", f"`{shown(name)}`")


def _replace(text: str, pairs: Sequence[tuple[str, str]]) -> str:
    for first, instead in pairs:
        text = text.replace(first, instead)
    return text
