"""Hostile plain text and JSON: for `krill preprocess`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from hostile import Case, preprocess

GOOD = [f"document {number} " + "some words " * 5 for number in range(20)]


def lines(*records: object) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


WHOLE = lines(*({"text": text} for text in GOOD))


def cases() -> Iterator[Case]:
    yield from _text()
    yield from _text_bytes()
    yield from _json_values()
    yield from _json_lines()
    yield from _json_arrays()
    yield from _json_columns()


def _text() -> Iterator[Case]:
    yield preprocess("text-one-byte", "input.txt", b"x")
    yield preprocess("text-one-row", "input.txt", b"x" * 64, 0, kept=["x" * 64])
    yield preprocess("text-only-newlines", "input.txt", b"\n" * 1_000_000, 0, 3)
    yield preprocess("text-only-carriage-returns", "input.txt", b"\r" * 1_000_000, 0, 3)
    yield preprocess("text-only-separators", "input.txt", b"<|endoftext|>" * 200_000, 3)
    yield preprocess("text-separator-cut", "input.txt", b"abc<|endoftext|>def<|endofte" * 4, 0)
    yield preprocess(
        "text-separator-of-one-byte", "input.txt", b"ab;" * 300_000, 0, dataset={"separator": ";"}
    )
    yield preprocess(
        "text-separator-of-a-megabyte", "input.txt", b"ab" * 3_000_000, dataset={"separator": "ab" * 500_000}
    )
    yield preprocess(
        "text-separator-that-overlaps-itself", "input.txt", b"a" * 99_999, 0, 3, dataset={"separator": "aaaa"}
    )
    yield preprocess("text-separator-is-nul", "input.txt", b"abcdefgh\0" * 99, 0, dataset={"separator": "\0"})
    yield preprocess(
        "text-separator-is-a-newline",
        "input.txt",
        "\n".join(GOOD).encode(),
        0,
        dataset={"separator": "\n"},
        kept=GOOD,
    )
    yield preprocess(
        "text-no-separator-in-9-megabytes", "input.txt", b"word " * 1_800_000, 0, dataset={"separator": ""}
    )
    yield preprocess("text-a-sparse-gigabyte", "input.txt", _sparse, 4, more=["--disk", "10MB"], seconds=30)
    yield preprocess("text-endless-fifo-beside", "*.txt", _fifo_among_files, path="*.txt", seconds=30)
    yield preprocess("text-named-as-a-terminal-escape", "in\x1b[31m.txt", b"some text " * 50, 0)


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10**9)


def _fifo_among_files(path: Path) -> None:
    (path.parent / "a.txt").write_bytes(b"some text " * 50)
    os.mkfifo(path.parent / "b.txt")


def _text_bytes() -> Iterator[Case]:
    kinds = {
        "nuls": b"\0" * 500_000,
        "a-byte-order-mark-alone": b"\xef\xbb\xbf",
        "many-byte-order-marks": b"\xef\xbb\xbf" * 1000,
        "utf-16": "\ufeffsome text in UTF-16 ".encode("utf-16-le") * 50,
        "utf-32": "\ufeffsome text in UTF-32 ".encode("utf-32-be") * 50,
        "bytes-that-begin-nothing": b"\x80\xbf" * 100_000,
        "bytes-that-end-nothing": b"\xf0\x9f\x98" * 100_000,
        "overlong-and-surrogates": b"\xc0\xaf\xed\xa0\x80\xf4\x90\x80\x80\xf8\x88\x80\x80\x80" * 5000,
        "every-byte": bytes(range(256)) * 400,
        "combining-marks": b"e" + "\u0301".encode() * 1_000_000,
        "joiners": "\u200d".encode() * 300_000,
        "flags-and-families": "\U0001f468\u200d\U0001f469\u200d\U0001f467\U0001f1e9".encode() * 9000,
        "the-last-code-points": "\U0010ffff\ufdd0\ufffe\ue000".encode() * 5000,
        "a-zip": b"PK\x03\x04" + bytes(range(256)) * 30,
        "an-elf": b"\x7fELF\x02\x01\x01" + bytes(1000) + bytes(range(256)) * 30,
        "a-pdf": b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj<<>>endobj\n" * 100,
        "a-pickle": b"\x80\x04\x95cposix\nsystem\n(S'touch owned'\ntR." * 50,
        "terminal-escapes": b"\x1b]0;owned\x07\x1b[2J\xc2\x9b31m" * 500,
        "lines-of-one-byte": b"a\n" * 500_000,
        "line-and-paragraph-separators": "\u2028\u2029\x0b\x0c\x85".encode() * 20_000,
    }
    for name, content in kinds.items():
        yield preprocess(f"text-of-{name}", "input.txt", content, 0, 3)
        if len(content) > 100 and len(content) < 300_000:
            yield preprocess(f"json-file-of-{name}", "input.jsonl", content, 0, 3)


def _json_values() -> Iterator[Case]:
    """A record among whole ones, which are then refused together or kept together."""
    records = {
        "nan": b'{"text": "a", "x": NaN}',
        "infinity": b'{"text": "a", "x": -Infinity}',
        "huge-exponent": b'{"text": "a", "x": 1e999999}',
        "number-of-a-megabyte": b'{"text": "a", "x": ' + b"9" * 1_000_000 + b"}",
        "text-is-a-number": b'{"text": 12}',
        "text-is-a-list": b'{"text": ["a"]}',
        "text-is-an-object": b'{"text": {"text": "a"}}',
        "text-is-true": b'{"text": true}',
        "duplicate-keys": b'{"text": "a", "text": "b"}',
        "duplicate-keys-of-two-kinds": b'{"text": 1, "text": "b", "text": null}',
        "escaped-key": b'{"te\\u0078t": "a"}',
        "nul-in-key": b'{"te\\u0000xt": "a", "text": "b"}',
        "empty-key": b'{"": "a", "text": "b"}',
        "lone-surrogate": b'{"text": "a \\ud800 b"}',
        "lone-surrogate-at-the-end": b'{"text": "a \\ud800"}',
        "reversed-surrogates": b'{"text": "\\udc00\\ud800"}',
        "escaped-nuls": b'{"text": "' + b"\\u0000" * 400_000 + b'"}',
        "key-of-five-megabytes": b'{"' + b"k" * 5_000_000 + b'": 1, "text": "a"}',
        "raw-control-characters": b'{"text": "a\tb\x01c"}',
        "raw-nul": b'{"text": "a\0b"}',
        "bad-escape": b'{"text": "\\x41"}',
        "short-escape": b'{"text": "\\u12"}',
        "single-quotes": b"{'text': 'a'}",
        "trailing-comma": b'{"text": "a",}',
        "comment": b'{"text": "a"} // why',
        "two-on-a-line": b'{"text": "a"} {"text": "b"}',
        "top-level-array": b'["text", "a"]',
        "top-level-string": b'"text"',
        "top-level-number": b"12",
        "top-level-null": b"null",
        "unterminated": b'{"text": "abc',
        "closing-braces": b"}" * 1000,
        "deep-array": b'{"text": "a", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        "deep-objects": b'{"text": "a", "x": ' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}",
        "many-members": b'{"text": "a", ' + b",".join(b'"k%d": 0' % at for at in range(50_000)) + b"}",
        "invalid-utf8": b'{"text": "a\xff\xfeb"}',
        "invalid-utf8-in-a-key": b'{"a\xff": 1, "text": "b"}',
        "byte-order-mark": b'\xef\xbb\xbf{"text": "a"}',
        "other-spaces": '{"text":\u00a0"a"}'.encode(),
        "vertical-tab": b'\x0b{"text": "a"}',
    }
    for name, record in records.items():
        for policy in ("fail", "skip"):
            yield preprocess(
                f"json-record-{name}-{policy}",
                "input.jsonl",
                WHOLE + record + b"\n" + WHOLE,
                *((0, 3) if policy == "fail" else (0,)),
                config={"on_error": policy},
                holds=GOOD + GOOD,
            )
        yield preprocess(
            f"json-record-{name}-first-and-carried",
            "input.jsonl",
            record + b"\n" + WHOLE,
            *((0, 3, 4) if name == "many-members" else (0, 3)),  # 50,000 columns need 660 MB
            dataset={"columns": "*"},
            config={"output": "text"},
        )


def _json_lines() -> Iterator[Case]:
    crlf = WHOLE.replace(b"\n", b"\r\n")
    yield preprocess("json-crlf", "input.jsonl", crlf, 0, kept=GOOD)
    yield preprocess("json-carriage-returns-alone", "input.jsonl", WHOLE.replace(b"\n", b"\r"), 0, 3)
    yield preprocess("json-no-final-newline", "input.jsonl", WHOLE[:-1], 0, kept=GOOD)
    yield preprocess(
        "json-blank-lines-between", "input.jsonl", WHOLE.replace(b"\n", b"\n\n \t\n"), 0, kept=GOOD
    )
    yield preprocess("json-nuls-between", "input.jsonl", WHOLE.replace(b"\n", b"\n\0\n"), 0, 3)
    yield preprocess("json-nuls-behind", "input.jsonl", WHOLE + bytes(100_000), 0, 3)
    yield preprocess("json-pretty-printed", "input.jsonl", json.dumps({"text": "a"}, indent=2).encode(), 3)
    yield preprocess(
        "json-an-array-named-as-lines", "input.jsonl", json.dumps([{"text": "a"}]).encode(), 0, 3
    )
    yield preprocess("json-lines-named-as-an-array", "input.json", WHOLE, 0, 3)
    yield preprocess(
        "json-a-line-longer-than-a-document",
        "input.jsonl",
        lambda path: path.write_bytes(lines({"text": "long " * 2_000_000})),
        0,
    )
    yield preprocess(
        "json-a-key-longer-than-a-document",
        "input.jsonl",
        lambda path: path.write_bytes(b'{"' + b"k" * 9_000_000 + b'": 1, "text": "a"}\n'),
    )
    yield preprocess(
        "json-a-line-that-never-ends",
        "input.jsonl",
        lambda path: path.write_bytes(b'{"text": "' + b"a" * 40_000_000),
        0,
        3,
    )
    yield preprocess(
        "json-white-space-of-40-megabytes",
        "input.jsonl",
        lambda path: path.write_bytes(b" " * 40_000_000 + WHOLE),
        0,
        3,
        4,
    )
    yield preprocess(
        "json-braces-of-20-megabytes", "input.jsonl", lambda path: path.write_bytes(b"{" * 20_000_000), 3, 4
    )
    yield preprocess(
        "json-escapes-of-20-megabytes",
        "input.jsonl",
        lambda path: path.write_bytes(b'{"text": "' + b"\\" * 20_000_001),
        3,
        4,
    )
    yield preprocess("json-empty-texts", "input.jsonl", lines(*[{"text": ""}] * 100_000), 0, 3)
    yield preprocess("json-texts-of-one-character", "input.jsonl", lines(*[{"text": "a"}] * 100_000), 0)
    yield preprocess("json-empty-objects", "input.jsonl", b"{}\n" * 100_000, 3)


def _json_arrays() -> Iterator[Case]:
    whole = json.dumps([{"text": text} for text in GOOD]).encode()
    kinds = {
        "empty": b"[]",
        "only-an-opening": b"[",
        "nested": b"[[[" + whole + b"]]]",
        "cut": whole[:-10],
        "trailing-comma": whole[:-1] + b",]",
        "no-comma": whole.replace(b"}, {", b"} {"),
        "two-commas": whole.replace(b"}, {", b"},, {"),
        "something-behind": whole + b"garbage",
        "two-arrays": whole + whole,
        "scalars": b'[1, "a", null, {"text": "b"}]',
        "strings": json.dumps(GOOD).encode(),
        "one-object": b'{"text": "a"}',
        "object-around": b'{"data": ' + whole + b"}",
        "deep": b"[" * 1_000_000,
        "commas": b"[" + b"," * 1_000_000,
        "white-space": b" \n" * 1_000_000 + whole,
        "a-string-that-never-ends": b'[{"text": "' + b"a" * 20_000_000,
        "utf-16": whole.decode().encode("utf-16"),
    }
    for name, content in kinds.items():
        yield preprocess(f"json-array-{name}", "input.json", content, 0, 2, 3, 4)


def _json_columns() -> Iterator[Case]:
    star = {"dataset": {"columns": "*"}, "config": {"output": "text", "rejected": True, "dedup": "exact"}}
    mixed = [1, 1.5, "a", None, True, [1, "a"], {"a": 1}, {"a": "b"}, [[]], 10**30, -(2**63), 2**64 - 1, {}]
    records = [{"text": GOOD[at % 20], "x": value} for at, value in enumerate(mixed * 3)]
    yield preprocess("columns-of-every-type-mixed", "input.jsonl", lines(*records), 0, 3, **star)
    for at, value in enumerate(mixed):
        rows = [{"text": "a document", "x": value}] + [{"text": "other", "x": other} for other in mixed]
        yield preprocess(f"columns-of-type-{at}-then-others", "input.jsonl", lines(*rows), 0, 3, **star)
    names = [
        "position",
        "cluster",
        "cluster_size",
        "reason",
        "text ",
        "TEXT",
        "\0",
        "\x1b[2J",
        "a.b",
        "💥" * 500,
    ]
    yield preprocess(
        "columns-named-as-krill-names-its-own",
        "input.jsonl",
        lines(*[{"text": text, **dict.fromkeys(names, 1)} for text in GOOD]),
        0,
        2,
        3,
        **star,
    )
    for name in ("text", "position", "reason", "", "\n", "*", "absent", "a\ud800"):
        yield preprocess(
            f"columns-that-ask-for-{name.encode('unicode_escape').decode() or 'nothing'}",
            "input.jsonl",
            lines(*[{"text": text, "position": -1, "reason": [1]} for text in GOOD]),
            0,
            2,
            3,
            dataset={"columns": [name]},
            config={"output": "text", "rejected": True},
        )
    yield preprocess(
        "columns-asked-for-twice",
        "input.jsonl",
        lines(*[{"text": t, "a": 1} for t in GOOD]),
        0,
        2,
        3,
        dataset={"columns": ["a", "a"]},
        config={"output": "text"},
    )
    yield preprocess(
        "text-column-is-nested",
        "input.jsonl",
        lines(*[{"a": {"text": t}} for t in GOOD]),
        0,
        3,
        dataset={"text_column": "a.text"},
    )
    yield preprocess(
        "text-column-is-empty",
        "input.jsonl",
        lines(*[{"": t} for t in GOOD]),
        0,
        2,
        3,
        dataset={"text_column": ""},
    )
    yield preprocess(
        "columns-with-nulls-first",
        "input.jsonl",
        lines(*[{"text": t, "x": None} for t in GOOD], {"text": "z", "x": {"y": [1]}}),
        0,
        3,
        **star,
    )
