"""Control tokens: which there are, whether the template's are tokens, and those that a row's text imitates.

In: the added tokens of a tokenizer and a template; then conversations. Out: an error that names what is
missing; for each conversation the places where its own text would become a control token. Held in memory: the
tokens, and one rendering.

To find these places the conversation is rendered once more, with a noncharacter in place of each character
that a control token begins with: where the noncharacters come out, the text is the row's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from krill.chat.forms import Conversation
from krill.chat.options import ChatDrop
from krill.config.messages import shown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from krill.tokenizer.tokenizer_json import AddedToken

# Of a token: a control token of the template, or a special one. Of a place in the text: the least of these
# that stays text there. An assistant may write `<think>`, nobody may write `<|im_end|>`.
CONTROL: Final = 1
SPECIAL: Final = 2
Guard = tuple[int, int, int]

# What looks like a control token, in the families of templates there are.
_WRITTEN: Final = re.compile(
    r"<\|[^\s<>|]+\|?>|<[^\s<>|/]+\|>|<\uff5c[^<>\uff5c]+\uff5c>|</?s>|<(?:bos|eos|sop|eop)>|<(?:start|end|begin)_of_\w+>|\[gMASK\]"
)
_FIRST_NONCHARACTER: Final = 0xFDD2
_NONCHARACTERS: Final = re.compile("[\ufdd2-\ufdef]")
# Keys of messages and tool calls that are names: templates compare them.
NAMES: Final = frozenset({"role", "name", "id", "tool_call_id", "type"})


@dataclass(frozen=True, slots=True)
class ControlTokens:
    """The control tokens of a tokenizer and a template, with their level and id."""

    levels: Mapping[str, int]
    ids: Mapping[str, int]
    kept: tuple[str, ...]
    """What the template looks for in an assistant's text, and writes itself."""

    @classmethod
    def of(
        cls, added: Sequence[AddedToken], literals: Iterable[str], looked_for: tuple[str, ...]
    ) -> ControlTokens:
        written = "\0".join(literals)
        levels = {
            token.content: SPECIAL if token.special else CONTROL
            for token in added
            if token.special or (token.content in written and not token.content.isspace())
        }
        return cls(
            levels, {token.content: token.id for token in added if token.content in levels}, looked_for
        )

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

    def last_in(self, text: str, begin: int, end: int) -> tuple[int, int] | None:
        """The control token that ends a part of the text, but for whitespace."""
        while end > begin and text[end - 1].isspace():
            end -= 1
        for token in self.levels:
            if text.endswith(token, begin, end):
                return end - len(token), end
        return None

    def end_at(self, text: str, position: int) -> int:
        """The end of the control token that begins there, else the position."""
        return max(
            (position + len(each) for each in self.levels if text.startswith(each, position)),
            default=position,
        )


class GuardFinder:
    """Finds control tokens in what came from a row."""

    def __init__(self, tokens: ControlTokens) -> None:
        firsts = sorted({text[0] for text in tokens.levels})
        if len(firsts) * 2 > 0xFDF0 - _FIRST_NONCHARACTER:
            raise ValueError("control tokens begin with too many different characters")
        # Pairs of noncharacters: in others' text, in an assistant's.
        codes = range(_FIRST_NONCHARACTER, 0xFDF0, 2)
        self._others = {ord(first): chr(code) for first, code in zip(firsts, codes, strict=False)}
        self._own = {ord(first): chr(code + 1) for first, code in zip(firsts, codes, strict=False)}
        self._back = {ord(chars[key]): chr(key) for chars in (self._others, self._own) for key in chars}
        self._suspicious = re.compile(f"[{re.escape(''.join(firsts))}]") if firsts else None
        self._by_level = {
            level: tuple(text for text, own in tokens.levels.items() if own >= level)
            for level in (CONTROL, SPECIAL)
        }
        kept = sorted(tokens.kept, key=len, reverse=True)
        self._kept = re.compile("|".join(map(re.escape, kept))) if kept else None
        self._levels = tokens.levels

    def find(
        self, conversation: Conversation, text: str, render: Callable[[Conversation], str]
    ) -> list[Guard]:
        """Where in `text`, in characters, a control token is the row's own; `render` gives the same for
        other contents."""
        if self._suspicious is None or not any(
            self._suspicious.search(leaf)
            for leaf in _strings([conversation.messages, conversation.tools, conversation.kwargs])
        ):
            return []
        replaced = render(self._replaced(conversation))
        if replaced.translate(self._back) != text:
            raise ChatDrop("control_not_placed")
        return self._guards(replaced, text)

    def find_plain(self, text: str) -> list[Guard]:
        """The same in a text of which all is the row's."""
        return self._guards(text.translate(self._others), text)

    def _guards(self, replaced: str, text: str) -> list[Guard]:
        found = []
        for match in _NONCHARACTERS.finditer(replaced):
            at = match.start()
            level = SPECIAL if (ord(match.group()) - _FIRST_NONCHARACTER) % 2 else CONTROL
            if text.startswith(self._by_level[level], at):
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
            return self._own_text(value) if own else value.translate(self._others)
        if isinstance(value, Mapping):
            for name in value:
                self._check_name(name)
            return {name: self._value(name, item, own) for name, item in value.items()}
        return [self._value(key, item, own) for item in value] if isinstance(value, Sequence) else value

    def _own_text(self, text: str) -> str:
        if self._kept is None:
            return text.translate(self._own)
        pieces, at = [], 0
        for match in self._kept.finditer(text):
            pieces += [text[at : match.start()].translate(self._own), match.group()]
            at = match.end()
        return "".join([*pieces, text[at:].translate(self._own)])

    def _check_name(self, name: str) -> None:
        if any(token in name for token in self._levels):
            raise ChatDrop("control_in_name", f"`{shown(name)}`")


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield name
            yield from _strings(item)
    elif isinstance(value, Sequence):
        for item in value:
            yield from _strings(item)
