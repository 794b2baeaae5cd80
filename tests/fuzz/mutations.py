"""Damage: a valid file in, one that was changed in a few places out, the same for the same seed.

`mutate_bytes` knows that binary formats are made of integers at aligned places, and text formats of a few
telling characters. `mutate_json` changes one value of a document that stays JSON.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from copy import deepcopy
from random import Random
from typing import Any

# What text formats and their encodings turn on.
TOKENS = [
    *(b'"', b"'", b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\n", b"\r\n", b"\t", b"\0", b" "),
    *(b'""', b"\\u", b"\\ud83d", b"\\u0000", b"null", b"-1", b"1e999", b'{"text":', b"[[[[", b"\xef\xbb\xbf"),
    *(b"\xff\xfe", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\x80", b"\xff", b"\n\n"),
]

ODD_VALUES: list[Any] = [
    *(None, True, False, 0, -1, 1, 2**31, 2**32, 2**63 - 1, 2**63, -(2**63), 10**30, 0.5, -0.0, 1e308),
    *("", "x" * 5000, "\0", "../../x", "é\u202e", "\ud800", [], {}, [[]], [None], {"": None}, [0] * 2000),
]


def mutate_bytes(data: bytes, random: Random, others: Sequence[bytes] = ()) -> bytes:
    """One to eight changes."""
    content = bytearray(data)
    for _ in range(min(8, 1 + int(random.expovariate(0.7)))):
        random.choices(_CHANGES, _WEIGHTS)[0](content, random, others)
    return bytes(content)


def mutate_json(data: bytes, random: Random, others: Sequence[bytes] = ()) -> bytes:
    """A value replaced, removed, doubled or taken from elsewhere; at times bytes instead."""
    try:
        document = json.loads(data)
    except ValueError:
        return mutate_bytes(data, random, others)
    if random.random() < 0.3:
        return mutate_bytes(data, random, others)
    for _ in range(1 + int(random.expovariate(1))):
        document = _changed(document, random)
    return json.dumps(document).encode("utf-8", "surrogatepass")


def _changed(document: Any, random: Random) -> Any:
    places = list(_places(document))
    if not places:
        return deepcopy(random.choice(ODD_VALUES))
    holder, key = random.choice(places)
    kind = random.random()
    if kind < 0.55:
        holder[key] = deepcopy(random.choice(ODD_VALUES))
    elif kind < 0.75:
        other, name = random.choice(places)
        holder[key] = deepcopy(other[name])
    elif kind < 0.9:
        del holder[key]
    elif isinstance(holder, list):
        holder.insert(key, deepcopy(holder[key]))
    else:
        holder[str(random.choice(ODD_VALUES))] = holder[key]
    return document


def _places(value: Any) -> Any:
    """Every holder of a value and its key there."""
    waiting = [value] if isinstance(value, dict | list) else []
    while waiting:
        holder = waiting.pop()
        keys = holder.keys() if isinstance(holder, dict) else range(len(holder))
        for key in list(keys):
            yield holder, key
            if isinstance(holder[key], dict | list):
                waiting.append(holder[key])


def _flip(content: bytearray, random: Random, others: Sequence[bytes]) -> None:
    if content:
        content[random.randrange(len(content))] ^= 1 << random.randrange(8)


def _set_bytes(content: bytearray, random: Random, others: Sequence[bytes]) -> None:
    if content:
        at = random.randrange(len(content))
        content[at : at + random.choice((1, 1, 2, 4, 8))] = random.randbytes(random.choice((1, 1, 2, 4)))


def _set_integer(content: bytearray, random: Random, others: Sequence[bytes]) -> None:
    """An integer at its own alignment becomes an extreme one, or another place in the file."""
    width = random.choice((1, 2, 4, 4, 8, 8))
    if len(content) < width:
        return
    code = {1: "<B", 2: "<H", 4: "<I", 8: "<Q"}[width]
    at = width * random.randrange(len(content) // width)
    most = (1 << 8 * width) - 1
    (before,) = struct.unpack_from(code, content, at)
    size = len(content)
    values = (0, 1, most, most >> 1, (most >> 1) + 1, most - 1, size, size - 1, size + 1, before + 1)
    more = (
        before - 1,
        2 * before,
        -before,
        before + 8,
        random.randrange(size),
        1 << random.randrange(8 * width),
    )
    struct.pack_into(code, content, at, random.choice(values + more) & most)


def _truncate(content: bytearray, random: Random, others: Sequence[bytes]) -> None:
    del content[random.randrange(len(content) + 1) :]


def _remove(content: bytearray, random: Random, others: Sequence[bytes]) -> None:
    start, stop = _range(content, random)
    del content[start:stop]


def _double(content: bytearray, random: Random, others: Sequence[bytes]) -> None:
    start, stop = _range(content, random)
    content[stop:stop] = content[start:stop] * random.choice((1, 1, 1, 3, 50))


def _move(content: bytearray, random: Random, others: Sequence[bytes]) -> None:
    start, stop = _range(content, random)
    at = random.randrange(len(content) + 1)
    content[at : at + stop - start] = content[start:stop]


def _splice(content: bytearray, random: Random, others: Sequence[bytes]) -> None:
    other = random.choice(others) if others else bytes(content)
    start, stop = _range(other, random)
    at = random.randrange(len(content) + 1)
    content[at : at + random.choice((0, stop - start))] = other[start:stop]


def _insert_token(content: bytearray, random: Random, others: Sequence[bytes]) -> None:
    at = random.randrange(len(content) + 1)
    content[at : at + random.choice((0, 0, 1))] = random.choice(TOKENS) * random.choice((1, 1, 1, 1, 40))


def _range(content: bytes | bytearray, random: Random) -> tuple[int, int]:
    start = random.randrange(len(content) + 1)
    return start, min(len(content), start + random.choice((1, 4, 8, 16, 64, 500)))


_Change = Callable[[bytearray, Random, Sequence[bytes]], None]
_CHANGES: list[_Change] = [
    *(_flip, _set_bytes, _set_integer, _truncate, _remove, _double, _move, _splice, _insert_token),
]
_WEIGHTS = [4, 4, 8, 1, 2, 2, 2, 2, 3]
