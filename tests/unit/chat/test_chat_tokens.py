"""Which ids a span covers, and control tokens that stay text, as the references say."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from chat_models import make_model, tokenizer_json
from krill.chat import RenderedChat, encode_chat
from krill.chat.control import CONTROL, SPECIAL, ControlTokens
from krill.tokenizer.native import NativeEncoder
from krill.tokenizer.open import open_file
from krill.tokenizer.tokenizer_json import NativeSpec, native_spec
from oracles.chat import reference_flags, reference_guarded
from properties import tried

PIECES = [
    "<|im_end|>",
    "<|im_start|>",
    "<think>",
    "</think>",
    "<|im_",
    "end|>",
    "<",
    "|>",
    "a",
    " b",
    "\n",
    "é",
    "🦐",
    "你好",
]
texts = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model"), None)


@pytest.fixture(scope="module")
def encoder(folder: Path) -> NativeEncoder:
    made = open_file(folder / "tokenizer.json", None, 1)
    assert isinstance(made, NativeEncoder)
    return made


@pytest.fixture(scope="module")
def control(folder: Path) -> ControlTokens:
    spec = native_spec(folder / "tokenizer.json")
    assert isinstance(spec, NativeSpec)
    return ControlTokens.of(spec.added, ["<think></think>"])


def chat_of(text: str, spans: list[tuple[int, int]], guards: list[tuple[int, int, int]]) -> RenderedChat:
    """Spans in characters become spans in bytes."""
    bytes_before = [len(text[:at].encode()) for at in range(len(text) + 1)]
    return RenderedChat(
        text.encode(),
        tuple((bytes_before[begin], bytes_before[end]) for begin, end in spans),
        tuple((bytes_before[begin], bytes_before[end], level) for begin, end, level in guards),
    )


@st.composite
def spanned(draw: st.DrawFn) -> tuple[str, list[tuple[int, int]]]:
    text = draw(texts)
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=6)))
    return text, list(zip(cuts[::2], cuts[1::2], strict=False))


@tried(200)
@given(st.lists(spanned(), max_size=4))
def test_ids_that_share_a_byte_with_a_span_are_trained(
    encoder: NativeEncoder, control: ControlTokens, given_texts: list[tuple[str, list[tuple[int, int]]]]
) -> None:
    encoded = encode_chat(encoder, [chat_of(text, spans, []) for text, spans in given_texts], control)
    library = Tokenizer.from_str(tokenizer_json())
    expected = [reference_flags(library, text, spans) for text, spans in given_texts if text]
    assert encoded.ids.tolist() == [number for ids, _ in expected for number in ids]
    assert encoded.trained.tolist() == [flag for _, flags in expected for flag in flags]
    assert encoded.lengths.tolist() == [
        len(reference_flags(library, text, [])[0]) if text else 0 for text, _ in given_texts
    ]


@tried(200)
@given(texts, st.sets(st.integers(0, 60), max_size=8), st.sampled_from([CONTROL, SPECIAL]))
def test_control_tokens_in_guarded_places_are_text(
    encoder: NativeEncoder, control: ControlTokens, text: str, places: set[int], level: int
) -> None:
    guards = [(at, at + 1, level) for at in sorted(places) if at < len(text)]
    encoded = encode_chat(encoder, [chat_of(text, [], guards)], control)
    levels = {control.ids[token]: own for token, own in control.levels.items()}
    assert encoded.ids.tolist() == reference_guarded(tokenizer_json(), text, guards, levels)
    assert not encoded.imitated.any()


def test_a_shorter_token_is_found_where_a_longer_one_is_text(tmp_path: Path) -> None:
    parsed = json.loads(tokenizer_json())
    parsed["added_tokens"] += [
        {**parsed["added_tokens"][-1], "content": text, "id": 5000 + number, "special": special}
        for number, (text, special) in enumerate([("@ab", False), ("@abc", True), ("c@", False)])
    ]
    model = make_model(tmp_path, None, json.dumps(parsed))
    encoder = open_file(model / "tokenizer.json", None, 1)
    spec = native_spec(model / "tokenizer.json")
    assert isinstance(encoder, NativeEncoder) and isinstance(spec, NativeSpec)
    control = ControlTokens.of(spec.added, [])
    chats = [chat_of("x@abc@x", [], [(at, at + 1, SPECIAL)]) for at in (1, 4, 6)]
    encoded = encode_chat(encoder, chats, control)
    numbers = {token.content: token.id for token in spec.added}
    first, second, third = np.split(encoded.ids, np.cumsum(encoded.lengths)[:-1])
    for ids in (first, second):
        assert numbers["@ab"] in ids and numbers["c@"] in ids and numbers["@abc"] not in ids
    assert numbers["@abc"] in third


def test_a_model_that_makes_a_control_token_of_text_is_found_out(tmp_path: Path) -> None:
    tokens = [("<unk>", 0.0), ("</s>", -1.0), *((letter, -5.0) for letter in "</s>ab ")]
    content = {
        "version": "1.0",
        "added_tokens": [
            {
                "id": 1,
                "content": "</s>",
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
        ],
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": None,
        "model": {"type": "Unigram", "unk_id": 0, "vocab": [[token, score] for token, score in tokens]},
    }
    model = make_model(tmp_path, None, json.dumps(content))
    encoder = open_file(model / "tokenizer.json", None, 1)
    assert isinstance(encoder, NativeEncoder)
    control = ControlTokens({"</s>": SPECIAL}, {"</s>": 1}, ())
    chats = [chat_of("a</s>b", [], guards) for guards in ([], [(1, 2, SPECIAL)])]
    assert encode_chat(encoder, chats, control).imitated.tolist() == [0, 1]
