"""The slow oracle of both readers: a whole file's bytes in, the rows out that the native ones must give.

Validity is `json`'s; the only parsing here is what `json` does not tell: where a character stands in the
file, how far a faulty string goes, and what a value looks like verbatim. All is held in memory at once.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NoReturn

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_MAX_DEPTH = 512
_SPACE = re.compile(rb"[ \t\r\n]*")
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
# A character inside a string: a surrogate pair, another escape, or a byte as it is.
_CHARACTER = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb'|\\u[0-9a-fA-F]{4}|\\["\\/bfnrt]|[^"\\\x00-\x1f]'
)


@dataclass(frozen=True, slots=True)
class Row:
    """One document, or one piece of a split one."""

    text: bytes | None
    start: int
    carried: tuple[bytes | None, ...] = ()


def _no_counts() -> dict[str, int]:
    names = "records malformed key_seen not_text oversize oversize_split surrogates_removed"
    return dict.fromkeys(names.split(), 0)


@dataclass(slots=True)
class Reading:
    """What a reader gives for a file; `fault` is the offset of the malformed record that ended it."""

    rows: list[Row] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=_no_counts)
    fault: int | None = None


@dataclass(frozen=True, slots=True)
class JsonSettings:
    """The arguments of `_native.JsonReader`."""

    text_key: bytes
    carry: tuple[bytes, ...]
    max_document_bytes: int
    drop_oversize: bool
    skip_malformed: bool
    array: bool


def piece_ends(text: bytes, limit: int) -> list[int]:
    """Where a text is cut: behind the last paragraph, line or character that fits, again and again."""
    ends, begin = [], 0
    while len(text) - begin > limit:
        window = text[begin : begin + limit]
        if b"\n\n" in window:
            size = window.rindex(b"\n\n") + 2
        elif b"\n" in window:
            size = window.rindex(b"\n") + 1
        else:
            borders = [n for n in range(limit, limit - 4, -1) if n > 0 and text[begin + n] & 0xC0 != 0x80]
            size = borders[0] if borders else limit
        begin += size
        ends.append(begin)
    return [*ends, len(text)]


def read_text(data: bytes, separator: bytes, max_document_bytes: int, drop_oversize: bool) -> Reading:
    """What `_native.TextReader` gives."""
    reading = Reading()
    at = len(_BYTE_ORDER_MARK) if data.startswith(_BYTE_ORDER_MARK) else 0
    for document in data[at:].split(separator) if separator else [data[at:]]:
        if document:
            reading.counts["records"] += 1
            reading.counts["key_seen"] += 1
            ends = piece_ends(document, max_document_bytes)
            if len(ends) > 1 and drop_oversize:
                reading.counts["oversize"] += 1
            else:
                reading.counts["oversize_split"] += len(ends) > 1
                pieces = zip([0, *ends], ends, strict=False)
                reading.rows += [Row(document[begin:end], at + begin) for begin, end in pieces]
        at += len(document) + len(separator)
    return reading


def read_json(data: bytes, settings: JsonSettings) -> Reading:
    """What `_native.JsonReader` gives."""
    reading = Reading()
    at = len(_BYTE_ORDER_MARK) if data.startswith(_BYTE_ORDER_MARK) else 0
    try:
        if settings.array:
            _read_array(data, at, settings, reading)
        else:
            _read_lines(data, at, settings, reading)
    except _Fault as fault:
        reading.fault = fault.record
    return reading


class _Fault(Exception):
    def __init__(self, record: int) -> None:
        super().__init__(record)
        self.record = record


def _read_lines(data: bytes, at: int, settings: JsonSettings, reading: Reading) -> None:
    for line in data[at:].split(b"\n"):
        begin = _skip_space(line, 0)
        if begin < len(line):
            record = _Record(line, begin, at, settings, reading)
            try:
                if _skip_space(line, record.read()) != len(line):
                    record.fail()
                record.finish()
            except _Fault:
                if not settings.skip_malformed:
                    raise
                reading.counts["records"] += 1
                reading.counts["malformed"] += 1
        at += len(line) + 1


def _read_array(data: bytes, at: int, settings: JsonSettings, reading: Reading) -> None:
    at = _skip_space(data, at)
    if data[at : at + 1] != b"[":
        raise _Fault(at)
    at = _skip_space(data, at + 1)
    first = True
    while data[at : at + 1] != b"]":
        if not first:
            if data[at : at + 1] != b",":
                raise _Fault(at)
            at = _skip_space(data, at + 1)
        record = _Record(data, at, 0, settings, reading)
        at = _skip_space(data, record.read())
        record.finish()
        first = False
    at = _skip_space(data, at + 1)
    if at != len(data):
        raise _Fault(at)


def _skip_space(data: bytes, at: int) -> int:
    match = _SPACE.match(data, at)
    assert match is not None
    return match.end()


@dataclass(frozen=True, slots=True)
class _String:
    """A string's bytes, where each of them is written, and where the reading stopped."""

    text: bytes
    places: list[int]
    end: int
    whole: bool
    lone_surrogates: bool


def _read_string(data: bytes, at: int) -> _String:
    text, places, lone = bytearray(), [], False
    at += 1
    while (match := _CHARACTER.match(data, at)) is not None:
        character = match[0]
        if character.startswith(b"\\"):
            unescaped = json.loads(b'"%s"' % character)
            character = unescaped.encode("utf-8", "ignore")
            lone = lone or not character
        text += character
        places += [at] * len(character)
        at = match.end()
    whole = data[at : at + 1] == b'"'
    return _String(bytes(text), places, at + whole, whole, lone)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


# Numbers are left as text: their size does not matter.
_DECODER = json.JSONDecoder(parse_constant=_no_constant, parse_int=str, parse_float=str, strict=True)


class _Record:
    """One object, from `data[begin]` on; `base` is the offset of `data[0]` in the file."""

    def __init__(self, data: bytes, begin: int, base: int, settings: JsonSettings, reading: Reading) -> None:
        self._data = data
        self._begin = begin
        self._base = base
        self._settings = settings
        self._reading = reading
        self._text: bytes | None = None  # of the last piece so far
        self._start = base + begin
        self._carried: dict[bytes, bytes | None] = {}
        self._key_seen = self._dropped = self._split = self._lone = False

    def fail(self) -> NoReturn:
        raise _Fault(self._base + self._begin)

    def read(self) -> int:
        """Reads to the closing brace and returns the place behind it."""
        at = self._expect(b"{", self._begin)
        if self._peek(at) == b"}":
            return at + 1
        while True:
            key = self._whole_string(at)
            at = self._expect(b":", _skip_space(self._data, key.end))
            at = _skip_space(self._data, self._read_member(None if key.lone_surrogates else key.text, at))
            if self._peek(at) == b"}":
                return at + 1
            at = self._expect(b",", at)

    def finish(self) -> None:
        """The record is well-formed: its row, or its last piece, and its counts."""
        counts = self._reading.counts
        counts["records"] += 1
        counts["key_seen"] += self._key_seen
        counts["oversize"] += self._dropped
        if self._dropped:
            return
        counts["not_text"] += self._text is None
        counts["oversize_split"] += self._split
        counts["surrogates_removed"] += self._lone
        carried = tuple(self._carried.get(key) for key in self._settings.carry)
        self._reading.rows.append(Row(self._text, self._start, carried))

    def _peek(self, at: int) -> bytes:
        return self._data[at : at + 1]

    def _expect(self, byte: bytes, at: int) -> int:
        if self._peek(at) != byte:
            self.fail()
        return _skip_space(self._data, at + 1)

    def _read_member(self, key: bytes | None, at: int) -> int:
        if key == self._settings.text_key:
            self._key_seen = True
            if not self._split:
                return self._read_text(at)
        elif key in self._settings.carry:
            return self._read_carried(key, at)
        return self._whole_string(at).end if self._peek(at) == b'"' else self._read_value(at)

    def _read_text(self, at: int) -> int:
        self._text, self._dropped, self._lone = None, False, False
        if self._peek(at) != b'"':
            return self._read_value(at)
        string = _read_string(self._data, at)
        ends = piece_ends(string.text, self._settings.max_document_bytes)
        self._lone = string.lone_surrogates
        if len(ends) > 1 and self._settings.drop_oversize:
            self._dropped = True
        else:
            self._emit_pieces(string, ends)
        if not string.whole:
            self.fail()
        return string.end

    def _emit_pieces(self, string: _String, ends: list[int]) -> None:
        nulls = (None,) * len(self._settings.carry)
        begin = 0
        for end in ends[:-1]:
            self._reading.rows.append(Row(string.text[begin:end], self._start, nulls))
            self._start = self._base + string.places[end]
            self._split = True
            begin = end
        self._text = string.text[begin:]

    def _read_carried(self, key: bytes, at: int) -> int:
        if self._peek(at) == b'"':
            string = self._whole_string(at)
            carried, end = string.text, string.end
        else:
            end = self._read_value(at)
            carried = self._data[at:end]
        is_null = carried == b"null" and self._peek(at) != b'"'
        if len(carried) > self._settings.max_document_bytes:
            self.fail()
        self._carried[key] = None if is_null else carried
        return end

    def _whole_string(self, at: int) -> _String:
        if self._peek(at) != b'"':
            self.fail()
        string = _read_string(self._data, at)
        if not string.whole:
            self.fail()
        return string

    def _read_value(self, at: int) -> int:
        """Any value that is only validated; the record itself is the first level."""
        try:
            # One character for each byte, so that places agree.
            _, end = _DECODER.raw_decode(self._data.decode("latin-1"), at)
        except (ValueError, RecursionError):
            self.fail()
        structure = _STRING.sub(b"", self._data[at:end])
        steps = ((byte in b"[{") - (byte in b"]}") for byte in structure)
        if max(accumulate(steps, initial=1)) > _MAX_DEPTH:
            self.fail()
        return end
