"""A chat with a model: what the user says becomes a prompt in the model's template.

In: a tokenizer with its chat template, what the user says and what the model answered. Out: the ids of the
next prompt, and the tokens that end an answer. Held in memory: the messages.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from krill.chat import ChatDrop, ChatOptions, ChatRenderer, encode_chat
from krill.errors import ConfigError, InputError
from krill.tokenizer.native import NativeEncoder
from krill.tokenizer.tokenizer import Tokenizer


@dataclass(slots=True)
class Chat:
    """The messages so far. `stops` are the ids that end an answer."""

    renderer: ChatRenderer
    encoder: NativeEncoder
    stops: frozenset[int | None]
    messages: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def open(cls, file: Path, tokenizer: Tokenizer, options: ChatOptions) -> Chat:
        """The template of the tokenizer in `file`, or another one; a ConfigError if the two don't fit."""
        renderer = ChatRenderer.open(file, options)
        encoder = tokenizer.encoder
        if not isinstance(encoder, NativeEncoder):
            raise ConfigError(
                f"a chat needs a tokenizer that the native core runs, and `{file}` is not",
                hint="take a model with a tokenizer of one of the families in docs/tokenizer.md",
            )
        stop = None if renderer.stop is None else renderer.control.ids.get(renderer.stop)
        return cls(renderer, encoder, frozenset({tokenizer.eos_id, stop} - {None}))

    def ask(self, said: str) -> list[int]:
        """The prompt after the user has said something."""
        self.messages.append({"role": "user", "content": said})
        try:
            rendered = self.renderer.prompt(self.messages)
        except ChatDrop as error:
            raise InputError(
                f"the template can't render this chat: {error}",
                hint="begin anew, or take another --chat-template",
            ) from None
        found = encode_chat(self.encoder, [rendered], self.renderer.control)
        ids: list[int] = found.ids.tolist()
        return ids

    def answer(self, text: str) -> None:
        """Remember what the model said."""
        self.messages.append({"role": "assistant", "content": text})
