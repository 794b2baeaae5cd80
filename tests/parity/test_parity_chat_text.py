"""Conversations are rendered as transformers renders them, for every template of trl."""

from __future__ import annotations

from pathlib import Path

import pytest

from chat_models import DATE, TRL_TEMPLATES, fix_library_date, library_tokenizer, make_model
from chat_rows import CONVERSATIONS
from krill.chat import ChatDrop, ChatFormat, ChatOptions
from krill.chat.forms import Conversation, read_row
from krill.chat.render import ChatRenderer


@pytest.mark.parametrize("template", TRL_TEMPLATES, ids=lambda path: path.stem)
def test_texts_equal_those_of_transformers(
    template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fix_library_date(monkeypatch)
    source = template.read_text()
    renderer = ChatRenderer.open(make_model(tmp_path, source), ChatOptions(date=DATE))
    library = library_tokenizer(source)
    use = renderer.templates[0]
    rendered = 0
    for name, row in CONVERSATIONS.items():
        given = read_row(row, ChatFormat())
        assert isinstance(given, Conversation)
        for prompt in (False, True):
            # In the form that the template wants, as a user of the library has to give them.
            messages = [use.adapted(message) for message in given.messages]
            try:
                expected = library.apply_chat_template(
                    messages, tools=given.tools, tokenize=False, add_generation_prompt=prompt
                )
            except Exception:
                with pytest.raises(ChatDrop):
                    renderer.text_of(given, prompt=prompt)
                continue
            assert renderer.text_of(given, prompt=prompt) == expected, name
            rendered += 1
    assert rendered >= 8
