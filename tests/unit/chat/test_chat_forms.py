"""Rows of all known forms become the same messages, and what can't be read has a reason."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_rows import CALL_ID, TOOLS, Row, assistant, call, user
from krill.chat import REASONS, ChatDrop, ChatFormat
from krill.chat.forms import Conversation, PlainText, read_row
from properties import tried

ASKED = [user("a"), assistant("b")]


def read(row: Row, **format: Any) -> Conversation:
    found = read_row(row, ChatFormat(**format))
    assert isinstance(found, Conversation)
    return found


@pytest.mark.parametrize(
    ("row", "format"),
    [
        ({"messages": ASKED}, {}),
        ({"messages": json.dumps(ASKED)}, {}),
        ({"messages": ASKED, "conversations": None, "text": "x"}, {}),
        ({"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}, {}),
        ({"conversation": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}, {}),
        ({"conversations": ASKED}, {}),
        ({"instruction": "a", "input": "", "output": "b"}, {}),
        ({"prompt": [user("a")], "completion": [assistant("b")]}, {}),
        ({"chat": ASKED}, {"field_messages": "chat"}),
        (
            {"chat": [{"who": "me", "what": "a"}, {"who": "bot", "what": "b"}]},
            {
                "field_messages": "chat",
                "message_property_mappings": {"role": "who", "content": "what"},
                "roles": {"user": ["me"], "assistant": ["bot"]},
            },
        ),
        ({"messages": [{"role": "system", "content": "s"}, *ASKED]}, {"drop_system_message": True}),
        ({"messages": [{**message, "tool_calls": None, "name": None} for message in ASKED]}, {}),
        ({"messages": [{**ASKED[0], "content": [{"type": "text", "text": "a"}]}, ASKED[1]]}, {}),
    ],
)
def test_every_form_gives_the_same_messages(row: Row, format: dict[str, Any]) -> None:
    found = read(row, **format)
    assert found.messages == ASKED
    assert found.trained == [False, True]


def test_alpaca_has_its_input_below_the_instruction() -> None:
    row = {"instruction": "Add.", "input": "1 2", "output": "3", "system": "Be brief."}
    assert [message["content"] for message in read(row).messages] == ["Be brief.", "Add.\n1 2", "3"]


def test_text_and_pairs_of_text_need_no_template() -> None:
    assert read_row({"text": "abc"}, ChatFormat()) == PlainText("", "abc")
    assert read_row({"prompt": "a", "completion": "b"}, ChatFormat()) == PlainText("a", "b")


def test_only_the_completion_of_a_prompt_is_trained() -> None:
    row = {"prompt": [*ASKED, user("c")], "completion": [assistant("d")]}
    assert read(row).trained == [False, False, False, True]


def test_arguments_are_decoded_and_keys_without_a_value_are_dropped() -> None:
    function = {"name": "f", "arguments": '{"city": "Rom", "unit": null}', "strict": None}
    row = {
        "messages": [user("a"), {**call(), "tool_calls": [{"id": CALL_ID, "function": function, "x": None}]}]
    }
    (made,) = read(row).messages[1]["tool_calls"]
    assert made == {"id": CALL_ID, "function": {"name": "f", "arguments": {"city": "Rom", "unit": None}}}
    function["arguments"] = {"city": "Rom", "unit": None}  # as Arrow gives it
    (made,) = read(row).messages[1]["tool_calls"]
    assert made["function"]["arguments"] == {"city": "Rom"}


def test_tools_and_kwargs_may_be_written_as_json() -> None:
    kwargs = {"enable_thinking": False}
    row = {"messages": ASKED, "tools": json.dumps(TOOLS), "chat_template_kwargs": json.dumps(kwargs)}
    assert (read(row).tools, read(row).kwargs) == (TOOLS, kwargs)
    assert read({"messages": ASKED, "tools": []}).tools is None


def test_reasoning_has_the_names_that_templates_read() -> None:
    for name in ("reasoning", "thinking", "reasoning_content"):
        (message,) = read({"messages": [assistant("a", **{name: "r"})]}).messages
        assert (message["reasoning_content"], message["thinking"]) == ("r", "r")


def test_parts_say_which_of_their_text_is_trained() -> None:
    parts = [
        {"type": "text", "text": "no ", "train": False},
        {"type": "text", "text": "yes", "weight": 1},
        {"type": "text", "text": " too"},
    ]
    found = read({"messages": [user("a"), {"role": "assistant", "content": parts}]})
    assert found.messages[1]["content"] == "no yes too"
    assert found.details[1] == ((3, 6), (6, 10))
    assert found.trained == [False, True]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({}, "unknown_form"),
        ({"body": "x"}, "unknown_form"),
        ({"messages": []}, "empty_conversation"),
        ({"messages": [{"role": "system", "content": "x"}]}, "empty_conversation"),
        ({"messages": 5}, "bad_message"),
        ({"messages": "not json"}, "bad_message"),
        ({"messages": ["hello"]}, "bad_message"),
        ({"messages": [{"content": "x"}]}, "bad_message"),
        ({"messages": [{"role": 7, "content": "x"}]}, "bad_message"),
        ({"messages": [{"role": "user", "content": None}]}, "no_content"),
        ({"messages": [{"role": "user", "content": 5}]}, "bad_content"),
        ({"messages": [{"role": "user", "content": {"text": "x"}}]}, "bad_content"),
        ({"messages": [{"role": "user", "content": [7]}]}, "bad_content"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]},
            "image_content",
        ),
        ({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "audio_content"),
        ({"messages": [{"role": "user", "content": [{"type": "video"}]}]}, "video_content"),
        ({"messages": [{"role": "user", "content": [{"type": "smell"}]}]}, "unknown_content"),
        ({"messages": [assistant("", tool_calls="{")]}, "bad_tool_calls"),
        ({"messages": [assistant("", tool_calls=[5])]}, "bad_tool_calls"),
        ({"messages": [assistant("", tool_calls=[{"function": {"arguments": "{x"}}])]}, "bad_tool_arguments"),
        (
            {"messages": [assistant("", tool_calls=[{"function": {"arguments": "[1]"}}])]},
            "bad_tool_arguments",
        ),
        ({"messages": ASKED, "tools": "{"}, "bad_tools"),
        ({"messages": ASKED, "tools": ["f"]}, "bad_tools"),
        ({"messages": ASKED, "chat_template_kwargs": "[]x"}, "bad_template_kwargs"),
        ({"messages": ASKED, "chat_template_kwargs": [1]}, "bad_template_kwargs"),
        ({"messages": [assistant("a", weight="yes")]}, "bad_training_flag"),
        (
            {"messages": [assistant("a", detail=[{"begin_offset": 3, "end_offset": 1, "train": True}])]},
            "bad_training_flag",
        ),
        ({"messages": [assistant("a", detail=["x"])]}, "bad_training_flag"),
        ({"messages": [assistant("a", detail=5)]}, "bad_training_flag"),
        ({"text": 5}, "bad_content"),
        ({"instruction": 5, "output": "x"}, "bad_content"),
        ({"prompt": [user("a")], "completion": []}, "empty_conversation"),
        ({"prompt": "a", "completion": [assistant("b")]}, "bad_message"),
    ],
)
def test_what_cant_be_read_has_a_reason(row: Row, reason: str) -> None:
    format = ChatFormat(message_field_training_detail="detail", drop_system_message=True)
    with pytest.raises(ChatDrop) as drop:
        read_row(row, format)
    assert drop.value.reason == reason
    assert drop.value.reason in REASONS


def test_the_row_is_not_changed() -> None:
    row = {"messages": [{**user("a"), "x": None}, assistant("b", reasoning="r", weight=1)]}
    before = json.dumps(row)
    read(row)
    assert json.dumps(row) == before


names = [
    "role",
    "content",
    "tool_calls",
    "tools",
    "weight",
    "detail",
    "type",
    "text",
    "function",
    "arguments",
    "from",
]
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-2, 3)
    | st.floats()
    | st.sampled_from(["", "user", "{", "[1]", "x"])
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(names), inner, max_size=4),
    max_leaves=12,
)
columns = ["messages", "conversations", "prompt", "completion", "instruction", "output", "text", "tools"]


@tried(300)
@given(st.dictionaries(st.sampled_from(columns), values, max_size=3))
def test_any_row_is_read_or_has_a_reason(row: Row) -> None:
    try:
        found = read_row(row, ChatFormat(message_field_training_detail="detail"))
    except ChatDrop as drop:
        assert drop.reason in REASONS
    else:
        assert isinstance(found, Conversation | PlainText)
