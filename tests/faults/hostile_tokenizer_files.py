"""Hostile tokenizer files: for `krill tokenizer encode` and `decode`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from hostile import FAULTS, Case

Content = bytes | dict[str, Any] | Callable[[Path], object]
BUDGET = ("--memory", "256MB", "--threads", "2")
SYMBOLS = [chr(code) for code in range(33, 127)]


def cases() -> Iterator[Case]:
    yield from _files()
    yield from _parts()


def put(path: Path, content: Content) -> None:
    if callable(content):
        content(path)
    elif isinstance(content, dict):
        path.write_text(json.dumps(content))
    else:
        path.write_bytes(content)


def plain(**changed: Any) -> dict[str, Any]:
    """A tokenizer of single characters, whose other parts are `changed`."""
    model = {"type": "BPE", "vocab": {symbol: at for at, symbol in enumerate(SYMBOLS)}, "merges": []}
    parts = ("normalizer", "pre_tokenizer", "post_processor", "decoder", "truncation", "padding")
    return {"version": "1.0", "added_tokens": [], **dict.fromkeys(parts), "model": model, **changed}


def bpe(vocab: object, merges: object = (), **more: Any) -> dict[str, Any]:
    return plain(model={"type": "BPE", "vocab": vocab, "merges": merges, **more})


def added(*contents: str, first: int = 94, **more: Any) -> dict[str, Any]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    tokens = [{"id": first + at, "content": text, **flags, **more} for at, text in enumerate(contents)]
    return plain(added_tokens=tokens)


def _opened(name: str, content: Content, *numbers: int, **more: Any) -> Iterator[Case]:
    """The same file for `encode`, and for `decode`."""

    def make(folder: Path) -> None:
        put(folder / "tokenizer.json", content)
        (folder / "ids.bin").write_bytes(np.arange(40, dtype="<u2").tobytes())

    allowed = frozenset(numbers) or FAULTS | {0}
    opened = ("--tokenizer", "tokenizer.json")
    encode = ["tokenizer", "encode", *opened, "some words 12 \u00e9 " * 3, *BUDGET]
    decode = ["tokenizer", "decode", *opened, "--input", "ids.bin", *BUDGET]
    yield Case(f"encode-{name}", make, encode, allowed, **more)
    yield Case(f"decode-{name}", make, decode, allowed, **more)


def _files() -> Iterator[Case]:
    whole = json.dumps(plain()).encode()
    kinds: dict[str, Content] = {
        "empty": b"",
        "null": b"null",
        "a-list": b"[]",
        "an-empty-object": b"{}",
        "cut": whole[: len(whole) // 2],
        "twice": whole * 2,
        "not-utf8": whole.replace(b'"!"', b'"\xff\xfe"'),
        "utf-16": whole.decode().encode("utf-16"),
        "nuls": bytes(100_000),
        "deep": b'{"model":' + b"[" * 200_000,
        "deep-objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        "lone-surrogates": whole.replace(b'"!"', rb'"\ud800"'),
        "duplicate-keys": b'{"model": {}, ' + whole[1:],
        "numbers-of-a-megabyte": b'{"version": ' + b"9" * 1_000_000 + b"}",
        "a-version-of-a-later-time": json.dumps(plain(version="9.9")).encode(),
        "a-folder": Path.mkdir,
        "a-fifo": os.mkfifo,
        "a-link-to-itself": lambda path: path.symlink_to(path.name),
        "a-link-to-nothing": lambda path: path.symlink_to("absent"),
        "a-link-to-a-device": lambda path: path.symlink_to("/dev/zero"),
        "sparse": lambda path: (path.touch(), os.truncate(path, 3 * 10**9)),
    }
    for name, content in kinds.items():
        yield from _opened(f"file-{name}", content, 2, 3, 4, seconds=30)


def _parts() -> Iterator[Case]:
    pattern = {"type": "Split", "behavior": "Isolated", "invert": False}
    template = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "[NO]", "type_id": 0}}]}
    charsmap = {"type": "Precompiled", "precompiled_charsmap": "AAAA////AAAA"}
    vocab = plain()["model"]["vocab"]
    kinds = {
        "no-model": {key: value for key, value in plain().items() if key != "model"},
        "model-is-a-number": plain(model=7),
        "model-of-unknown-type": plain(model={"type": "Oracle", "vocab": vocab}),
        "vocab-empty": bpe({}),
        "vocab-is-a-list": bpe(SYMBOLS),
        "vocab-of-one-empty-token": bpe({"": 0}),
        "ids-with-gaps": bpe({"a": 0, "b": 70_000, "s": 9}),
        "ids-of-32-bits": bpe({"a": 0, "s": 2**32 - 1}),
        "ids-of-40-bits": bpe({"a": 0, "s": 2**40}),
        "ids-negative": bpe({"a": -1}),
        "ids-repeated": bpe({"a": 0, "s": 0, "o": 0}),
        "ids-as-text": bpe({"a": "0"}),
        "ids-as-fractions": bpe({"a": 0.5}),
        "merges-of-absent-tokens": bpe(vocab, [["z", "zz"], "q qq"]),
        "merges-of-one-part": bpe(vocab, ["ab"]),
        "merges-of-three-parts": bpe(vocab, [["a", "b", "c"]]),
        "merges-of-numbers": bpe(vocab, [[1, 2]]),
        "merges-of-nothing": bpe(vocab, [["", "a"], " "]),
        "merges-repeated": bpe({**vocab, "so": 94}, [["s", "o"]] * 5000),
        "merges-for-a-token-of-a-megabyte": bpe({**vocab, "s" * 1_000_000: 94}),
        "dropout-of-one": bpe(vocab, dropout=1.0),
        "dropout-beyond-one": bpe(vocab, dropout=7),
        "unknown-token-absent": bpe(vocab, unk_token="<unk>"),
        "byte-fallback-without-bytes": bpe({"a": 0}, byte_fallback=True),
        "prefix-of-words-of-a-megabyte": bpe(vocab, continuing_subword_prefix="#" * 1_000_000),
        "added-empty": added(""),
        "added-repeated": added("so", "so", "so"),
        "added-with-nul": added("\0", "\x1b[31m"),
        "added-with-escapes": added("s", "\x9b\u202e", "\x1b]0;x\x07"),
        "added-of-40-bits": added("so", first=2**40),
        "added-far-away": added("so", first=4_000_000_000),
        "added-negative": added("so", first=-5),
        "added-of-5-megabytes": added("s" * 5_000_000),
        "added-of-every-letter": added(*"abcdefghijklmnopqrstuvwxyz "),
        "added-100000": added(*(f"<{at}>" for at in range(100_000))),
        "added-to-the-side": added("some", single_word=True, lstrip=True, rstrip=True, normalized=True),
        "replace-by-a-megabyte": plain(
            normalizer={"type": "Replace", "pattern": {"String": "o"}, "content": "x" * 1_000_000}
        ),
        "replace-of-nothing": plain(
            normalizer={"type": "Replace", "pattern": {"String": ""}, "content": "xyz"}
        ),
        "replace-by-a-pattern-that-goes-back": plain(
            normalizer={"type": "Replace", "pattern": {"Regex": "(\\w+\\s?)+$"}, "content": "x"}
        ),
        "replace-by-a-broken-pattern": plain(
            normalizer={"type": "Replace", "pattern": {"Regex": "(["}, "content": "x"}
        ),
        "prepend-a-megabyte": plain(normalizer={"type": "Prepend", "prepend": "s" * 1_000_000}),
        "normalizers-doubling": plain(
            normalizer={
                "type": "Sequence",
                "normalizers": [{"type": "Replace", "pattern": {"String": "s"}, "content": "ss"}] * 30,
            }
        ),
        "normalizers-nested": plain(normalizer=_nested("normalizers", {"type": "NFC"}, 150)),
        "charsmap-of-noise": plain(normalizer=charsmap),
        "charsmap-not-base64": plain(normalizer={**charsmap, "precompiled_charsmap": "%%%"}),
        "charsmap-empty": plain(normalizer={**charsmap, "precompiled_charsmap": ""}),
        "charsmap-whose-length-lies": plain(normalizer={**charsmap, "precompiled_charsmap": "/////wAAAAA="}),
        "split-by-a-broken-pattern": plain(pre_tokenizer={**pattern, "pattern": {"Regex": "*("}}),
        "split-by-nothing": plain(pre_tokenizer={**pattern, "pattern": {"String": ""}}),
        "split-that-keeps-nothing": plain(
            pre_tokenizer={**pattern, "pattern": {"Regex": "(?s)."}, "behavior": "Removed"}
        ),
        "split-with-500-lookaheads": plain(
            pre_tokenizer={**pattern, "pattern": {"Regex": "(?=" * 500 + "a" + ")" * 500}}
        ),
        "split-of-a-megabyte": plain(pre_tokenizer={**pattern, "pattern": {"Regex": "a|" * 500_000}}),
        "pre-tokenizers-nested": plain(pre_tokenizer=_nested("pretokenizers", {"type": "Whitespace"}, 150)),
        "processor-of-unknown-tokens": plain(post_processor={**template, "pair": [], "special_tokens": {}}),
        "processor-with-ids-out-of-range": plain(
            post_processor={
                **template,
                "pair": [],
                "special_tokens": {"[NO]": {"id": "[NO]", "ids": [2**31], "tokens": ["[NO]"]}},
            }
        ),
        "decoder-of-unknown-type": plain(decoder={"type": "Prophet"}),
        "decoder-replace-by-a-megabyte": plain(
            decoder={"type": "Replace", "pattern": {"String": "A"}, "content": "x" * 1_000_000}
        ),
        "padding-to-2-to-40": plain(
            padding={
                "strategy": {"Fixed": 2**40},
                "direction": "Right",
                "pad_to_multiple_of": None,
                "pad_id": 0,
                "pad_type_id": 0,
                "pad_token": "a",
            }
        ),
        "truncation-to-nothing": plain(
            truncation={"direction": "Right", "max_length": 0, "strategy": "LongestFirst", "stride": 9}
        ),
        "unigram-empty": plain(model={"type": "Unigram", "vocab": [], "unk_id": 0}),
        "unigram-unknown-out-of-range": plain(
            model={"type": "Unigram", "vocab": [["a", -1.0]], "unk_id": 2**40}
        ),
        "unigram-without-scores": plain(model={"type": "Unigram", "vocab": [["a"], ["b"]], "unk_id": 0}),
        "unigram-without-unknown": plain(model={"type": "Unigram", "vocab": [["a", -1.0]], "unk_id": None}),
        "unigram-of-empty-pieces": plain(
            model={"type": "Unigram", "vocab": [["", -1.0], ["", 0.0]], "unk_id": 0}
        ),
        "unigram-of-not-a-number": plain(
            model={"type": "Unigram", "vocab": [["a", float("nan")]], "unk_id": 0}
        ),
        "unigram-of-infinite-scores": plain(
            model={"type": "Unigram", "vocab": [["a", 1e308], ["s", -1e308], ["o", 1e308]], "unk_id": 0}
        ),
        "wordpiece-without-unknown": plain(
            model={"type": "WordPiece", "vocab": vocab, "unk_token": "[UNK]", "max_input_chars_per_word": 100}
        ),
        "wordpiece-of-words-of-no-characters": plain(
            model={"type": "WordPiece", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"}
        ),
        "wordlevel-without-unknown": plain(
            model={"type": "WordLevel", "vocab": {"so": 0}, "unk_token": "[UNK]"}
        ),
    }
    for name, tokenizer in kinds.items():
        encode, decode = _opened(f"part-{name}", tokenizer, seconds=30)
        yield encode
        if name.startswith(("added", "decoder", "ids", "unigram", "vocab")):
            yield decode


def _nested(key: str, inner: dict[str, Any], depth: int) -> dict[str, Any]:
    for _ in range(depth):
        inner = {"type": "Sequence", key: [inner]}
    return inner
