"""Blocks of rows, rendered here or in a worker process.

In: rows as JSON, and how their source is read. Out: of each row its conversations, or why it is left out.
Held in memory: the block, one row as Python objects, and the renderings.

Between processes a block is one message: a line of JSON, then the texts without anything between them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import accumulate, pairwise
from typing import Any

import orjson

from krill.chat.options import ChatDrop, ChatFormat, RendererSettings
from krill.chat.render import ChatRenderer, RenderedChat
from krill.errors import KrillError, decode_error, encode_error

Outcome = Sequence[RenderedChat] | ChatDrop

WORK = "krill.chat.blocks:open_work"
"""The work of a process that renders."""


def render_row(renderer: ChatRenderer, row: bytes | memoryview, format: ChatFormat) -> Outcome:
    """The conversations of a row that the reader has found to be a JSON object, or why it is left out."""
    try:
        parsed = _parsed(row)
    except RecursionError:
        return ChatDrop("too_deep")
    except ValueError as error:
        return ChatDrop("bad_value", str(error))
    return renderer.render(parsed, format)


def _parsed(row: bytes | memoryview) -> dict[str, Any]:
    """Escapes of lone surrogates are left out."""
    try:
        return dict(orjson.loads(row))
    except orjson.JSONDecodeError:
        text = json.dumps(json.loads(bytes(row)), ensure_ascii=False)
        return dict(orjson.loads(text.encode("utf-8", "ignore")))


def work_settings(settings: RendererSettings, formats: Sequence[ChatFormat]) -> bytes:
    """What `open_work` is called with."""
    return orjson.dumps({"renderer": settings.to_json(), "formats": [asdict(each) for each in formats]})


def open_work(settings: bytes) -> Callable[[bytes], bytes]:
    """What answers requests for blocks."""
    found = orjson.loads(settings)
    renderer = ChatRenderer.of(RendererSettings.from_json(found["renderer"]))
    formats = [ChatFormat(**each) for each in found["formats"]]

    def answer(request: bytes) -> bytes:
        head, texts = _split(request)
        rows = _cut(texts, head["lengths"])
        return _encode_outcomes(render_row(renderer, row, formats[head["format"]]) for row in rows)

    return answer


def encode_request(format: int, rows: Sequence[memoryview]) -> bytes:
    """A block of rows in the format of this number."""
    head = {"format": format, "lengths": [len(row) for row in rows]}
    return b"".join([orjson.dumps(head), b"\n", *rows])


def decode_answer(answer: bytes) -> Iterator[Outcome]:
    """What became of each row; raises what rendering one has raised."""
    head, texts = _split(answer)
    lengths = (chat[0] for row in head["rows"] if row[0] != "" for chat in row)
    pieces = _cut(texts, lengths)
    for row in head["rows"]:
        if row[0] == "":
            yield ChatDrop(*row[1:])
        else:
            yield [RenderedChat(bytes(next(pieces)), *others) for _, *others in row]
    if head["error"] is not None:
        raise decode_error(head["error"])


def _encode_outcomes(outcomes: Iterator[Outcome]) -> bytes:
    """A row that was left out is `["", reason, detail]`; another, a list of its conversations."""
    rows: list[list[Any]] = []
    texts: list[bytes] = []
    error = None
    try:
        for outcome in outcomes:
            if isinstance(outcome, ChatDrop):
                detail = outcome.detail.encode("utf-8", "backslashreplace").decode()
                rows.append(["", outcome.reason, detail])
            else:
                rows.append([[len(chat.text), chat.trained, chat.content, chat.left_out] for chat in outcome])
                texts += [chat.text for chat in outcome]
    except KrillError as raised:  # those before it may be at fault themselves
        error = encode_error(raised)
    return b"".join([orjson.dumps({"rows": rows, "error": error}), b"\n", *texts])


def _split(message: bytes) -> tuple[dict[str, Any], memoryview]:
    end = message.index(b"\n")
    return orjson.loads(memoryview(message)[:end]), memoryview(message)[end + 1 :]


def _cut(texts: memoryview, lengths: Iterable[int]) -> Iterator[memoryview]:
    for start, end in pairwise(accumulate(lengths, initial=0)):
        yield texts[start:end]
