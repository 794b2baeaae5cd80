"""The large parts of a tokenizer.json are read as Hugging Face's library reads them, block by block."""

from __future__ import annotations

import json
import random
import time
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from krill import _native
from oracles.tokenizer_file import ADDED_KEYS, Tables, reference_tables
from properties import tried

LETTERS = 'abĠé漢😀"\\\n\0 <>x'
TEXTS = st.text(LETTERS, max_size=5)
FLAGS = st.fixed_dictionaries({key: st.booleans() for key in ADDED_KEYS})


def read(content: bytes, block: int = 1 << 20) -> _native.TokenizerFile:
    file = _native.TokenizerFile(1 << 20)
    for at in range(0, len(content), block):
        file.feed(content[at : at + block])
    file.finish()
    return file


def tables_of(file: _native.TokenizerFile, byte_level: bool) -> Tables:
    tokens, offsets, flags, _, merges = file.arrays(byte_level)
    data = tokens.tobytes()
    return Tables(
        [data[begin:end] for begin, end in pairwise(offsets)],
        flags.tolist(),
        [(left, right, new) for left, right, new in merges.reshape(-1, 3).tolist()],
        {content: (number, tuple(known)) for content, number, *known in file.added()},
    )


def document(model: dict[str, Any], added: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    empty = ("truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder")
    return {"version": "1.0", **dict.fromkeys(empty), "added_tokens": added or [], "model": model}


def added_token(content: str, **flags: bool) -> dict[str, Any]:
    return {"id": 0, "content": content, **dict.fromkeys(ADDED_KEYS, False), **flags}


@st.composite
def files(draw: st.DrawFn) -> str:
    """Files of every family that make sense, in any order and spelling."""
    texts = draw(st.lists(TEXTS, unique=True, max_size=12))
    kind = draw(st.sampled_from(["BPE", "WordPiece", "WordLevel", "Unigram"]))
    model: dict[str, Any] = {"type": kind, "unk_token": "x"}
    if kind == "Unigram":
        scores = st.floats(-20, 0) | st.integers(-5, 0)
        model["vocab"] = [[text, draw(scores)] for text in [*texts, *texts[:2]]]
        model["unk_id"] = 0 if texts else None
    else:
        numbers = draw(st.permutations(range(16)))
        model["vocab"] = dict(zip(texts, numbers, strict=False))
        model |= {"continuing_subword_prefix": "##", "max_input_chars_per_word": 9}
    if kind == "BPE":
        model["continuing_subword_prefix"] = None
        pairs = [(a, b) for a in texts for b in texts if a + b in texts]
        as_lines = draw(st.booleans()) and all(" " not in token for pair in pairs for token in pair)
        model["merges"] = [f"{a} {b}" if as_lines else [a, b] for a, b in draw(st.permutations(pairs))]
        if as_lines:
            model["merges"].insert(0, "#version: 0.2")
    added = [added_token(draw(TEXTS), **draw(FLAGS)) for _ in range(draw(st.integers(0, 3)))]
    model = dict(draw(st.permutations(list(model.items()))))
    parts = dict(draw(st.permutations(list(document(model, added).items()))))
    return json.dumps(parts, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 0, 2])))


@tried(150)
@given(files(), st.integers(1, 40), st.booleans())
def test_tables_are_those_of_the_reference_and_of_the_library(
    text: str, block: int, byte_level: bool
) -> None:
    file = read(text.encode(), block)
    expected = reference_tables(text, byte_level)
    tables = tables_of(file, byte_level)
    numbers = [number for number, _ in expected.added.values()]
    if file.clash() is None and len(set(numbers)) == len(numbers):
        assert tables == expected
    sections = json.loads(file.sections())
    parsed = json.loads(text)
    parsed["added_tokens"] = []
    parsed["model"]["vocab"] = type(parsed["model"]["vocab"])()
    if "merges" in parsed["model"]:
        parsed["model"]["merges"] = []
    assert sections == parsed
    library = Tokenizer.from_str(text)
    for token, number in library.get_vocab(with_added_tokens=True).items():
        assert file.find(token.encode()) == number == library.token_to_id(token)
    assert file.entries() == library.get_vocab_size(with_added_tokens=False) or file.is_scored()
    assert file.find(b"not there") is None


def test_keys_that_occur_twice_count_as_in_the_library() -> None:
    model = '"type":"WordPiece","unk_token":"a","max_input_chars_per_word":1,"continuing_subword_prefix":""'
    texts = (
        '{"model":{%s,"vocab":{"a":3,"b":1,"a":0}}}',
        '{"model":{%s,"vocab":{"a":3,"b":1},"vocab":{"a":0,"c":1}}}',
        '{"model":{%s,"vocab":{"q":3}},"model":{"v":[],%s,"vocab":{"a":0,"c":1}}}',
        '{"added_tokens":[],"model":{%s,"voc\\u0061b":{"a":0,"c":1}}}',
    )
    for text in texts:
        text = text.replace("%s", model)
        file, library = read(text.encode()), Tokenizer.from_str(text)
        file.arrays(False)
        vocab = library.get_vocab()
        assert {token: file.find(token.encode()) for token in vocab} == vocab
        assert file.entries() == len(vocab)
        assert file.find(b"q") is None


def test_an_added_token_that_is_there_twice_is_special_if_it_was_once() -> None:
    added = [added_token("x", special=True), added_token("a", lstrip=True), added_token("x", rstrip=True)]
    file = read(json.dumps(document({"type": "WordLevel", "vocab": {"a": 7}}, added)).encode())
    tables = tables_of(file, byte_level=False)
    assert tables.added == {
        "x": (1, (False, False, True, False, True)),
        "a": (7, (False, True) + (False,) * 3),
    }
    assert (tables.tokens[1], tables.flags[1], tables.flags[7]) == (b"x", 5, 3)


def test_an_added_token_that_gets_the_id_of_another_is_named() -> None:
    file = read(json.dumps(document({"vocab": {"a": 1}}, [added_token("new")])).encode())
    tables = tables_of(file, byte_level=False)
    assert (file.clash(), tables.tokens) == ("`new`", [b"", b"a"])
    assert file.find(b"new") == 1


NUMBERS = st.one_of(
    st.floats(-1e3, 1e3).map(repr),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.from_regex(r"\A-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,4})?\Z"),
    st.sampled_from(["-0", "0.0", "-0.0", "18446744073709551615", "18446744073709551616", "1e308", "1e309"]),
    st.sampled_from(["18446744073709551619.3", "-1e-99999999999999999999", "0e99999999999999999999"]),
)


@tried(100)
@given(st.lists(NUMBERS, min_size=1, max_size=20))
def test_scores_have_the_values_that_the_library_gives_them(numbers: list[str]) -> None:
    model = '{"type":"Unigram","unk_id":0,"vocab":[%s],"byte_fallback":false}'
    for spelled in numbers:
        text = '{"version":"1.0","model":' + model % f'["a",{spelled}]' + "}"
        try:
            library = Tokenizer.from_str(text)
        except Exception:
            with pytest.raises(ValueError, match="has the score"):
                read(text.encode())
            continue
        score = json.loads(library.to_str())["model"]["vocab"][0][1]
        *_, scores, _ = read(text.encode()).arrays(False)
        assert scores.tobytes() == scores.dtype.type(score).tobytes()


def test_every_score_in_a_list_is_off_by_the_same_bit() -> None:
    rng = random.Random(3)
    spelled = [repr(-20 * rng.random()) for _ in range(20_000)]
    vocab = ",".join(f'["t{number}",{score}]' for number, score in enumerate(spelled))
    text = f'{{"model":{{"type":"Unigram","unk_id":0,"vocab":[{vocab}],"byte_fallback":false}}}}'
    expected = [score for _, score in json.loads(Tokenizer.from_str(text).to_str())["model"]["vocab"]]
    *_, scores, _ = read(text.encode()).arrays(False)
    assert scores.tolist() == expected
    assert expected != [float(score) for score in spelled]


BPE = '{"version":"1.0","added_tokens":[%s],"model":{"type":"BPE","vocab":{%s},"merges":[%s]}}'
ADDED = (
    '{"id":1,"content":"x","single_word":false,"lstrip":false,"rstrip":false,"normalized":true,"special":%s}'
)


@pytest.mark.parametrize(
    ("added", "vocab", "merges", "fact"),
    [
        ("", '"a":-1', "", "the token `a` has the id `-1`"),
        ("", '"a":1.0', "", "the token `a` has the id `1.0`"),
        ("", '"a":"1"', "", "the token `a` has the id `1`"),
        ("", '"a":99999999999999999999', "", "the token `a` has the id `99999999999999999999`"),
        ("", '"a":4294967296', "", "the token `a` has the id `4294967296`"),
        ("", '"a":null', "", "the token `a` has the id `null`"),
        ("", '"a":{}', "", "its vocabulary is not an object of tokens and ids"),
        ("", '"a":1,', "", "its vocabulary is not an object of tokens and ids"),
        ("", '"a" 1', "", "its vocabulary is not an object of tokens and ids"),
        ("", '"\\ud800":1', "", "half of a surrogate pair"),
        ("", '"\\udc00":1', "", "half of a surrogate pair"),
        ("", '"\\ud800a":1', "", "half of a surrogate pair"),
        ("", '"\\ud800\\n":1', "", "half of a surrogate pair"),
        ("", '"\\ud800\\u0041":1', "", "half of a surrogate pair"),
        ("", '"\\x":1', "", "an escape that JSON does not know"),
        ("", '"\\u00g0":1', "", "without four hexadecimal digits"),
        ("", '"\t":1', "", "a control character that is not escaped"),
        ("", '"a":1,"b":2', '"a b"', "merge 0 is `a b`, but `ab` is not in the vocabulary"),
        ("", '"a":1', '"#version: 0.2","a c"', "merge 0 is `a c`, but `c` is not in the vocabulary"),
        ("", '"a":1', '"a"', "a merge is not two tokens: `a`"),
        ("", '"a":1', '"a a a"', "a merge is not two tokens: `a a a`"),
        ("", '"a":1,"aa":2', '"a a",["a","a"]', "its merges are written in more than one way"),
        ("", '"a":1,"aa":2', '["a","a","a"]', "its merges are not pairs"),
        ("", '"a":1,"aa":2', '["a"]', "its merges are not pairs"),
        ("", '"a":1,"aa":2', "1", "its merges are not pairs"),
        (ADDED % "1", '"a":1', "", "its added tokens are not as the library writes them"),
        (ADDED % 'true,"id":2', '"a":1', "", "its added tokens are not as the library writes them"),
        ('{"content":"x"}', '"a":1', "", "its added tokens are not as the library writes them"),
        ('"x"', '"a":1', "", "its added tokens are not as the library writes them"),
    ],
)
def test_what_the_library_refuses_is_refused_with_what_is_wrong(
    added: str, vocab: str, merges: str, fact: str
) -> None:
    text = BPE % (added, vocab, merges)
    with pytest.raises(BaseException):  # noqa: B017 - the library raises plain ones, or panics
        Tokenizer.from_str(text)
    for block in (1 << 20, 1):
        with pytest.raises(ValueError) as raised:
            read(text.encode(), block).arrays(False)
        assert fact in str(raised.value)


def test_double_and_large_ids_are_refused() -> None:
    for vocab, fact in (
        ('"a":5,"b":5', "two tokens have the id 5: `a` and `b`"),
        ('"a":4194304', "the token `a` has the id 4194304, which is too large"),
        (f'"{"é" * 70}":4194304', "the token `" + "é" * 30 + "...` has the id"),
    ):
        with pytest.raises(ValueError) as raised:
            read((BPE % ("", vocab, "")).encode()).arrays(False)
        assert fact in str(raised.value)


def test_unknown_fields_of_added_tokens_are_passed_over() -> None:
    text = BPE % (ADDED % 'false,"note":{"a":[1,{"b":"]"}]},"more":1e5', '"a":0', "")
    assert read(text.encode()).find is not None
    file = read(text.encode(), 3)
    file.arrays(False)
    assert file.added() == [("x", 1, False, False, False, True, False)]
    assert Tokenizer.from_str(text).token_to_id("x") == 1


def test_files_that_end_early_or_are_too_large_are_refused() -> None:
    text = BPE % (ADDED % "true", '"a":0', "")
    for end in (5, text.index('"a"') + 2, text.index('"a"'), len(text) - 1):
        with pytest.raises(ValueError, match="ends"):
            read(text[:end].encode())
    small = _native.TokenizerFile(40)
    small.feed(text.encode())
    with pytest.raises(ValueError, match="too large"):
        small.finish()
    with pytest.raises(ValueError, match="nested too deep"):
        read(b"[" * 129)
    with pytest.raises(ValueError, match="UTF-8"):
        read(b'{"model":{"vocab":{"\xff":1}}}')


@tried(300)
@given(st.data())
def test_damaged_files_are_refused_where_the_library_refuses_them(data: st.DataObject) -> None:
    parts = [ADDED % "true", '"a":0,"b":1,"ab":2,"\\u00e9":3', '"a b"']
    where = data.draw(st.integers(0, 2))
    tokens = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        '"',
        "1",
        "-",
        ".5",
        "e3",
        "a",
        " ",
        "\\",
        "\\u00e9",
        "null",
        "true",
        "#",
    ]
    text = parts[where]
    for _ in range(data.draw(st.integers(1, 3))):
        begin = data.draw(st.integers(0, len(text)))
        end = min(len(text), begin + data.draw(st.integers(0, 3)))
        text = text[:begin] + data.draw(st.sampled_from(["", *tokens])) + text[end:]
    parts[where] = text
    damaged = BPE % tuple(parts)
    try:
        library: Tokenizer | None = Tokenizer.from_str(damaged)
    except BaseException:  # its panics are no Exception
        library = None
    try:
        file: _native.TokenizerFile | None = read(damaged.encode(), data.draw(st.integers(1, 200)))
        assert file is not None
        file.arrays(False)
        json.loads(file.sections())
    except ValueError as error:
        file = None
        # The only file that the library takes and we do not.
        assert library is None or "two tokens have the id" in str(error)
    if library is not None and file is not None:
        vocab = library.get_vocab(with_added_tokens=True)
        assert {token: file.find(token.encode()) for token in vocab} == vocab
    elif library is None and file is not None:
        # What stands outside of the large parts is judged by whoever reads the sections.
        assert json.loads(file.sections()) != json.loads(BPE % ("", "", ""))


def test_a_large_vocabulary_is_read_in_less_than_a_second() -> None:
    letters = "abcdefghij"
    tokens = [f"{a}{number}" for number in range(13_000) for a in letters]
    vocab = {**{letter: number for number, letter in enumerate([*letters, *"0123456789"])}}
    for token in tokens:
        vocab.setdefault(token, len(vocab))
    text = json.dumps(document({"type": "BPE", "vocab": vocab, "merges": []}), indent=2).encode()
    begin = time.thread_time()
    file = read(text)
    arrays = file.arrays(False)
    assert time.thread_time() - begin < 1
    assert len(arrays[2]) == len(vocab) == file.entries()
