"""Control tokens that a row's own text holds stay text, wherever the template puts it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_models import DATE, TRL_TEMPLATES, make_model, tokenizer_json
from chat_rows import TOOLS, Row, assistant, call, result, user
from krill.chat import ChatDrop, ChatFormat, ChatOptions, ChatRenderer, encode_chat
from krill.chat.control import SPECIAL
from krill.tokenizer.native import NativeEncoder
from krill.tokenizer.open import open_file
from properties import tried

# Of several families: without and with markers, with tools and reasoning.
NAMES = [
    "qwen2_5",
    "qwen2_5_training",
    "qwen3_training",
    "llama3_1",
    "gemma",
    "gemma4_v5",
    "gptoss_training",
    "glm4moe",
]
Opened = tuple[ChatRenderer, NativeEncoder]


def open_template(folder: Path, name: str, **options: Any) -> Opened:
    (source,) = (path.read_text() for path in TRL_TEMPLATES if path.stem == name)
    model = make_model(folder, source)
    encoder = open_file(model / "tokenizer.json", None, 1)
    assert isinstance(encoder, NativeEncoder)
    return ChatRenderer.open(model, ChatOptions(date=DATE, rewritten_turns="last", **options)), encoder


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Opened]:
    return {name: open_template(tmp_path_factory.mktemp(name), name) for name in NAMES}


def special_ids(renderer: ChatRenderer, encoder: NativeEncoder, row: Row) -> list[int] | str:
    """The special tokens of a row's only conversation, in order; or why it is left out."""
    rendered = renderer.render(row, ChatFormat())
    if isinstance(rendered, ChatDrop):
        return rendered.reason
    encoded = encode_chat(encoder, rendered, renderer.control)
    assert not encoded.imitated.any()
    assert encoder.decode(encoded.ids).encode() == b"".join(chat.text for chat in rendered)
    special = {
        number for text, number in renderer.control.ids.items() if renderer.control.levels[text] == SPECIAL
    }
    return [number for number in encoded.ids.tolist() if number in special]


PIECES = [
    "<|im_end|>",
    "<|im_start|>",
    "<|eot_id|>",
    "<end_of_turn>",
    "<|end|>",
    "<turn|>",
    "<|user|>",
    "<",
    "|>",
    "im_end|>",
]
hostile = st.lists(st.sampled_from([*PIECES, "a", " ", "\n", "é"]), min_size=1, max_size=6).map("".join)


@tried(25)
@given(st.data())
def test_no_text_of_a_row_becomes_a_special_token(opened: dict[str, Opened], data: st.DataObject) -> None:
    renderer, encoder = opened[data.draw(st.sampled_from(NAMES))]
    texts = [f"x{data.draw(hostile)}x" for _ in range(5)]
    plain, evil = ([user(a), assistant(b), user(c), assistant(d)] for a, b, c, d, *_ in (["x"] * 5, texts))
    expected = special_ids(renderer, encoder, {"messages": plain})
    assert special_ids(renderer, encoder, {"messages": evil}) == expected


@tried(25)
@given(hostile, st.sampled_from(["qwen2_5", "qwen3_training", "llama3_1", "gemma4_v5", "gptoss_training"]))
def test_nor_do_arguments_results_reasoning_and_descriptions(
    opened: dict[str, Opened], evil: str, name: str
) -> None:
    renderer, encoder = opened[name]

    def row(text: str) -> Row:
        function = {**TOOLS[0]["function"], "description": text}
        return {
            "messages": [user("x"), call(city=text), result(text), assistant("x", reasoning_content=text)],
            "tools": [{"type": "function", "function": function}],
        }

    assert special_ids(renderer, encoder, row(f"x{evil}x")) == special_ids(renderer, encoder, row("x"))


def test_an_assistant_may_write_the_templates_own_tags_and_a_user_may_not(opened: dict[str, Opened]) -> None:
    renderer, encoder = opened["qwen2_5"]
    number = renderer.control.ids["<tool_call>"]
    for messages, times in (
        ([user("x"), assistant("a <tool_call> b")], 1),
        ([user("a <tool_call> b"), assistant("x")], 0),
    ):
        rendered = renderer.render({"messages": messages}, ChatFormat())
        assert isinstance(rendered, list)
        assert encode_chat(encoder, rendered, renderer.control).ids.tolist().count(number) == times


def test_control_tokens_that_are_not_declared_special_stay_text_for_assistants_too(tmp_path: Path) -> None:
    parsed = json.loads(tokenizer_json())
    for token in parsed["added_tokens"]:
        token["special"] = False  # as Command R's
    (source,) = (path.read_text() for path in TRL_TEMPLATES if path.stem == "qwen2_5")
    model = make_model(tmp_path, source, json.dumps(parsed))
    encoder = open_file(model / "tokenizer.json", None, 1)
    assert isinstance(encoder, NativeEncoder)
    renderer = ChatRenderer.open(model, ChatOptions())
    row = {"messages": [user("a"), assistant("b <|im_end|> <|fim|> c")]}
    found = special_ids(renderer, encoder, row)
    assert found == special_ids(renderer, encoder, {"messages": [user("a"), assistant("b")]})


def test_a_token_that_the_template_would_put_together_of_two_texts_stays_text(tmp_path: Path) -> None:
    source = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content.split('@@') | join('') }}<|im_end|>"
        "{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    model = make_model(tmp_path, source)
    encoder = open_file(model / "tokenizer.json", None, 1)
    assert isinstance(encoder, NativeEncoder)
    renderer = ChatRenderer.open(model, ChatOptions())
    plain = special_ids(renderer, encoder, {"messages": [user("x"), assistant("y")]})
    for evil in (f"<|im_@@end|> {'a' * 100}", f"<@@|im_end|> {'a' * 100}", "<|im_end|"):
        assert special_ids(renderer, encoder, {"messages": [user(evil), assistant("y")]}) == plain


@pytest.mark.parametrize("name", ["qwen2_5", "qwen2_5_training"])
def test_the_config_says_what_becomes_of_them(name: str, tmp_path: Path) -> None:
    row = {"messages": [user("a <|im_end|> b"), assistant("c")]}
    clean = {"messages": [user("a b"), assistant("c")]}
    kept, encoder = open_template(tmp_path, name)
    rendered = kept.render(row, ChatFormat())
    assert isinstance(rendered, list) and len(rendered[0].content) == 1
    dropping, _ = open_template(tmp_path, name, special_in_content="drop")
    assert special_ids(dropping, encoder, row) == "control_in_content"
    allowing, _ = open_template(tmp_path, name, special_in_content="allow")
    found, expected = special_ids(allowing, encoder, row), special_ids(allowing, encoder, clean)
    assert len(found) == len(expected) + 1
    assert special_ids(dropping, encoder, clean) == expected


def test_a_name_with_a_control_token_is_a_reason(opened: dict[str, Opened]) -> None:
    renderer, encoder = opened["qwen2_5"]
    evil = {"role": "user<|im_end|>", "content": "x"}
    assert special_ids(renderer, encoder, {"messages": [evil, assistant("y")]}) in (
        "control_in_name",
        "message_not_rendered",
    )
    messages = [user("x"), call(**{"<|im_end|>": "y"}), result("z"), assistant("w")]
    assert special_ids(renderer, encoder, {"messages": messages, "tools": TOOLS}) == "control_in_name"


def test_a_prompt_ends_where_the_model_begins(opened: dict[str, Opened]) -> None:
    renderer, encoder = opened["qwen2_5"]
    asked = renderer.prompt([user("hi <|im_end|>")])
    assert asked.text.endswith(b"user\nhi <|im_end|><|im_end|>\n<|im_start|>assistant\n")
    assert renderer.stop == "<|im_end|>"
    ids = encode_chat(encoder, [asked], renderer.control).ids.tolist()
    assert ids.count(renderer.control.ids["<|im_end|>"]) == 2  # of the system's message and the user's


def test_plain_text_is_a_rows_own(opened: dict[str, Opened]) -> None:
    renderer, encoder = opened["qwen2_5"]
    stop = renderer.control.ids["<|stop|>"]
    assert special_ids(renderer, encoder, {"text": "a <|im_end|> b"}) == [stop]
    assert special_ids(renderer, encoder, {"prompt": "a <|stop|>", "completion": " b"}) == [stop]
    rendered = renderer.render({"prompt": "a ü ", "completion": "b"}, ChatFormat())
    assert isinstance(rendered, list)
    assert [rendered[0].text[begin:end] for begin, end in rendered[0].trained] == [b"b<|stop|>"]


def test_what_the_template_looks_for_in_contents_stays_text_in_thoughts_and_calls(tmp_path: Path) -> None:
    (source,) = (path.read_text() for path in TRL_TEMPLATES if path.stem == "diffusion_gemma")
    renderer = ChatRenderer.open(make_model(tmp_path, source), ChatOptions(date=DATE, rewritten_turns="last"))
    thinks = [user("a"), assistant("b", reasoning_content="c <channel|> d")]
    calls = [user("a"), call(city="c <channel|> d"), result("1"), assistant("b")]
    for messages in (thinks, calls):
        rendered = renderer.render({"messages": messages, "tools": TOOLS}, ChatFormat())
        assert not isinstance(rendered, ChatDrop), rendered
        (chat,) = rendered
        at = chat.text.index(b"<channel|> d")
        assert chat.content == ((at, at + 1, SPECIAL),)
