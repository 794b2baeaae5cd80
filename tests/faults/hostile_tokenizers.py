"""Hostile training text, flags and files of ids: for `krill tokenizer` and `train-tokenizer`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from hostile import FAULTS, MEMORY, OUTPUT, Case, save, words
from hostile_text import GOOD, WHOLE
from hostile_tokenizer_files import BUDGET, SYMBOLS, Content, bpe, plain, put


def cases() -> Iterator[Case]:
    yield from _texts()
    yield from _flags()
    yield from _outputs()
    yield from _ids()
    yield from _budgets()
    yield from _compare()
    yield from _configs()


def trained(
    name: str,
    content: Content,
    *flags: str,
    numbers: Sequence[int] = (),
    file: str = "input.txt",
    **more: Any,
) -> Case:
    """`krill tokenizer train` of one file; the flags' budget counts, if they state one."""

    def make(folder: Path) -> None:
        put(folder / file, content)

    said = ["tokenizer", "train", "--input", file, "--output", OUTPUT, *flags]
    for flag, value in zip(BUDGET[::2], BUDGET[1::2], strict=True):
        said += [] if flag in flags else [flag, value]
    if "--vocab-size" not in flags:
        said += ["--vocab-size", "300"]
    return Case(f"train-{name}", make, said, frozenset(numbers) or FAULTS | {0}, **more)


def _texts() -> Iterator[Case]:
    texts: dict[str, Content] = {
        "empty": b"",
        "one-byte": b"x",
        "nuls": bytes(1_000_000),
        "not-utf8": b"\xff\xfe\x80" * 100_000,
        "characters-cut": "\u6f22".encode()[:2] * 100_000,
        "one-word-of-20-megabytes": lambda path: path.write_bytes(b"x" * 20_000_000),
        "one-word-of-many-letters": bytes(97 + at * at % 26 for at in range(10_000)) * 300,
        "only-spaces": b" " * 5_000_000,
        "a-million-words": _million_words,
        "only-special-tokens": b"<|endoftext|>" * 200_000,
        "a-special-token-cut": b"word <|endofte" * 1000,
        "combining-marks": "e\u0301".encode() + "\u0301".encode() * 1_000_000,
        "right-to-left": "\u202eabc\u2066 ".encode() * 50_000,
        "a-folder": Path.mkdir,
        "a-fifo": os.mkfifo,
        "a-link-to-itself": lambda path: path.symlink_to(path.name),
    }
    for name, content in texts.items():
        yield trained(f"text-{name}", content)
    for name, content in {
        "no-text": b'{"a": 1}\n',
        "not-json": b"{{{\n",
        "numbers": b'{"text": 5}\n',
    }.items():
        yield trained(f"text-{name}", content, numbers=(0, 3), file="input.jsonl")


def _million_words(path: Path) -> None:
    path.write_bytes(b" ".join(b"w%x" % (at * 2_654_435_761 % 2**32) for at in range(1_000_000)))


def _flags() -> Iterator[Case]:
    text = "\n".join(GOOD).encode()
    flags = {
        "vocab-zero": ("--vocab-size", "0"),
        "vocab-one": ("--vocab-size", "1"),
        "vocab-256": ("--vocab-size", "256"),
        "vocab-257": ("--vocab-size", "257"),
        "vocab-negative": ("--vocab-size", "-5"),
        "vocab-a-billion": ("--vocab-size", "1000000000"),
        "vocab-64-bits": ("--vocab-size", str(2**64)),
        "vocab-nan": ("--vocab-size", "nan"),
        "pattern-broken": ("--pattern", "(["),
        "pattern-empty": ("--pattern", ""),
        "pattern-of-nothing": ("--pattern", "(?!)"),
        "pattern-of-empty-words": ("--pattern", "x*"),
        "pattern-that-goes-back": ("--pattern", "(\\w+\\s?)+$"),
        "pattern-nested": ("--pattern", "(" * 5000 + ")" * 5000),
        "pattern-repeated": ("--pattern", "((a{1000}){1000}){1000}"),
        "pattern-nul": ("--pattern", "a\\x00|\\x{10FFFF}"),
        "special-empty": ("--special-tokens", ""),
        "special-twice": ("--special-tokens", "<a>", "<a>"),
        "special-controls": ("--special-tokens", "\x1b[31m", "\x9b", "\n"),
        "special-of-100-kilobytes": ("--special-tokens", "s" * 100_000),
        "special-one-letter": ("--special-tokens", "a", " ", "e"),
        "special-more-than-the-vocabulary": ("--special-tokens", *(f"<{at}>" for at in range(400))),
        "frequency-negative": ("--min-frequency", "-1"),
        "frequency-huge": ("--min-frequency", str(2**63)),
        "length-zero": ("--max-token-length", "0"),
        "length-negative": ("--max-token-length", "-3"),
        "alphabet-empty": ("--initial-alphabet", ""),
        "alphabet-limit-zero": ("--initial-alphabet", "seen", "--limit-alphabet", "0"),
        "alphabet-limit-huge": ("--initial-alphabet", "seen", "--limit-alphabet", str(2**70)),
        "threads-zero": ("--threads", "0"),
        "threads-negative": ("--threads", "-1"),
        "threads-1000": ("--threads", "1000"),
        "threads-text": ("--threads", "many"),
        "memory-one-byte": ("--memory", "1B"),
        "memory-zero": ("--memory", "0"),
        "memory-nan": ("--memory", "nan"),
        "memory-beyond": ("--memory", "9999999EB"),
        "column-of-escapes": ("--text-column", "\x1b]0;x\x07"),
        "engine-unknown": ("--engine", "\x1b[1mwarp"),
        "prefix-that-climbs": ("--output-prefix", "../../climbed"),
        "prefix-empty": ("--output-prefix", ""),
    }
    for name, given in flags.items():
        yield trained(f"flag-{name}", text, *given, seconds=30)


def _outputs() -> Iterator[Case]:
    text = "\n".join(GOOD).encode()
    places: dict[str, Callable[[Path], object]] = {
        "a-file": lambda path: path.write_text("mine"),
        "a-full-folder": lambda path: (path.mkdir(), (path / "thesis.txt").write_text("mine")),
        "a-fifo": os.mkfifo,
        "a-link-to-itself": lambda path: path.symlink_to(path.name),
        "a-link-to-the-input": lambda path: path.symlink_to("input.txt"),
        "a-tokenizer-of-another": lambda path: (
            path.mkdir(),
            (path / "tokenizer.json").write_text(json.dumps(plain())),
        ),
    }
    for name, place in places.items():

        def make(folder: Path, place: Callable[[Path], object] = place) -> None:
            (folder / "input.txt").write_bytes(text)
            (folder / "tokenizer.json").write_text(json.dumps(plain()))
            place(folder / OUTPUT)

        train = ["tokenizer", "train", "--input", "input.txt", "--output", OUTPUT, "--vocab-size", "300"]
        encode = ["tokenizer", "encode", "--tokenizer", "tokenizer.json", "--input", "input.txt"]
        for flags in ([], ["--overwrite"]):
            which = f"{name}{'-overwritten' if flags else ''}"
            yield Case(f"train-output-{which}", make, [*train, *flags, *BUDGET], frozenset({2, 5}))
            replaced = flags and name in ("a-file", "a-link-to-the-input")
            yield Case(
                f"encode-output-{which}",
                make,
                [*encode, "--output", OUTPUT, *flags, *BUDGET],
                frozenset({0, 2, 3, 5} if replaced else {2, 5}),
                changed=frozenset({OUTPUT}) if replaced else frozenset(),
            )
    yield from _input_as_output(text)


def _input_as_output(text: bytes) -> Iterator[Case]:
    def make(folder: Path) -> None:
        (folder / "input.txt").write_bytes(text)
        (folder / "tokenizer.json").write_text(json.dumps(plain()))

    encode = ["tokenizer", "encode", "--tokenizer", "tokenizer.json", "--input", "input.txt", "--overwrite"]
    for name in ("input.txt", "tokenizer.json", "./beside/../input.txt"):
        place = name.replace("/", "-")
        yield Case(f"encode-output-is-{place}", make, [*encode, "--output", name, *BUDGET], frozenset({2, 5}))


def _ids() -> Iterator[Case]:
    """Files of ids for `decode`."""

    def npy(array: np.ndarray) -> Callable[[Path], object]:
        return lambda path: np.save(path, array)

    good = np.arange(40)
    header = b"\x93NUMPY\x01\x00\x76\x00"
    described = b"{'descr': '<u2', 'fortran_order': False, 'shape': (%s,), }"
    kinds: dict[str, tuple[str, Content]] = {
        "empty": ("ids.bin", b""),
        "cut": ("ids.bin", b"\x01\x00\x02"),
        "out-of-range": ("ids.bin", b"\xff" * 100),
        "of-50-megabytes": ("ids.bin", lambda path: path.write_bytes(b"\x01\x00" * 25_000_000)),
        "controls": ("ids.bin", bytes(range(94)) * 2),
        "npy-empty": ("ids.npy", b""),
        "npy-cut": ("ids.npy", header + described % b"9" + b" " * 70),
        "npy-that-lies": ("ids.npy", header + (described % b"99999999999999").ljust(117) + b"\n"),
        "npy-negative-shape": ("ids.npy", header + (described % b"-4").ljust(117) + b"\n"),
        "npy-code": ("ids.npy", header + b"__import__('os').system('touch owned')".ljust(117) + b"\n"),
        "npy-fractions": ("ids.npy", npy(good / 3)),
        "npy-not-a-number": ("ids.npy", npy(np.array([np.nan]))),
        "npy-negative": ("ids.npy", npy(-good)),
        "npy-64-bits": ("ids.npy", npy(np.array([2**63], np.uint64))),
        "npy-complex": ("ids.npy", npy(good * 1j)),
        "npy-text": ("ids.npy", npy(np.array(["a", "b"]))),
        "npy-objects": ("ids.npy", npy(np.array([{"a": 1}], object))),
        "npy-big-endian": ("ids.npy", npy(good.astype(">u4"))),
        "npy-no-dimension": ("ids.npy", npy(np.array(7))),
        "npy-rows": ("ids.npy", npy(good.reshape(4, 10))),
        "npy-booleans": ("ids.npy", npy(good > 3)),
        "a-folder": ("ids.bin", Path.mkdir),
        "a-fifo": ("ids.bin", os.mkfifo),
        "a-device": ("ids.bin", lambda path: path.symlink_to("/dev/zero")),
        "a-link-to-itself": ("ids.bin", lambda path: path.symlink_to(path.name)),
    }
    for name, (file, content) in kinds.items():

        def make(folder: Path, file: str = file, content: Content = content) -> None:
            (folder / "tokenizer.json").write_text(json.dumps(plain()))
            put(folder / file, content)

        said = ["tokenizer", "decode", "--tokenizer", "tokenizer.json", "--input", file, *BUDGET]
        yield Case(f"decode-ids-{name}", make, said, seconds=30)
    for name, given in {
        "negative": ["--", "-1"], "huge": ["99999999999999999999"], "text": ["many"], "empty": [""],
        "arabic": ["\u0661\u0662"], "escape": ["\x1b[31m"], "fraction": ["1.5"], "many": ["1 " * 60_000],
    }.items():  # fmt: skip

        def alone(folder: Path) -> None:
            (folder / "tokenizer.json").write_text(json.dumps(plain()))

        said = ["tokenizer", "decode", "--tokenizer", "tokenizer.json", *BUDGET, *given]
        yield Case(f"decode-words-{name}", alone, said)


def _budgets() -> Iterator[Case]:
    """Of a tokenizer whose vocabulary is large, and of a text whose documents are."""
    vocab = {f"t{at}": at for at in range(200_000)} | {
        symbol: 200_000 + at for at, symbol in enumerate(SYMBOLS)
    }
    for memory in ("1B", "1MB", "100MB", "130MB", "200MB", "99999TB"):

        def make(folder: Path) -> None:
            put(folder / "tokenizer.json", bpe(vocab))
            (folder / "input.jsonl").write_bytes(
                WHOLE + json.dumps({"text": "some words " * 300_000}).encode()
            )

        given = ["--tokenizer", "tokenizer.json", "--threads", "2", "--memory", memory]
        top = {"130MB": 130_000_000, "200MB": 200_000_000, "99999TB": 10**9}.get(memory, MEMORY)
        said = ["tokenizer", "encode", "--input", "input.jsonl", "--output", "out.bin", *given]
        yield Case(f"encode-budget-{memory}", make, said, memory=top, fresh=memory in ("130MB", "200MB"))
        yield Case(f"decode-budget-{memory}", make, ["tokenizer", "decode", "1 2 3", *given])


def _compare() -> Iterator[Case]:
    kinds: dict[str, tuple[Content, Sequence[str]]] = {
        "empty": (b"", ()),
        "nuls": (bytes(1000), ()),
        "not-utf8": (b"\xff" * 1000, ()),
        "a-folder": (Path.mkdir, ()),
        "a-fifo": (os.mkfifo, ()),
        "peer-unknown": (b"some words", ("--peers", "\x1b[31mnobody")),
        "peer-twice": (b"some words", ("--peers", "tokenizers", "tokenizers")),
        "python-absent": (b"some words", ("--peers-python", "absent/python")),
        "python-is-a-text": (b"some words", ("--peers-python", "input.txt")),
        "python-is-a-folder": (b"some words", ("--peers-python", ".")),
        "vocab-zero": (b"some words", ("--vocab-size", "0")),
        "vocab-negative": (b"some words", ("--vocab-size", "-1")),
    }
    for name, (content, flags) in kinds.items():

        def make(folder: Path, content: Content = content) -> None:
            put(folder / "input.txt", content)

        peers = [] if "--peers" in flags else ["--peers", "tokenizers"]
        size = [] if "--vocab-size" in flags else ["--vocab-size", "300"]
        said = ["tokenizer", "compare", "--input", "input.txt", *peers, *size, *flags, *BUDGET]
        yield Case(f"compare-{name}", make, said)


def _configs() -> Iterator[Case]:
    """`krill train-tokenizer`."""
    tokenizers: dict[str, Any] = {
        "absent": None,
        "builtin": {"builtin": "bytes"},
        "without-a-path": {"vocab_size": 300},
        "path-empty": {"path": "", "vocab_size": 300},
        "path-is-here": {"path": ".", "vocab_size": 300},
        "path-is-the-input": {"path": "input.jsonl", "vocab_size": 300},
        "path-of-nul": {"path": "a\0b", "vocab_size": 300},
        "vocab-zero": {"path": "out", "vocab_size": 0},
        "vocab-nan": {"path": "out", "vocab_size": float("nan")},
        "vocab-huge": {"path": "out", "vocab_size": 10**12},
        "vocab-text": {"path": "out", "vocab_size": "many"},
        "special-numbers": {"path": "out", "vocab_size": 300, "special_tokens": [1, None]},
        "special-twice": {"path": "out", "vocab_size": 300, "special_tokens": ["<a>", "<a>"]},
        "special-empty": {"path": "out", "vocab_size": 300, "special_tokens": [""]},
        "pattern-broken": {"path": "out", "vocab_size": 300, "pattern": "(["},
        "a-list": ["out"],
        "unknown-key": {"path": "out", "vocab_size": 300, "\x1b[31m": 1},
    }
    for name, tokenizer in tokenizers.items():

        def make(folder: Path, tokenizer: Any = tokenizer) -> None:
            (folder / "input.jsonl").write_bytes(WHOLE)
            config = {"datasets": [{"path": "input.jsonl"}], "tokenizer": tokenizer}
            save(folder, config)

        yield Case(f"train-tokenizer-{name}", make, words("train-tokenizer", "config.yaml"), seconds=30)
