"""Ids and what is trained: with markers as transformers says, without as its renderings of prefixes say."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from chat_models import (
    DATE,
    WITH_MARKERS,
    WITHOUT_MARKERS,
    fix_library_date,
    library_tokenizer,
    make_model,
    tokenizer_json,
)
from chat_rows import CONVERSATIONS, SYSTEM, TOOLS, Row, assistant, call, result, turns, user
from krill.chat import ChatDrop, ChatFormat, ChatOptions, ChatRenderer, EncodedChats, encode_chat
from krill.chat.control import SPECIAL
from krill.chat.forms import Conversation, read_row
from krill.errors import ConfigError
from krill.tokenizer.native import NativeEncoder
from krill.tokenizer.open import open_file
from oracles.chat import reference_flags, reference_turns, until_stop

WORDS = ["what", "is", "größer", "than", "你好", "\n\n", "🦐", "<b>", "{x}", "</i>", "42,", "(of)\t", "don't"]
SWITCHES = ({"enable_thinking": False}, {"enable_thinking": True})
PER_TEMPLATE = 60
LONG_PER_TEMPLATE = 2000


def random_rows(count: int, seed: int) -> list[Row]:
    """Conversations of one to twenty turns, some with a system message, reasoning or tools."""
    rng = random.Random(seed)

    def text() -> str:
        return " ".join(rng.choices(WORDS, k=rng.randint(1, 20)))

    rows: list[Row] = []
    for _ in range(count):
        messages = [SYSTEM] if rng.random() < 0.2 else []
        row: Row = {"messages": messages}
        for _ in range(rng.choice([1, 1, 2, 3, 10, 20])):
            messages.append(user(text()))
            if rng.random() < 0.1:
                row["tools"] = TOOLS
                messages += [call(city=text(), days=rng.randint(1, 9)), result(text())]
            more = {"reasoning_content": text()} if rng.random() < 0.2 else {}
            messages.append(assistant(text(), **more))
        rows.append(row)
    return rows


def open_model(folder: Path, template: Path, **options: Any) -> tuple[ChatRenderer, NativeEncoder]:
    model = make_model(folder, template.read_text())
    renderer = ChatRenderer.open(model, ChatOptions(date=DATE, special_in_content="allow", **options))
    encoder = open_file(model / "tokenizer.json", None, 1)
    assert isinstance(encoder, NativeEncoder)
    return renderer, encoder


@pytest.fixture(autouse=True)
def library_date(monkeypatch: pytest.MonkeyPatch) -> None:
    fix_library_date(monkeypatch)


def library_of(template: Path) -> PreTrainedTokenizerFast:
    return library_tokenizer(template.read_text())


def with_last_characters(library: PreTrainedTokenizerFast, text: str, mask: list[int]) -> list[int]:
    """The library's mask without its fault: of a character of several tokens that ends a span, it marks the
    first alone."""
    offsets = library.backend_tokenizer.encode(text, add_special_tokens=False).offsets
    for number in range(1, len(mask)):
        if mask[number - 1] and offsets[number] == offsets[number - 1]:
            mask[number] = 1
    return mask


@pytest.mark.parametrize("count", [PER_TEMPLATE, pytest.param(LONG_PER_TEMPLATE, marks=pytest.mark.soak)])
@pytest.mark.parametrize("template", WITH_MARKERS, ids=lambda path: path.stem)
def test_marked_tokens_equal_those_of_transformers(template: Path, count: int, tmp_path: Path) -> None:
    renderer, encoder = open_model(tmp_path, template)
    library = library_of(template)
    rows = [*CONVERSATIONS.values(), *random_rows(count - len(CONVERSATIONS), len(template.stem))]
    compared = 0
    for row in rows:
        rendered = renderer.render(row, ChatFormat())
        if isinstance(rendered, ChatDrop):
            assert rendered.reason in ("template_error", "message_not_rendered"), rendered
            continue
        encoded = encode_chat(encoder, rendered, renderer.control)
        given = read_row(row, ChatFormat())
        assert isinstance(given, Conversation)
        messages = [renderer.templates[0].adapted(message) for message in given.messages]
        expected = library.apply_chat_template(
            messages, tools=given.tools, return_dict=True, return_assistant_tokens_mask=True
        )
        assert encoded.ids.tolist() == expected["input_ids"]
        # Nothing predicts the first token.
        mask = [0, *expected["assistant_masks"][1:]]
        assert encoded.trained.tolist() == with_last_characters(library, rendered[0].text.decode(), mask)
        assert encoded.trained.any()
        compared += 1
    assert compared > count // 3


@pytest.mark.parametrize("template", WITHOUT_MARKERS, ids=lambda path: path.stem)
def test_unmarked_turns_are_what_the_model_has_to_write(template: Path, tmp_path: Path) -> None:
    renderer, encoder = open_model(tmp_path, template, rewritten_turns="unroll")
    library = library_of(template)
    stops = [text for text, level in renderer.control.levels.items() if level == SPECIAL]
    rows = [*CONVERSATIONS.values(), {"messages": turns(20)}, *random_rows(8, 1)]
    placed = 0
    for row in rows:
        given = read_row(row, ChatFormat())
        assert isinstance(given, Conversation)
        messages = [renderer.templates[0].adapted(message) for message in given.messages]

        def render(some: list[dict[str, Any]], prompt: bool, tools: Any = given.tools, **switch: bool) -> str:
            # The library refuses an empty conversation; none of these begins with an assistant.
            return str(
                library.apply_chat_template(
                    some, tools=tools, tokenize=False, add_generation_prompt=prompt, **switch
                )
            )

        rendered = renderer.render(row, ChatFormat())
        if isinstance(rendered, ChatDrop):
            if rendered.reason == "turn_not_placed":
                assert reference_turns(render, messages, SWITCHES) is None
            else:
                assert rendered.reason in ("template_error", "message_not_rendered"), rendered
            continue
        expected = reference_turns(render, messages, SWITCHES)
        if expected is None:
            continue  # some of its turns can't be trained, or have another text before them
        assert rendered[0].left_out == 0
        encoded = encode_chat(encoder, rendered, renderer.control)
        assert_all_turns_are_trained(encoded, [chat.text.decode() for chat in rendered], expected, stops)
        placed += 1
    if "deepseek" not in template.stem:
        assert placed > 5


@pytest.mark.parametrize("mode", ["last", "unroll"])
@pytest.mark.parametrize("template", WITHOUT_MARKERS, ids=lambda path: path.stem)
def test_what_is_learned_stands_behind_a_prompt_and_ends_a_rendering(
    template: Path, mode: str, tmp_path: Path
) -> None:
    """Of every turn: before it is what the model is asked with for some message, it is what the rendering of
    that message ends with, and turns that are left out are counted."""
    renderer, _ = open_model(tmp_path, template, rewritten_turns=mode)
    library = library_of(template)
    thinks = {**call(city="Oslo"), "reasoning_content": "where?"}
    rows: list[Row] = [
        *(row for name, row in CONVERSATIONS.items() if name != "many turns"),
        {"messages": [user("a"), thinks, result("1"), assistant("b", reasoning_content="c")], "tools": TOOLS},
        {"messages": [user("a"), assistant("b"), user("c"), assistant("d", reasoning_content="e")]},
        {"messages": [user("a"), assistant("b"), assistant("c")]},
    ]
    for row in rows:
        rendered = renderer.render(row, ChatFormat())
        if isinstance(rendered, ChatDrop):
            continue
        given = read_row(row, ChatFormat())
        assert isinstance(given, Conversation)
        messages = [renderer.templates[0].adapted(message) for message in given.messages]

        def render(
            count: int, prompt: bool, switch: Any, own: Any = messages, tools: Any = given.tools
        ) -> str:
            return str(
                library.apply_chat_template(
                    own[:count], tools=tools, tokenize=False, add_generation_prompt=prompt, **switch
                )
            )

        answers = [number for number, message in enumerate(messages) if message["role"] == "assistant"]
        asked = {
            render(number, True, switch): render(number + 1, False, {})
            for number in answers
            for switch in ({}, *SWITCHES)
        }
        turns_found = set()
        for chat in rendered:
            text = chat.text.decode()
            for begin, end in chat.trained:
                before, turn = chat.text[:begin].decode(), chat.text[begin:end].decode()
                assert before in asked
                assert asked[before].rstrip().endswith(turn.rstrip())
                assert text.startswith(before + turn)
                turns_found.add(asked[before])
        assert len(turns_found) + rendered[0].left_out == len(answers)


@pytest.mark.parametrize("name", ["cohere", "gemma", "llama3", "qwen2_5"])
def test_many_unmarked_turns_are_what_the_model_has_to_write(name: str, tmp_path: Path) -> None:
    (template,) = (path for path in WITHOUT_MARKERS if path.stem == name)
    renderer, encoder = open_model(tmp_path, template)
    library = library_of(template)
    text = [message for row in random_rows(40, 3) for message in row["messages"]]
    messages = [
        {"role": role, "content": message.get("content") or "-"}
        for role, message in zip(("user", "assistant") * 150, text, strict=False)
    ]
    assert len(messages) == 300

    def render(some: list[dict[str, Any]], prompt: bool) -> str:
        return str(library.apply_chat_template(some, tokenize=False, add_generation_prompt=prompt))

    rendered = renderer.render({"messages": messages}, ChatFormat())
    assert isinstance(rendered, list), rendered
    expected = reference_turns(render, messages)
    assert expected is not None and len(expected) == 150
    stops = [text for text, level in renderer.control.levels.items() if level == SPECIAL]
    encoded = encode_chat(encoder, rendered, renderer.control)
    assert_all_turns_are_trained(encoded, [chat.text.decode() for chat in rendered], expected, stops)


def assert_all_turns_are_trained(
    encoded: EncodedChats, texts: list[str], expected: list[tuple[str, tuple[int, int]]], stops: list[str]
) -> None:
    """Each turn in the first sample that begins with its rendering, and nothing else."""
    spans: list[list[tuple[int, int]]] = [[] for _ in texts]
    for rendering, span in expected:
        place = next(number for number, text in enumerate(texts) if text.startswith(rendering))
        spans[place].append(until_stop(rendering, span, stops))
    library = Tokenizer.from_str(tokenizer_json())
    found = [reference_flags(library, text, own) for text, own in zip(texts, spans, strict=True)]
    assert encoded.ids.tolist() == [number for ids, _ in found for number in ids]
    assert encoded.trained.tolist() == [flag for _, flags in found for flag in flags]


def test_templates_that_rewrite_turns_are_refused_unless_told_what_to_do(tmp_path: Path) -> None:
    refused = []
    for template in WITHOUT_MARKERS:
        renderer, _ = open_model(tmp_path / template.stem, template)
        try:
            renderer.render({"messages": turns(4)}, ChatFormat())
        except ConfigError as error:
            assert "rewritten_turns" in (error.hint or "")
            refused.append(template.stem)
    assert {"qwen3", "gptoss", "phi3", "deepseekv3", "deepseek_r1_distill"} <= set(refused)
    assert not {
        "nemotron_3_nano",
        "qwen2_5",
        "llama3",
        "gemma",
        "gemma3",
        "cohere",
        "qwen3_instruct_2507",
    } & set(refused)
