"""Hostile questions, features and flags: for `krill qa prepare`, `qa train` and `qa evaluate`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hostile import FAULTS, OUTPUT, Case
from hostile_models import CONFIG, MEMORY, REFUSED, save_model
from hostile_tokenizer_files import Content, added, plain, put

CONTEXT = "The river flows through the old town of Alba and has many bridges over it. " * 3
ANSWER = {"text": "Alba", "answer_start": CONTEXT.index("Alba")}
BUDGET = ("--memory", "256MB", "--threads", "2")


def cases() -> Iterator[Case]:
    yield from _files()
    yield from _structures()
    yield from _answers()
    yield from _flags()
    yield from _features()
    yield from _models()


def squad(*paragraphs: object) -> dict[str, Any]:
    return {"version": "v2.0", "data": [{"title": "t", "paragraphs": list(paragraphs)}]}


def paragraph(*answers: object, context: object = CONTEXT, **question: Any) -> dict[str, Any]:
    asked = {"id": "q", "question": "Which town?", "answers": list(answers), "is_impossible": False}
    return {"context": context, "qas": [{**asked, **question}]}


GOOD = squad(paragraph(ANSWER))


def prepared(
    name: str, content: Content, *flags: str, file: str = "questions.json", tokenizer: Any = None, **more: Any
) -> Case:
    def make(folder: Path) -> None:
        put(folder / file, content)
        put(folder / "tokenizer.json", plain() if tokenizer is None else tokenizer)

    said = ["qa", "prepare", file, *flags]
    ours = {
        "--tokenizer": "tokenizer.json",
        "--output": OUTPUT,
        "--max-seq-length": "64",
        "--doc-stride": "16",
    }
    for flag, value in {**ours, "--memory": "256MB", "--threads": "2"}.items():
        said += [] if flag in flags else [flag, value]
    return Case(f"qa-prepare-{name}", make, said, **{"codes": FAULTS | {0}, **more})


def _files() -> Iterator[Case]:
    whole = json.dumps(GOOD).encode()
    contents: dict[str, Content] = {
        "empty": b"",
        "null": b"null",
        "a-list": b"[]",
        "an-empty-object": b"{}",
        "a-number": b"17",
        "cut": whole[: len(whole) // 2],
        "twice": whole * 2,
        "not-utf8": whole.replace(b"river", b"\xff\xfe"),
        "utf-16": whole.decode().encode("utf-16"),
        "byte-order-mark": b"\xef\xbb\xbf" + whole,
        "nuls": bytes(100_000),
        "deep": b'{"data": ' + b"[" * 300_000,
        "deep-objects": b'{"data":' * 100_000,
        "an-open-text": b'{"data": [{"title": "' + b"x" * 3_000_000,
        "lone-surrogates": whole.replace(b"river", rb"\ud800"),
        "duplicate-keys": b'{"data": [], ' + whole[1:],
        "a-folder": Path.mkdir,
        "a-fifo": os.mkfifo,
        "a-link-to-itself": lambda path: path.symlink_to(path.name),
        "a-device": lambda path: path.symlink_to("/dev/zero"),
        "sparse": lambda path: (path.touch(), os.truncate(path, 3 * 10**9)),
    }
    for name, content in contents.items():
        yield prepared(f"file-{name}", content)
    lines = json.dumps({"id": "a", "question": "Which?", "context": CONTEXT, "answers": [ANSWER]}).encode()
    for name, content in {
        "nulls": b"null\n" * 9, "cut": lines + b"\n" + lines[:50], "numbers": b"1\n2\n",
        "empty-lines": b"\n" * 9999,
        "one-key": b'{"id": "a"}\n', "same-id": (lines + b"\n") * 3,
        "nul": lines + b"\n\0\n", "noise": b"\xff\n" * 99,
    }.items():  # fmt: skip
        yield prepared(f"lines-{name}", content, file="questions.jsonl")


def _structures() -> Iterator[Case]:
    kinds: dict[str, Any] = {
        "data-null": {"data": None},
        "data-an-object": {"data": {}},
        "data-of-numbers": {"data": [1, 2]},
        "data-empty": {"data": []},
        "paragraphs-null": {"data": [{"paragraphs": None}]},
        "paragraphs-text": {"data": [{"paragraphs": "many"}]},
        "paragraphs-missing": {"data": [{"title": "t"}]},
        "nested-wrongly": {"data": [[{"paragraphs": [[paragraph()]]}]]},
        "context-null": squad(paragraph(ANSWER, context=None)),
        "context-a-number": squad(paragraph(ANSWER, context=5)),
        "context-empty": squad(paragraph(context="")),
        "context-of-nuls": squad(paragraph(context="\0" * 1000)),
        "context-of-5-megabytes": squad(
            paragraph({"text": "a", "answer_start": 0}, context="a b " * 1_250_000)
        ),
        "context-one-word-of-5-megabytes": squad(paragraph(context="x" * 5_000_000)),
        "context-bidi": squad(paragraph(context="\u202e\u2066\x1b[31m" * 500)),
        "question-null": squad(paragraph(ANSWER, question=None)),
        "question-empty": squad(paragraph(ANSWER, question="")),
        "question-of-a-megabyte": squad(paragraph(ANSWER, question="why " * 250_000)),
        "id-null": squad(paragraph(ANSWER, id=None)),
        "id-a-number": squad(paragraph(ANSWER, id=5)),
        "id-empty": squad(paragraph(ANSWER, id="")),
        "id-of-a-megabyte": squad(paragraph(ANSWER, id="i" * 1_000_000)),
        "id-of-escapes": squad(paragraph(ANSWER, id="\x1b]0;x\x07"), paragraph(ANSWER, id="\x1b]0;x\x07")),
        "id-twice": squad(paragraph(ANSWER), paragraph(ANSWER)),
        "questions-null": squad({"context": CONTEXT, "qas": None}),
        "questions-missing": squad({"context": CONTEXT}),
        "impossible-text": squad(paragraph(ANSWER, is_impossible="maybe")),
        "impossible-with-answers": squad(paragraph(ANSWER, is_impossible=True)),
    }
    for name, content in kinds.items():
        yield prepared(f"shape-{name}", content)


def _answers() -> Iterator[Case]:
    kinds: dict[str, list[Any]] = {
        "none": [],
        "null": [None],
        "text": ["Alba"],
        "without-start": [{"text": "Alba"}],
        "without-text": [{"answer_start": 3}],
        "start-negative": [{**ANSWER, "answer_start": -1}],
        "start-outside": [{**ANSWER, "answer_start": 10**6}],
        "start-64-bits": [{**ANSWER, "answer_start": 2**64}],
        "start-text": [{**ANSWER, "answer_start": "40"}],
        "start-fraction": [{**ANSWER, "answer_start": 1.5}],
        "start-true": [{**ANSWER, "answer_start": True}],
        "start-null": [{**ANSWER, "answer_start": None}],
        "elsewhere": [{**ANSWER, "answer_start": 0}],
        "empty": [{"text": "", "answer_start": 0}],
        "beyond-the-end": [{"text": CONTEXT + "x", "answer_start": 0}],
        "escapes": [{"text": "\x1b[31m", "answer_start": 0}],
        "a-number": [{"text": 5, "answer_start": 0}],
        "100000": [ANSWER] * 100_000,
        "lists": [{"text": ["Alba"], "answer_start": [40]}],
    }
    for name, answers in kinds.items():
        yield prepared(f"answer-{name}", squad(paragraph(*answers)))
        if name in ("start-negative", "start-outside", "elsewhere"):
            yield prepared(f"answer-{name}-dropped", squad(paragraph(*answers)), "--missing-answers", "drop")


def _flags() -> Iterator[Case]:
    flags = {
        "length-zero": ("--max-seq-length", "0"),
        "length-negative": ("--max-seq-length", "-1"),
        "length-2-to-40": ("--max-seq-length", str(2**40)),
        "length-2-to-64": ("--max-seq-length", str(2**64)),
        "stride-negative": ("--doc-stride", "-1"),
        "stride-of-the-length": ("--doc-stride", "64"),
        "stride-beyond": ("--doc-stride", "1000"),
        "segments-zero": ("--max-segments", "0"),
        "examples-zero": ("--max-examples", "0"),
        "examples-negative": ("--max-examples", "-1"),
        "examples-2-to-64": ("--max-examples", str(2**64)),
        "split-unknown": ("--split", "\x1b[31mnone"),
        "engine-unknown": ("--engine", "warp"),
        "memory-one-byte": ("--memory", "1B"),
        "memory-one-megabyte": ("--memory", "1MB"),
        "threads-zero": ("--threads", "0"),
        "threads-negative": ("--threads", "-1"),
        "threads-1000": ("--threads", "1000"),
        "output-is-the-input": ("--output", "questions.json"),
        "output-is-here": ("--output", "."),
        "output-empty": ("--output", ""),
        "output-over-the-tokenizer": ("--output", "tokenizer.json", "--overwrite"),
    }
    for name, given in flags.items():
        yield prepared(f"flag-{name}", GOOD, *given)
    yield prepared("tokenizer-empty", GOOD, tokenizer={"version": "1.0"})
    yield prepared("tokenizer-of-memory-tokens", GOOD, tokenizer=added("[MEM0]", "[MEM0]", "[PAD]"))


def _saved_features(folder: Path, content: bytes = b'{"format": 1, "command": "qa prepare"}') -> None:
    (folder / "features").mkdir()
    (folder / "features" / "krill-run.json").write_bytes(content)
    (folder / "tokenizer.json").write_text(json.dumps(plain()))


def _features() -> Iterator[Case]:
    """Folders of features that are not what `qa prepare` makes."""
    manifests = {
        "empty": b"",
        "null": b"null",
        "a-list": b"[]",
        "lies": b'{"format": 1, "command": "qa prepare", "units": 5}',
        "without-tables": b'{"format": 1, "command": "qa prepare", "units": [{"examples": 9}]}',
        "of-preprocess": b'{"format": 1, "command": "preprocess", "splits": {}}',
        "of-a-later-time": b'{"format": 99, "command": "qa prepare"}',
        "deep": b"[" * 100_000,
        "not-utf8": b'{"format": "\xff"}',
    }
    for name, content in manifests.items():

        def make(folder: Path, content: bytes = content) -> None:
            _saved_features(folder, content)
            save_model(folder / "model")

        yield _reader(f"qa-train-features-{name}", make, *TRAIN)
        yield _reader(f"qa-evaluate-features-{name}", make, *EVALUATE)
    for name, act in {
        "absent": lambda path: None, "a-file": Path.touch, "a-fifo": os.mkfifo, "a-folder": Path.mkdir,
        "a-link-to-itself": lambda path: path.symlink_to(path.name),
    }.items():  # fmt: skip

        def alone(folder: Path, act: Callable[[Path], object] = act) -> None:
            act(folder / "features")
            (folder / "tokenizer.json").write_text(json.dumps(plain()))
            save_model(folder / "model")

        yield _reader(f"qa-train-features-{name}", alone, *TRAIN)
        yield _reader(f"qa-evaluate-features-{name}", alone, *EVALUATE)


TRAIN = ("qa", "train", "features", "--tokenizer", "tokenizer.json", "--output-dir", OUTPUT)
EVALUATE = ("qa", "evaluate", "model", "features")


def _reader(name: str, make: Callable[[Path], object], *said: str) -> Case:
    more = [] if "--memory" in said else ["--memory", "1GB"]
    more += [] if "--threads" in said else ["--threads", "1"]
    return Case(name, make, [*said, *more], REFUSED, memory=MEMORY)


def _models() -> Iterator[Case]:
    values = {"zero": "0", "negative": "-1", "nan": "nan", "huge": str(2**64)}
    for flag in ("hidden", "layers", "heads", "batch-size", "epochs", "learning-rate", "bptt"):
        for name, value in values.items():
            yield _reader(f"qa-train-{flag}-{name}", _saved_features, *TRAIN, f"--{flag}", value)
    for flag in ("n-best", "max-answer-length", "checkpoint"):
        for name, value in values.items():
            yield _reader(f"qa-evaluate-{flag}-{name}", _reader_here, *EVALUATE, f"--{flag}", value)
    for name, given in {"one-byte": ("--memory", "1B"), "threads-zero": ("--threads", "0")}.items():
        yield _reader(f"qa-train-{name}", _saved_features, *TRAIN, *given)
        yield _reader(f"qa-evaluate-{name}", _reader_here, *EVALUATE, *given)
    yield _reader("qa-evaluate-a-model-of-text", _text_model, *EVALUATE)
    yield _reader("qa-evaluate-predictions-over-the-model", _reader_here, *EVALUATE, "--predictions", "model")


def _text_model(folder: Path) -> None:
    _saved_features(folder)
    save_model(folder / "model")


def _reader_here(folder: Path) -> None:
    _saved_features(folder)
    ids = {"memory_read_ids": [], "memory_write_ids": [-5], "type_vocab_size": 2**40}
    save_model(folder / "model", {**CONFIG, "model_type": "krill_reader", **ids})
