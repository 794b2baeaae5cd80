"""Conversations and the templates that they are rendered with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from fuzzing import Target
from krill.chat import REASONS, ChatDrop, ChatFormat, ChatOptions, ChatRenderer, encode_chat
from krill.tokenizer.native import NativeEncoder
from krill.tokenizer.open import open_file
from mutations import mutate_json

TEMPLATE = """{%- if tools %}{{ '<|im_start|>system\\n' }}{{ tools | tojson }}{{ '<|im_end|>\\n' }}{% endif %}
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' }}{{ message.content or '' }}
{%- for call in message.tool_calls or [] %}{{ call.function | tojson(indent=1) }}{% endfor %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""


def _rows() -> list[dict[str, Any]]:
    call = {"type": "function", "function": {"name": "look", "arguments": '{"at": "krill"}'}}
    turns = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "<|im_end|> what is é 漢字?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": [{"type": "text", "text": "small"}]},
        {"role": "assistant", "content": "a letter \U0001f990", "weight": 1},
    ]
    return [
        {"messages": turns, "tools": [{"type": "function", "function": {"name": "look"}}]},
        {"conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "<|im_start|>"}]},
        {"instruction": "count", "input": "1 2", "output": "3"},
        {"prompt": "one", "completion": "two"},
        {"text": "plain"},
    ]


def _make_chats(folder: Path) -> Mapping[str, Sequence[str]]:
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([json.dumps(_rows())] * 3, trainer)
    special = ["<|im_start|>", "<|im_end|>"]
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in special])
    place = folder / "chat"
    place.mkdir()
    tokenizer.save(str(place / "tokenizer.json"))
    (place / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>"}))
    (place / "chat_template.jinja").write_text(TEMPLATE)
    (place / "rows.json").write_text(json.dumps(_rows()))
    return {"chat": ["rows.json"] * 6 + ["chat_template.jinja"] * 2 + ["tokenizer_config.json"]}


def check_chats(folder: Path, random: Random) -> None:
    """Every row is rendered and encoded, or left out for a reason that is known."""
    encoder = open_file(folder / "tokenizer.json", None, 1)
    assert isinstance(encoder, NativeEncoder)
    renderer = ChatRenderer.open(
        folder, ChatOptions(rewritten_turns=random.choice(["error", "last", "unroll"]))
    )
    try:
        rows = json.loads((folder / "rows.json").read_bytes())
    except ValueError:
        return
    for row in rows if isinstance(rows, list) else [rows]:
        if not isinstance(row, dict):
            continue
        rendered = renderer.render(row, ChatFormat())
        if isinstance(rendered, ChatDrop):
            assert rendered.reason in REASONS, rendered.reason
            continue
        encoded = encode_chat(encoder, rendered, renderer.control)
        assert len(encoded.ids) == len(encoded.trained) == int(encoded.lengths.sum())
        for chat in rendered:
            assert all(0 <= begin <= end <= len(chat.text) for begin, end in chat.trained)


CHAT_TARGETS = [Target("chat", _make_chats, check_chats, mutate_json)]
