"""Random conversations with random settings in every template of trl, against differences of renderings."""

from __future__ import annotations

import json
import random
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from chat_models import (
    BOS,
    DATE,
    EOS,
    TRL_TEMPLATES,
    WITH_MARKERS,
    fix_library_date,
    make_model,
    tokenizer_json,
)
from chat_rows import CALL_ID, TOOLS, Row
from krill.chat import ChatDrop, ChatFormat, ChatOptions, ChatRenderer, encode_chat
from krill.errors import ConfigError
from krill.tokenizer.native import NativeEncoder
from krill.tokenizer.open import open_file
from oracles.chat_prefixes import Case, Reference, Refused, Unknown, as_json

# Of several tokens, of several characters, and what normal forms would change.
UNICODE = [
    "größer",
    "你好",
    "🦐",
    "e\u0301",
    "A\u030a",
    "ﬁ",
    "½",
    "👩‍👩‍👧",
    "\u1100\u1161",
    "\u0301x",
    "Ω",
    "🇩🇪",
    "\u3000",
]
WORDS = ["the", "{x}", "<b>", "42,", "\n\n", "don't", "  ", "\r\n", "<|im_", "|>", "<", '"', "\\n"]
ROLES = [("assistant",)] * 3 + [("assistant", "user"), ("user",), ("assistant", "tool", "system")]


class Rows:
    """Makes rows; each text has words that no other has."""

    def __init__(self, chance: random.Random, reference: Reference) -> None:
        self.chance, self.reference, self.words = chance, reference, 0

    def text(self, *, own: bool = False) -> str:
        chance = self.chance
        if chance.random() < 0.06:
            return chance.choice(["", " ", "\n"])
        evil = self.reference.hostile + ([] if own else self.reference.tags)
        parts = [
            chance.choice(chance.choice([UNICODE, WORDS, WORDS, evil])) for _ in range(chance.randint(0, 6))
        ]
        self.words += 1
        joined = chance.choice([" ", ""]).join([f"q{self.words}z", *parts, f"w{self.words}z"])
        before, after = (chance.choice(["", "", "", *more, "🦐"]) for more in ((" ", "\n\n"), (" ", "\n")))
        return before + joined + after

    def tools(self) -> list[Any]:
        """Definitions of tools, in which the row's author may have written anything."""
        chance, tools = self.chance, deepcopy(TOOLS)
        function: Any = tools[0]["function"]
        properties = function["parameters"]["properties"]
        if chance.random() < 0.5:
            function["description"] = self.text()
        if chance.random() < 0.5:
            properties["city"]["description"] = self.text()
        if chance.random() < 0.3:
            properties["unit"]["enum"].append(self.text())
        if chance.random() < 0.2:
            properties["city"]["default"] = self.text()
        if chance.random() < 0.05:
            properties[self.text()] = {"type": "string"}
        return tools

    def arguments(self) -> dict[str, Any]:
        arguments: dict[str, Any] = {"city": self.text(), "days": 3}
        if self.chance.random() < 0.2:
            arguments["notes"] = [self.text(), {"more": self.text()}]
        if self.chance.random() < 0.03:
            arguments[self.text()] = True
        return arguments

    def row(self, turns: int, format: ChatFormat, *, flags: bool) -> tuple[Row, Case]:
        chance = self.chance
        tools = self.tools() if chance.random() < 0.2 else None
        row: Row = {"messages": []}
        case = Case([], [], [], tools, train_on_eos=format.train_on_eos)

        def add(role: str, content: str, given: Row | None = None, **more: Any) -> None:
            message = {"role": role, "content": content, **more}
            case.messages.append(message)
            row["messages"].append({**message, **(given or {})})
            if flags:
                self.flag(row["messages"][-1], case, format)
            else:
                case.trained.append(role in format.roles_to_train)
                case.details.append(None)

        if chance.random() < 0.25:
            add("system", self.text())
        for _ in range(turns):
            add("user", self.text())
            if tools and chance.random() < 0.5:
                arguments = self.arguments()
                call = {
                    "id": CALL_ID,
                    "type": "function",
                    "function": {"name": "look_up", "arguments": arguments},
                }
                said = {**call, "function": {**call["function"], "arguments": json.dumps(arguments)}}
                add("assistant", "", {"tool_calls": [said]}, tool_calls=[call])
                add("tool", self.text(), name="look_up", tool_call_id=CALL_ID)
            thought = {"reasoning_content": f"r {self.text(own=True)}"} if chance.random() < 0.2 else {}
            add("assistant", self.text(own=True), **thought)
        if tools:
            row["tools"] = chance.choice([tools, json.dumps(tools)])
        if chance.random() < 0.15:
            case.kwargs = row["chat_template_kwargs"] = {"enable_thinking": chance.random() < 0.5}
        if chance.random() < 0.05:
            row["chat_template_kwargs"] = {**case.kwargs, "date_string": self.text()}
            case.kwargs = row["chat_template_kwargs"]
        return row, case

    def flag(self, message: Row, case: Case, format: ChatFormat) -> None:
        """Put into the row's message what it says of being trained."""
        chance, content = self.chance, message["content"]
        flag: bool | None = None
        detail = None
        if content and chance.random() < 0.15:
            begin, end = sorted(chance.choices(range(len(content)), k=2))
            message["detail"] = [{"begin_offset": begin, "end_offset": end, "train": True}]
            message["detail"] += [{"begin_offset": 0, "end_offset": 0, "train": False}]
            detail = [(begin, end + 1)]
        elif content and chance.random() < 0.15:
            cut = chance.randint(0, len(content))
            message["content"] = [
                {"type": "text", "text": content[:cut]},
                {"text": content[cut:], "weight": 1},
            ]
            detail = [(0, cut), (cut, len(content))]
        if chance.random() < 0.15:
            name = chance.choice(["train", "weight"])
            flag = chance.random() < 0.5
            message[name] = flag if name == "train" else int(flag)
        says = detail is not None and any(begin < end for begin, end in detail)
        by_role = says if detail is not None else message["role"] in format.roles_to_train
        case.trained.append(by_role if flag is None else flag)
        case.details.append(detail)


def random_settings(chance: random.Random, *, plain: bool) -> tuple[ChatOptions, ChatFormat]:
    if plain:
        return ChatOptions(date=DATE, rewritten_turns="unroll"), ChatFormat()
    options = ChatOptions(
        date=DATE,
        rewritten_turns=chance.choice(["last", "unroll", "unroll", "error"]),
        special_in_content=chance.choice(["text", "text", "allow"]),
        chat_template_kwargs=chance.choice([{}, {}, {"enable_thinking": False}]),
    )
    eos = chance.choice(["turn", "turn", "all", "last", "none"])
    fields = {"message_field_training": "train", "message_field_training_detail": "detail"}
    return options, ChatFormat(roles_to_train=chance.choice(ROLES), train_on_eos=eos, **fields)


def texts_in(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in inside for text in texts_in(item)]


def arguments_of(case: Case) -> list[dict[str, Any]]:
    return [call["function"]["arguments"] for m in case.messages for call in m.get("tool_calls", ())]


def lists_of_python(case: Case, text: str) -> bool:
    """Whether a list in the arguments of a call is written as Python writes it."""
    values = [value for call in arguments_of(case) for value in call.values()]
    return any(isinstance(value, list) and str(value) in text for value in values)


def texts_of_python(case: Case, text: str) -> bool:
    """Whether a text in the arguments of a call is neither as it was nor JSON: it is in Python's quotes."""
    values = texts_in(arguments_of(case))
    return any(value.strip() not in text and f'"{as_json(value)}"' not in text for value in values)


def is_explained(drop: ChatDrop, case: Case, reference: Reference) -> bool:
    """Whether a row is left out for what the reference finds, too."""
    text = reference.render(case, case.messages)
    contents = [message["content"].strip() for message in case.messages]
    if drop.reason == "message_not_rendered":
        missing = any(content not in text for content in contents)
        return missing or any("tool_calls" in message for message in case.messages)
    if drop.reason == "control_in_name":
        return reference.in_names(case)
    samples, left_out = reference.samples(case)
    if drop.reason == "untrained":
        return not reference.encoded(case, samples)
    if drop.reason == "control_not_placed":  # Python escapes what stands for the token
        return lists_of_python(case, text)
    if drop.reason == "detail_not_placed" or "depends on its text" in drop.detail:
        return lists_of_python(case, text) or texts_of_python(case, text)
    if drop.reason == "turn_not_placed":
        return bool(left_out) and not any(sample.turns for sample in samples)
    return False


def check(
    renderer: ChatRenderer,
    encoder: NativeEncoder,
    reference: Reference,
    row: Row,
    case: Case,
    format: ChatFormat,
) -> bool:
    """Compare one row; False where there is nothing to compare."""
    before = json.dumps(row)
    found: Any
    try:
        found = renderer.render(row, format)
    except ConfigError as error:
        found = error
    assert json.dumps(row) == before
    case.adapted = renderer.templates[0].adapted
    if case.guards and reference.in_names(case):
        assert isinstance(found, ChatDrop | ConfigError)
    try:
        samples, left_out = reference.samples(case)
        if isinstance(found, ConfigError):
            assert left_out and renderer.options.rewritten_turns == "error"
            return False
        if isinstance(found, ChatDrop):
            assert is_explained(found, case, reference), found
            return False
        assert not left_out or renderer.options.rewritten_turns != "error"
        expected = reference.encoded(case, samples)
    except Refused:
        assert isinstance(found, ChatDrop) and found.reason in ("template_error", "message_not_rendered")
        return False
    except Unknown:
        return False
    texts = [chat.text.decode() for chat in found]
    if left_out and renderer.options.rewritten_turns == "unroll" and len(texts) > len(expected):
        return False  # turns behind a prompt that is no beginning of a rendering
    assert texts == [text for text, _, _ in expected]
    encoded = encode_chat(encoder, found, renderer.control)
    assert encoded.trained.any()
    assert encoded.ids.tolist() == [number for _, ids, _ in expected for number in ids]
    assert encoded.trained.tolist() == [flag for _, _, flags in expected for flag in flags]
    return True


@pytest.mark.parametrize("count", [12, pytest.param(1000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("template", TRL_TEMPLATES, ids=lambda path: path.stem)
def test_random_rows_with_random_settings_have_the_masks_of_the_reference(
    template: Path, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fix_library_date(monkeypatch)
    chance = random.Random(template.stem)
    model = make_model(tmp_path, template.read_text())
    encoder = open_file(model / "tokenizer.json", None, 1)
    assert isinstance(encoder, NativeEncoder)
    special = {"bos_token": BOS, "eos_token": EOS}
    reference = Reference(template.read_text(), tokenizer_json(), special, marked=template in WITH_MARKERS)
    compared = 0
    for number in range(count // 4):
        options, format = random_settings(chance, plain=number == 0)
        renderer = ChatRenderer.open(model, options)
        for turns in chance.choices((1, 2, 3, 10), (4, 3, 2, 1), k=4):
            row, case = Rows(chance, reference).row(turns, format, flags=number > 0)
            case.kwargs = {**options.chat_template_kwargs, **case.kwargs}
            case.mode, case.guards = options.rewritten_turns, options.special_in_content == "text"
            compared += check(renderer, encoder, reference, row, case, format)
    if template.stem not in ("deepseek_r1_distill", "deepseekv3"):  # no answer goes on from their prompt
        assert compared >= count // 12
