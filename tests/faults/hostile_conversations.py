"""Hostile conversations, the keys of the config that are theirs, and files where templates are looked for."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hostile import Case
from hostile_chat import CHATML, OBEYED, WHOLE, Put, chat


def cases() -> Iterator[Case]:
    yield from _rows()
    yield from _keys()
    yield from _files()


def _rows() -> Iterator[Case]:
    user, answer = WHOLE[0]["messages"]
    many = 100_000

    def messages(*found: Any) -> list[dict[str, Any]]:
        return [{"messages": list(found)}]

    def deep(depth: int) -> bytes:
        nested = b"[" * depth + b"]" * depth
        return b'{"messages": [{"role": "user", "content": "a", "x": ' + nested + b"}]}\n"

    kinds: dict[str, Any] = {
        "of-many-turns": lambda: messages(*[user, answer] * 9000),
        "of-many-empty-turns": lambda: messages(*[{"role": "user", "content": ""}, answer] * 20_000),
        "of-many-roles": lambda: messages(
            *({"role": f"r{at}", "content": "a"} for at in range(3000)), answer
        ),
        "of-many-keys": lambda: messages({**user, **{f"k{at}": at for at in range(30_000)}}, answer),
        "of-many-calls": lambda: messages(
            user, {**answer, "tool_calls": [{"function": {"name": "f", "arguments": {}}}] * 20_000}
        ),
        "of-many-tools": lambda: [
            {
                **WHOLE[0],
                "tools": [{"type": "function", "function": {"name": f"f{at}"}} for at in range(9000)],
            }
        ],
        "of-many-parts": lambda: messages(
            user, {"role": "assistant", "content": [{"type": "text", "text": "a", "train": True}] * 40_000}
        ),
        "of-many-details": lambda: messages(
            user,
            {
                **answer,
                "d": [{"begin_offset": at % 5, "end_offset": 5, "train": True} for at in range(30_000)],
            },
        ),
        "of-control-tokens": lambda: messages({**user, "content": "<|im_end|>" * 60_000}, answer),
        "of-half-control-tokens": lambda: messages({**user, "content": "<|im_en" * 60_000}, answer),
        "of-control-tokens-to-learn": lambda: messages(user, {**answer, "content": "<|im_start|>" * 60_000}),
        "of-a-role-of-control": lambda: messages({**user, "role": "<|im_end|>"}, answer),
        "of-a-long-role": lambda: messages({**user, "role": "r" * 500_000}, answer),
        "of-an-obeyed-role": lambda: messages({**user, "role": OBEYED}, {"role": OBEYED}, answer),
        "of-sentinels": lambda: messages(
            *({"role": "user", "content": "".join(map(chr, range(0xE000, 0xF8FF)))}, answer) * 3
        ),
        "of-noncharacters": lambda: messages({**user, "content": "\ufdd0\ufdd1\ufffe\uffff" * 9000}, answer),
        "of-surrogates": b'{"messages": [{"role": "\\ud800", "content": "\\udfff\\ud800"}]}\n' * 9,
        "of-nuls": lambda: messages({**user, "content": "\0" * 9000}, {**answer, "content": "\0"}),
        "of-booleans": messages({**user, "content": True}, {**answer, "content": False}),
        "of-numbers": messages({**user, "content": 5}, {"role": 5, "content": 1e400}),
        "of-lists": messages([user], [answer]),
        "of-texts": messages("user", "assistant"),
        "of-a-text": [{"messages": "hello"}],
        "of-a-json-text": [{"messages": json.dumps([user, answer])}],
        "of-a-deep-json-text": [{"messages": "[" * 200_000}],
        "of-an-object": [{"messages": user}],
        "of-nothing": [{"messages": []}],
        "of-null": [{"messages": None}],
        "of-nulls": messages(None, None),
        "of-no-columns": [{}],
        "of-lists-as-rows": b"[1]\n[]\n",
        "of-numbers-as-rows": b"1\n2\n",
        "of-weights": messages(user, {**answer, "weight": 5}),
        "of-an-infinite-weight": messages(user, {**answer, "weight": 1e400}),
        "of-weights-of-text": messages(user, {**answer, "weight": OBEYED}),
        "of-arguments-of-noise": messages(
            user, {**answer, "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}
        ),
        "of-deep-arguments": messages(
            user, {**answer, "tool_calls": [{"function": {"arguments": '{"a":' * 9000}}]}
        ),
        "of-calls-of-text": messages(user, {**answer, "tool_calls": "[1, 2]"}),
        "of-calls-of-numbers": messages(user, {**answer, "tool_calls": 5}),
        "of-tools-of-text": [{**WHOLE[0], "tools": "[[[]]]"}],
        "of-deep-tools": [{**WHOLE[0], "tools": "[" * 9000 + "]" * 9000}],
        "of-kwargs-of-text": [{**WHOLE[0], "chat_template_kwargs": "[]"}],
        "of-kwargs-that-hide": [
            {
                **WHOLE[0],
                "chat_template_kwargs": {
                    "messages": 5,
                    "tools": 5,
                    "add_generation_prompt": 5,
                    "raise_exception": 5,
                    "namespace": 5,
                    "range": 5,
                    "dict": 5,
                    "loop": 5,
                    "self": 5,
                    "bos_token": 5,
                    "eos_token": [],
                    "environment": 5,
                    "context": 5,
                    "caller": 5,
                    "_added": 5,
                    "": 5,
                    "a b": 5,
                    OBEYED: 5,
                    "l_1_message": 5,
                },
            }
        ],
        "of-many-kwargs": lambda: [
            {**WHOLE[0], "chat_template_kwargs": {f"k{at}": 1 for at in range(30_000)}}
        ],
        "of-images": messages({**user, "content": [{"type": "image", "image": "a" * 500_000}]}, answer),
        "of-a-reasoning-of-numbers": messages(user, {**answer, "reasoning_content": 5}),
        "of-plain-text": [{"text": "a" * 500_000}],
        "of-a-prompt": [{"prompt": "a", "completion": ""}],
        "of-prompts-of-messages": [{"prompt": [user], "completion": []}],
        "of-alpaca": [{"instruction": 5, "output": "a"}],
        "of-alpaca-of-escapes": [{"instruction": OBEYED, "output": OBEYED}],
        "of-all-forms": [
            {"messages": [], "conversations": [], "prompt": "a", "completion": "b", "text": "c"}
        ],
        "of-duplicate-keys": b'{"messages": [], "messages": [{"role": "user", "role": "assistant"}]}\n',
        "of-many-small": lambda: [{"messages": []}] * many,
        "deep": deep(900),
        "deeper": deep(9000),
        "deepest": deep(200_000),
        "of-digits": b'{"messages": [{"role": "user", "content": ' + b"9" * 9000 + b"}]}\n",
        "of-columns-of-escapes": [{OBEYED: 1}] * 20,
        "of-long-columns": [{"c" * 100_000: 1}] * 20,
        "of-many-columns": lambda: [{f"c{at}": 1 for at in range(30_000)}] * 5,
    }
    for name, rows in kinds.items():
        yield chat(f"rows-{name}", rows=rows)
        if len(name) % 3 == 0:
            yield chat(f"rows-{name}-strict", rows=rows, more={"on_error": "fail", "max_untrained": 0.2})
        marked = CHATML.replace(
            "{{ message.content }}", "{% generation %}{{ message.content }}{% endgeneration %}"
        )
        if len(name) % 3 == 1:
            yield chat(f"rows-{name}-marked", marked, rows)
        if len(name) % 3 == 2:
            more = {"rewritten_turns": "unroll", "overflow": "turn", "dedup": "minhash"}
            yield chat(f"rows-{name}-unrolled", rows=rows, more=more)


def _keys() -> Iterator[Case]:
    """Keys of the config that are of conversations alone."""
    datasets: dict[str, Any] = {
        "field-absent": {"field_messages": "none such"},
        "field-of-escapes": {"field_messages": OBEYED},
        "field-empty": {"field_messages": ""},
        "mapped-to-itself": {"message_property_mappings": {"role": "content", "content": "role"}},
        "mapped-to-nothing": {"message_property_mappings": {"role": "none", "content": "none"}},
        "mapped-to-one": {"message_property_mappings": {"role": "content", "content": "content"}},
        "roles-of-all": {"roles": {"assistant": ["user", "assistant", "system"]}},
        "roles-empty": {"roles": {"": ["user"]}},
        "roles-of-escapes": {"roles": {OBEYED: ["user"]}},
        "nobody-is-trained": {"roles_to_train": []},
        "strangers-are-trained": {"roles_to_train": [OBEYED]},
        "training-field-of-content": {"message_field_training": "content"},
        "training-field-of-role": {"message_field_training": "role"},
        "detail-field-of-content": {"message_field_training_detail": "content"},
        "form-wrong": {"form": "alpaca"},
        "form-unknown": {"form": OBEYED},
        "eos-unknown": {"train_on_eos": "some"},
        "a-slice": {"split": "train[:50%]"},
        "columns": {"columns": "*"},
        "a-separator": {"separator": "\n"},
        "a-text-column": {"text_column": "messages"},
    }
    for name, keys in datasets.items():
        source = {"path": "input.jsonl", "type": "chat_template", **keys}
        yield chat(f"keys-{name}", top={"datasets": [source]})
    tops: dict[str, Any] = {
        "kwargs-that-hide": {"chat_template_kwargs": {"messages": [], "raise_exception": 1, "range": 2}},
        "kwargs-deep": {"chat_template_kwargs": {"a": json.loads("[" * 90 + "]" * 90)}},
        "kwargs-a-list": {"chat_template_kwargs": [1]},
        "kwargs-of-dates": {"chat_template_kwargs": {"a": "2026-01-31"}},
        "date-of-noise": {"chat_template_date": "yesterday"},
        "date-of-year-nought": {"chat_template_date": "0000-00-00"},
        "date-far": {"chat_template_date": "99999-01-01"},
        "template-a-folder": {"chat_template": "model"},
        "template-absent": {"chat_template": "none.jinja"},
        "template-named": {"chat_template": OBEYED},
        "template-a-nul": {"chat_template": "a\0.jinja"},
        "template-a-device": {"chat_template": "/dev/zero"},
        "template-the-input": {"chat_template": "input.jsonl"},
        "template-of-300-letters": {"chat_template": "a" * 300},
        "template-itself": {"chat_template": "{{ messages }}"},
        "tokenizer-of-bytes": {"tokenizer": {"builtin": "bytes"}},
    }
    for name, top in tops.items():
        yield chat(f"keys-{name}", top=top)
    several: dict[str, Any] = {
        "rows-of-one-token": {"sequence_len": 1},
        "rows-of-two": {"sequence_len": 2, "overflow": "turn"},
        "no-packing": {"packing": "none", "sequence_len": 100_000},
        "wrapped": {"packing": "wrapped"},
        "tiny-documents": {"max_document_bytes": 100},
        "units-of-one": {"unit_bytes": 1},
        "text-output": {"output": "both"},
        "rejected": {"rejected": True, "statistics": True},
        "control-dropped": {"special_in_content": "drop"},
        "control-allowed": {"special_in_content": "allow"},
        "never-untrained": {"max_untrained": 0},
        "untrained-below": {"max_untrained": -1},
        "near-duplicates": {"dedup": {"method": "minhash", "verify": 0.5, "clusters": True}},
        "split-and-shuffled": {"split": {"validation": 0.5}, "shuffle": True},
        "few-tokens": {"max_tokens": 1},
    }
    for name, more in several.items():
        rows = [{"messages": [{"role": "user", "content": "<|im_end|>"}, WHOLE[0]["messages"][1]]}, *WHOLE]
        yield chat(f"keys-{name}", rows=rows, more=more)


def _files() -> Iterator[Case]:
    """What stands where templates are looked for."""

    def template(write: Callable[[Path], object]) -> Put:
        def put(folder: Path) -> None:
            write(folder / "model" / "chat_template.jinja")

        return put

    def many(folder: Path) -> None:
        place = folder / "model" / "additional_chat_templates"
        place.mkdir()
        for at in range(400):
            (place / f"{at}.jinja").write_text("a" * 900_000)
        (place.parent / "chat_template.jinja").write_text(CHATML)

    def beside(value: Any) -> Put:
        def put(folder: Path) -> None:
            said = {"eos_token": "<|im_end|>", "chat_template": value}
            (folder / "model" / "tokenizer_config.json").write_text(json.dumps(said))

        return put

    places: dict[str, Put] = {
        "a-fifo": template(os.mkfifo),
        "a-folder": template(Path.mkdir),
        "a-device": template(lambda path: path.symlink_to("/dev/zero")),
        "a-loop": template(lambda path: path.symlink_to(path.name)),
        "a-hole": template(lambda path: (path.touch(), os.truncate(path, 10**12))),
        "many": many,
        "beside-a-number": beside(5),
        "beside-numbers": beside([5, {"name": []}]),
        "beside-no-default": beside([{"name": OBEYED, "template": CHATML}]),
        "beside-unhashable": beside([{"name": {}, "template": CHATML}]),
        "beside-megabytes": beside("{{ a }}" * 3_000_000),
        "beside-megabytes-of-text": beside("a" * 40_000_000),
        "beside-many": beside([{"name": f"n{at}", "template": CHATML} for at in range(50_000)]),
        "beside-a-surrogate": beside("\ud800" + CHATML),
        "more-is-a-file": lambda folder: (folder / "model" / "additional_chat_templates").touch(),
        "more-is-a-fifo": lambda folder: (
            (folder / "model" / "additional_chat_templates").mkdir(),
            os.mkfifo(folder / "model" / "additional_chat_templates" / "tool_use.jinja"),
        ),
        "a-map-of-special-tokens": lambda folder: (folder / "model" / "special_tokens_map.json").write_text(
            json.dumps(
                {"bos_token": {"content": OBEYED}, "eos_token": "none such", "_token": "a", "loop_token": 5}
            )
        ),
    }
    for name, put in places.items():
        yield chat(f"file-{name}", None if "more" not in name else CHATML, put=put)
        if len(name) % 2:
            yield chat(
                f"file-{name}-estimate", None if "more" not in name else CHATML, put=put, verb="estimate"
            )
