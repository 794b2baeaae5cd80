"""Chat data: conversations to tokens and what of them is trained.

In: rows of conversations, a tokenizer and its template. Out: ids and a flag for each; rows that can't be
rendered exactly are left out for a reason that is counted. Held in memory: one batch of conversations.

    renderer = ChatRenderer.open("models/qwen3", ChatOptions())
    rendered = renderer.render({"messages": [...]}, ChatFormat())     # a list, or a ChatDrop
    encoded = encode_chat(encoder, rendered, renderer.control)
"""

from typing import TYPE_CHECKING

from krill.chat.options import REASONS, UNTRAINED_REASONS, ChatDrop, ChatFormat, ChatOptions, RendererSettings
from krill.lazy import lazy_names

if TYPE_CHECKING:
    from krill.chat.render import ChatRenderer, RenderedChat
    from krill.chat.tokens import EncodedChats, encode_chat

__all__ = [
    "REASONS",
    "UNTRAINED_REASONS",
    "ChatDrop",
    "ChatFormat",
    "ChatOptions",
    "ChatRenderer",
    "EncodedChats",
    "RenderedChat",
    "RendererSettings",
    "encode_chat",
]

__getattr__ = lazy_names(
    __name__,
    {
        "krill.chat.render": ("ChatRenderer", "RenderedChat"),
        "krill.chat.tokens": ("EncodedChats", "encode_chat"),
    },
)[0]
