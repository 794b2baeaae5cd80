"""JsonReader and TextReader: every rule by example, and both equal to the reference for whatever comes in."""

from __future__ import annotations

import gzip
import json
import random
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from krill import _native
from oracles.corpus import JsonSettings, Reading, Row, read_json, read_text
from properties import tried

SAMPLE = Path(__file__).parents[4] / "shared" / "data" / "docs_sample.jsonl.gz"
LINES = JsonSettings(b"text", (), 1_000_000, drop_oversize=False, skip_malformed=False, array=False)
ARRAY = replace(LINES, array=True)
SKIPPING = replace(LINES, skip_malformed=True)

Reader = _native.JsonReader | _native.TextReader


def json_reader(how: JsonSettings) -> _native.JsonReader:
    return _native.JsonReader(
        how.text_key,
        list(how.carry),
        how.max_document_bytes,
        how.drop_oversize,
        how.skip_malformed,
        how.array,
    )


def slices(offsets: Sequence[int], data: bytes, nulls: Sequence[int]) -> list[bytes | None]:
    return [None if null else data[offsets[i] : offsets[i + 1]] for i, null in enumerate(nulls)]


def carried_columns(rows: int, offsets, data, nulls, begins) -> list[list[bytes | None]]:
    """Columns that lie end to end."""
    assert len(offsets) == (len(begins) - 1) * (rows + 1) and begins[0] == 0 and begins[-1] == len(data)
    return [
        slices(
            offsets[at * (rows + 1) : (at + 1) * (rows + 1)].tolist(),
            data[begin : begins[at + 1]].tobytes(),
            nulls[at * rows : (at + 1) * rows].tolist(),
        )
        for at, begin in enumerate(begins[:-1].tolist())
    ]


def take(reader: Reader, into: Reading) -> None:
    offsets, data, nulls, starts, carried, counts = reader.take()
    assert offsets[0] == 0 and offsets[-1] == len(data)
    texts = slices(offsets.tolist(), data.tobytes(), nulls.tolist())
    columns = carried_columns(len(texts), *carried)
    values = zip(*columns, strict=True) if columns else [()] * len(texts)
    into.rows += [Row(*row) for row in zip(texts, starts.tolist(), values, strict=True)]
    for name, count in counts.items():
        into.counts[name] += count


def drive(reader: Reader, data: bytes, cuts: Iterable[int] = (), taking: bool = False) -> Reading:
    """Feeds `data` cut at `cuts`; with `taking`, takes after every feed."""
    reading = Reading()
    borders = [0, *sorted(cuts), len(data)]
    try:
        for begin, end in pairwise(borders):
            reader.feed(data[begin:end], begin)
            if taking:
                take(reader, reading)
        reader.finish()
    except _native.MalformedRecord as fault:
        reading.fault = fault.args[0]
    take(reader, reading)
    return reading


def read_lines(data: bytes, how: JsonSettings = LINES) -> Reading:
    return drive(json_reader(how), data)


def texts(reading: Reading) -> list[bytes | None]:
    return [row.text for row in reading.rows]


def fault_of(data: bytes, how: JsonSettings = LINES) -> tuple[int, int, str]:
    with pytest.raises(_native.MalformedRecord) as caught:
        reader = json_reader(how)
        reader.feed(data, 0)
        reader.finish()
    return caught.value.args


# ---- JSON Lines ----


def test_each_line_gives_its_text_and_where_its_object_begins() -> None:
    reading = read_lines(b'{"text": "one"}\n  {"id": 1, "text": "two"}\r\n\n \t\r\n{"text":"three"}')
    assert texts(reading) == [b"one", b"two", b"three"]
    assert [row.start for row in reading.rows] == [0, 18, 49]
    assert reading.counts["records"] == reading.counts["key_seen"] == 3


def test_a_byte_order_mark_is_skipped_at_the_beginning_only() -> None:
    assert read_lines(b'\xef\xbb\xbf{"text":"a"}').rows == [Row(b"a", 3)]
    assert fault_of(b'{"text":"a"}\n\xef\xbb\xbf{"text":"b"}')[:2] == (13, 13)
    assert fault_of(b"\xef\xbb") == (0, 0, "expected an object")


def test_a_mark_is_content_when_the_feed_does_not_begin_the_file() -> None:
    reader = json_reader(LINES)
    with pytest.raises(_native.MalformedRecord):
        reader.feed(b'\xef\xbb\xbf{"text":"a"}', 100)


def test_escapes_become_utf8() -> None:
    line = rb'{"text":"\"\\\/\b\f\n\r\t\u0041\u00e9\u20AC\ud83d\ude00\u0000"}'
    assert texts(read_lines(line)) == ['"\\/\b\f\n\r\tAé€😀\0'.encode()]


def test_lone_surrogates_are_removed_and_their_documents_counted() -> None:
    lines = [
        rb'{"text":"a\ud800b"}',
        rb'{"text":"\udc00\ud800\ud83d\ude00\ud83d"}',
        rb'{"text":"\ud83d\n\ude00"}',
        rb'{"text":"fine"}',
    ]
    reading = read_lines(b"\n".join(lines))
    assert texts(reading) == [b"ab", "😀".encode(), b"\n", b"fine"]
    assert reading.counts["surrogates_removed"] == 3


def test_bytes_that_are_not_utf8_pass_verbatim() -> None:
    assert texts(read_lines(b'{"text":"\xff\x80\xc3(\x7f"}')) == [b"\xff\x80\xc3(\x7f"]


def test_a_record_without_a_string_at_the_key_is_a_null_row() -> None:
    reading = read_lines(b'{}\n{"text":null}\n{"text":["x"]}\n{"a":{"text":"x"}}\n{"text":""}')
    assert texts(reading) == [None, None, None, None, b""]
    assert [row.start for row in reading.rows] == [0, 3, 17, 32, 51]
    assert reading.counts["not_text"] == 4
    assert reading.counts["key_seen"] == 3


def test_keys_are_compared_after_unescaping() -> None:
    assert texts(read_lines(rb'{"te\u0078t":"a"}')) == [b"a"]
    assert texts(read_lines(rb'{"te\ud800xt":"a"}')) == [None]
    assert texts(read_lines(b'{"text ":"a","tex":"b","":"c"}')) == [None]


def test_the_last_of_equal_keys_counts() -> None:
    assert texts(read_lines(b'{"text":"a","text":"b"}')) == [b"b"]
    assert texts(read_lines(b'{"text":"a","text":1}')) == [None]
    assert texts(read_lines(b'{"text":1,"text":"b"}')) == [b"b"]


def test_an_earlier_text_of_which_pieces_are_out_stays() -> None:
    how = replace(LINES, max_document_bytes=4)
    assert texts(read_lines(b'{"text":"abcdef","text":"x"}', how)) == [b"abcd", b"ef"]


@pytest.mark.parametrize(
    ("line", "at", "reason"),
    [
        (b"[1]", 0, "expected an object"),
        (b'"x"', 0, "expected an object"),
        (b"nul", 0, "expected an object"),
        (b"{", 1, "the record is cut off"),
        (b'{"text":"a', 10, "the record is cut off"),
        (b'{"text":"a\n"}', 10, "the record is cut off"),
        (b'{"text":\n"a"}', 8, "the record is cut off"),
        (b'{"text":"a"}}', 12, "unexpected bytes behind the object"),
        (b'{"text":"a"} {"text":"b"}', 13, "unexpected bytes behind the object"),
        (b'{"text":"a",}', 12, "expected a key"),
        (b"{,}", 1, "expected a key"),
        (b'{"a" 1}', 5, "expected `:`"),
        (b'{"a":}', 5, "expected a value"),
        (b'{"a":[1,]}', 8, "expected a value"),
        (b'{"a":[1 2]}', 8, "expected `,` or `]`"),
        (b'{"a":1 "b"}', 7, "expected `,` or `}`"),
        (b'{"a":tru}', 8, "expected a value"),
        (b'{"a":NaN}', 5, "expected a value"),
        (b'{"a":01}', 6, "expected `,` or `}`"),
        (b'{"a":-}', 6, "invalid number"),
        (b'{"a":1.}', 7, "invalid number"),
        (b'{"a":1e+}', 8, "invalid number"),
        (b'{"a":.5}', 5, "expected a value"),
        (b'{"a":"\t"}', 6, "control character in a string"),
        (rb'{"a":"\x"}', 7, "invalid escape"),
        (rb'{"a":"\u12g4"}', 10, "invalid escape"),
        (rb'{"a":"\ud800\u12"}', 16, "invalid escape"),
    ],
)
def test_a_fault_is_said_with_its_place(line: bytes, at: int, reason: str) -> None:
    before = b'{"text":"fine"}\n'
    assert fault_of(before + line) == (len(before), len(before) + at, reason)
    for cut in range(len(line)):
        reader = json_reader(LINES)
        with pytest.raises(_native.MalformedRecord) as caught:
            reader.feed(line[:cut], 0)
            reader.feed(line[cut:], cut)
            reader.finish()
        assert caught.value.args == (0, at, reason)


def test_a_malformed_record_is_a_value_error() -> None:
    assert issubclass(_native.MalformedRecord, ValueError)
    assert _native.MalformedRecord.__module__ == "krill._native"


def test_malformed_lines_are_skipped_and_counted_on_request() -> None:
    data = b'{"text":"a"}\n{"text":"b"\nnonsense {"text":"c"}\n{"text":"d"} x\n{"text":"e"}\n{"text":'
    reading = read_lines(data, SKIPPING)
    assert texts(reading) == [b"a", b"e"]
    assert reading.counts["malformed"] == 4
    assert reading.counts["records"] == 6


def test_pieces_emitted_before_a_fault_stay() -> None:
    reading = read_lines(b'{"text":"abcdefghij"} x\n{"text":"k"}', replace(SKIPPING, max_document_bytes=4))
    assert texts(reading) == [b"abcd", b"efgh", b"k"]
    assert reading.counts["malformed"] == 1


def test_512_levels_are_read_and_one_more_is_a_fault() -> None:
    def nested(levels: int) -> bytes:
        return b'{"a":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"

    assert texts(read_lines(nested(512))) == [None]
    assert fault_of(nested(513)) == (0, 516, "nested deeper than 512 levels")
    assert texts(drive(json_reader(ARRAY), b"[" + nested(512) + b"]")) == [None]


# ---- arrays ----


def test_the_objects_of_an_array_are_records_whatever_the_whitespace() -> None:
    reading = drive(json_reader(ARRAY), b' \n[\n {"text"\n:\n"a"\n}\n,\r\n{"text":"b"} ]\n ')
    assert reading.rows == [Row(b"a", 5), Row(b"b", 24)]
    assert drive(json_reader(ARRAY), b"[]").rows == []


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", (0, 0, "expected an array")),
        (b'{"text":"a"}', (0, 0, "expected an array")),
        (b"[", (1, 1, "the array is cut off")),
        (b'[{"text":"a"}', (13, 13, "the array is cut off")),
        (b'[{"text":"a"},', (14, 14, "the array is cut off")),
        (b'[{"text":"a"', (1, 12, "the record is cut off")),
        (b"[1]", (1, 1, "expected an object")),
        (b"[{},]", (4, 4, "expected an object")),
        (b"[{} {}]", (4, 4, "expected `,` or `]`")),
        (b"[{}] []", (5, 5, "unexpected bytes behind the array")),
        (b'[{"text":"\n"}]', (1, 10, "control character in a string")),
    ],
)
def test_faults_of_an_array_raise_even_when_skipping(data: bytes, fault: tuple[int, int, str]) -> None:
    assert fault_of(data, replace(ARRAY, skip_malformed=True)) == fault


# ---- carried columns ----


def test_carried_values_are_strings_unescaped_or_verbatim_json() -> None:
    line = rb'{"id":"a\n\u00e9","n": -1.5e3 ,"text":"t","o":{ "x" : [1, "\n"] },"b":true,"z":null}'
    how = replace(LINES, carry=(b"id", b"n", b"o", b"b", b"z", b"missing"))
    (row,) = read_lines(line, how).rows
    assert row.text == b"t"
    assert row.carried == ("a\né".encode(), b"-1.5e3", rb'{ "x" : [1, "\n"] }', b"true", None, None)


def test_the_last_of_equal_carried_keys_counts() -> None:
    how = replace(LINES, carry=(b"id",))
    lines = b'{"id":"a","id":2}\n{"id":[1],"id":null}\n{"id":null,"id":""}'
    assert [row.carried for row in read_lines(lines, how).rows] == [(b"2",), (None,), (b"",)]


def test_carried_values_stand_on_the_last_piece_of_a_split_document() -> None:
    how = replace(LINES, carry=(b"id",), max_document_bytes=4)
    for line in (b'{"id":7,"text":"abcdefghi"}', b'{"text":"abcdefghi","id":7}'):
        assert [row.carried for row in read_lines(line, how).rows] == [(None,), (None,), (b"7",)]


@pytest.mark.parametrize("value", [b'"abcdefghi"', b"123456789", b"[1,2,3,4]", rb'"abcdefgh\n"'])
def test_a_carried_value_above_the_limit_is_a_fault_of_its_record(value: bytes) -> None:
    how = replace(LINES, carry=(b"id",), max_document_bytes=8)
    fault = (0, 6, "a carried column is longer than max_document_bytes")
    assert fault_of(b'{"id":' + value + b"}", how) == fault
    assert fault_of(b'{"id":' + value + b"x", how) == fault
    reading = read_lines(b'{"id":' + value + b'}\n{"id":1}', replace(how, skip_malformed=True))
    assert [row.carried for row in reading.rows] == [(b"1",)]


# ---- oversize ----


def split_of(text: str, limit: int) -> list[bytes | None]:
    line = json.dumps({"text": text}).encode()
    pieces = texts(read_lines(line, replace(LINES, max_document_bytes=limit)))
    plain = drive(_native.TextReader(b"", limit, False), text.encode())
    assert texts(plain) == pieces
    return pieces


def test_a_document_is_cut_behind_its_last_paragraph_else_line_else_character() -> None:
    assert split_of("abcdefgh", 8) == [b"abcdefgh"]
    assert split_of("a\n\nb\n\nc\nd", 8) == [b"a\n\nb\n\n", b"c\nd"]
    assert split_of("a\nb\ncdefgh", 8) == [b"a\nb\n", b"cdefgh"]
    assert split_of("abcdefghi", 8) == [b"abcdefgh", b"i"]
    assert split_of("abcdefgé", 8) == [b"abcdefg", "é".encode()]
    assert split_of("abcde😀", 8) == [b"abcde", "😀".encode()]
    assert split_of("\n\n\n\n\n", 4) == [b"\n\n\n\n", b"\n"]


def test_a_break_that_crosses_the_limit_is_not_yet_one() -> None:
    assert split_of("abcdefg\n\nh", 8) == [b"abcdefg\n", b"\nh"]
    assert split_of("a\n\nefgh\n\nijk", 8) == [b"a\n\n", b"efgh\n\n", b"ijk"]


def test_pieces_start_where_their_first_character_is_written() -> None:
    line = rb'{"text":"ab\u000a\u000Acd\ud800efghijkl\u20acmno"}'
    reading = read_lines(line, replace(LINES, max_document_bytes=9))
    assert texts(reading) == [b"ab\n\n", b"cdefghijk", "l€mno".encode()]
    assert [row.start for row in reading.rows] == [0, line.index(b"cd"), line.index(b"l\\u20ac")]
    line = rb'{"text":"abc\n\ud800\ud83d\ude00def"}'
    reading = read_lines(line, replace(LINES, max_document_bytes=4))
    assert [row.start for row in reading.rows] == [0, line.index(rb"\ud83d"), line.index(b"def")]
    assert reading.counts["oversize_split"] == 1


def test_an_oversize_document_is_dropped_on_request() -> None:
    how = replace(LINES, max_document_bytes=4, drop_oversize=True, carry=(b"id",))
    lines = b'{"text":"abcde","id":1}\n{"text":"abcd","id":2}\n{"text":"abcde","text":"x"}\n'
    reading = read_lines(lines, how)
    assert reading.rows == [Row(b"abcd", 24, (b"2",)), Row(b"x", 47, (None,))]
    assert reading.counts["oversize"] == 1
    assert reading.counts["oversize_split"] == 0


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("make", [json_reader, None])
def test_a_huge_document_is_held_only_up_to_the_limit(
    make: Callable[[JsonSettings], Reader] | None, drop: bool
) -> None:
    limit, chunk = 100_000, b"some words \xc3\xa9 " * 2000
    how = replace(LINES, max_document_bytes=limit, drop_oversize=drop)
    reader = make(how) if make else _native.TextReader(b"", limit, drop)
    head = b'{"text":"'
    reader.feed(head, 0)
    offset, total = len(head), 0
    for _ in range(300):
        reader.feed(chunk, offset)
        offset += len(chunk)
        total += len(reader.take()[1])
        assert reader.pending_bytes <= limit
    assert total == 0 if drop else total > 299 * len(chunk) - limit


# ---- plain text ----


def test_documents_stand_between_separators_and_empty_ones_are_none() -> None:
    data = b"\xef\xbb\xbf--one--two----\nthree\x00\xff-"
    reading = drive(_native.TextReader(b"--", 100, False), data)
    assert reading.rows == [Row(b"one", 5), Row(b"two", 10), Row(b"\nthree\x00\xff-", 17)]
    assert reading.counts["records"] == reading.counts["key_seen"] == 3


def test_without_a_separator_a_file_is_one_document() -> None:
    assert drive(_native.TextReader(b"", 100, False), b"a\n\nb").rows == [Row(b"a\n\nb", 0)]
    assert drive(_native.TextReader(b"", 100, False), b"").rows == []
    assert drive(_native.TextReader(b"", 100, False), b"\xef\xbb").rows == [Row(b"\xef\xbb", 0)]


def test_a_separator_that_overlaps_itself_is_found_leftmost_first() -> None:
    for data in (b"xaabaabaaby", b"aaabaab", b"aabaaabaabaa"):
        for cuts in (range(0), range(1, len(data))):
            reading = drive(_native.TextReader(b"aabaab", 100, False), data, cuts)
            assert texts(reading) == [piece for piece in data.split(b"aabaab") if piece]


# ---- the calls ----


def test_a_json_reader_is_complete_between_records_only() -> None:
    reader = json_reader(LINES)
    said = []
    for offset, byte in enumerate(b' {"text":"a"} \n'):
        said.append(reader.complete)
        reader.feed(bytes([byte]), offset)
    assert said == [True, True, *[False] * 13]
    assert reader.complete
    reader = json_reader(ARRAY)
    said = []
    for offset, byte in enumerate(b"[{} ,{}]"):
        said.append(reader.complete)
        reader.feed(bytes([byte]), offset)
    assert said == [True, True, False, True, True, True, False, True]


def test_a_text_reader_is_complete_when_no_document_is_open() -> None:
    reader = _native.TextReader(b"--", 100, False)
    said = []
    for offset, byte in enumerate(b"-a---"):
        said.append(reader.complete)
        reader.feed(bytes([byte]), offset)
    assert said == [True, False, False, False, True]
    assert not reader.complete


def test_taking_leaves_the_open_record_inside() -> None:
    reader = json_reader(replace(LINES, carry=(b"id",)))
    reader.feed(b'{"text":"a"}\n{"id":"some","text":"bc', 0)
    assert reader.pending_bytes == 7
    first = Reading()
    take(reader, first)
    assert first.rows == [Row(b"a", 0, (None,))]
    assert reader.pending_bytes == 6
    reader.feed(b'd"}\n', 36)
    second = Reading()
    take(reader, second)
    assert second.rows == [Row(b"bcd", 13, (b"some",))]
    assert reader.pending_bytes == 0


def test_a_finished_reader_is_complete() -> None:
    for data in (b"", b'{"text":"a"}', b'{"text":"a', b'nonsense\n{"text":"a"}', b"\xef\xbb"):
        reader = json_reader(SKIPPING)
        reader.feed(data, 0)
        reader.finish()
        assert reader.complete


def test_an_empty_take_has_no_rows() -> None:
    offsets, data, nulls, starts, carried, counts = json_reader(LINES).take()
    assert (offsets.tolist(), len(data), len(nulls), len(starts)) == ([0], 0, 0, 0)
    assert [part.tolist() for part in carried] == [[], [], [], [0]]
    assert set(counts.values()) == {0}


def test_any_buffer_can_be_fed() -> None:
    for buffer in (bytearray(b"abc"), memoryview(b"abc"), memoryview(b"xabcx")[1:4]):
        reader = _native.TextReader(b"", 100, False)
        reader.feed(buffer, 7)
        reader.finish()
        assert reader.take()[1].tobytes() == b"abc"


def test_calls_out_of_order_are_refused() -> None:
    reader = json_reader(LINES)
    reader.feed(b"\n", 5)
    with pytest.raises(ValueError, match="continue the previous"):
        reader.feed(b"\n", 7)
    reader.feed(b"\n", 6)
    reader.finish()
    with pytest.raises(RuntimeError, match="finished or failed"):
        reader.feed(b"\n", 7)
    with pytest.raises(RuntimeError, match="finished or failed"):
        reader.finish()


def test_nothing_is_read_after_a_fault_but_what_came_before_can_be_taken() -> None:
    reader = json_reader(LINES)
    with pytest.raises(_native.MalformedRecord):
        reader.feed(b'{"text":"a"}\nx', 0)
    with pytest.raises(RuntimeError, match="finished or failed"):
        reader.feed(b"\n", 14)
    assert reader.take()[1].tobytes() == b"a"


def test_settings_that_can_not_work_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 4"):
        json_reader(replace(LINES, max_document_bytes=3))
    with pytest.raises(ValueError, match="at least 4"):
        _native.TextReader(b"", 0, False)
    with pytest.raises(ValueError, match="too large"):
        _native.TextReader(b"", 2**63, False)
    with pytest.raises(ValueError, match="must differ"):
        json_reader(replace(LINES, carry=(b"text",)))
    with pytest.raises(ValueError, match="must differ"):
        json_reader(replace(LINES, carry=(b"a", b"a")))


def test_readers_work_side_by_side_in_threads() -> None:
    data = b"".join(b'{"text":"line %d"}\n' % n for n in range(20_000))
    readings: list[Reading] = []

    def work() -> None:
        readings.append(drive(json_reader(LINES), data, range(0, len(data), 4096), taking=True))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(reading.rows) for reading in readings] == [20_000, 20_000]
    assert readings[0].rows == readings[1].rows


# ---- equality with the reference ----

limits = st.integers(4, 64)
bits = st.booleans()
seeds = st.randoms(use_true_random=False)
json_settings = st.builds(
    JsonSettings,
    st.sampled_from([b"text", b""]),
    st.sampled_from([(), (b"id",), (b"id", b"n")]),
    limits,
    bits,
    bits,
    bits,
)
raw_strings = st.lists(
    st.one_of(
        st.sampled_from(
            [rb"\n", rb"\n\n", rb"\u000a", rb"\ud83d\ude00", rb"\ud800", rb"\udc00", rb"\uD83D", rb"\""]
        ),
        st.sampled_from(
            [
                "é".encode(),
                "€".encode(),
                "😀".encode(),
                b"\xff",
                b"\x80",
                b"\xe2\x82",
                b"words of text",
                b"\\",
            ]
        ),
        st.binary(min_size=1, max_size=3).filter(lambda raw: not set(raw) & {*b'"\\', *range(32)}),
    ),
    max_size=30,
).map(lambda parts: b'"' + b"".join(parts) + b'"')
spaces = st.sampled_from([b"", b" ", b"\t", b" \r", b"\n"])
scalars = st.sampled_from(
    [b"null", b"true", b"false", b"0", b"-1", b"12.5e-3", b"1E9", b"01", b"nul", b"-", b"NaN", b"1."]
)
values = st.recursive(
    st.one_of(raw_strings, scalars),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: b"[" + b", ".join(items) + b"]")
        | st.lists(st.tuples(raw_strings, inner), max_size=3).map(
            lambda pairs: b"{" + b",".join(key + b" :" + value for key, value in pairs) + b"}"
        )
    ),
    max_leaves=4,
)
keys = st.sampled_from([b'"text"', b'"id"', b'"n"', b'""', rb'"te\u0078t"', b'"other"', rb'"id\ud800"'])
texts_or_values = st.one_of(raw_strings, raw_strings, values)


@st.composite
def records(draw: st.DrawFn) -> bytes:
    members = draw(st.lists(st.tuples(keys, spaces, texts_or_values, spaces), max_size=5))
    inside = b",".join(key + left + b":" + value + right for key, left, value, right in members)
    return draw(spaces) + b"{" + inside + b"}" + draw(spaces)


@st.composite
def json_files(draw: st.DrawFn) -> tuple[JsonSettings, bytes]:
    how = draw(json_settings)
    items = draw(st.lists(st.one_of(records(), records(), records(), values), max_size=5))
    data = b"[" + b",".join(items) + b"]" if how.array else b"\n".join(items)
    if draw(st.integers(0, 3)) == 0 and data:  # damage it
        at = draw(st.integers(0, len(data) - 1))
        data = data[:at] + draw(st.binary(max_size=2)) + data[at + draw(st.integers(0, 3)) :]
    return how, draw(st.sampled_from([b"", b"", b"\xef\xbb\xbf", b"\xef\xbb"])) + data


def random_cuts(chance: random.Random, size: int) -> list[int]:
    return [chance.randint(0, size) for _ in range(chance.choice([0, 1, 3, size]))]


def assert_starts_rise(reading: Reading) -> None:
    starts = [row.start for row in reading.rows]
    assert all(a < b for a, b in pairwise(starts))


@tried(60)
@given(json_files(), seeds, bits)
def test_json_is_read_as_the_reference_reads_it_however_it_is_fed(
    file: tuple[JsonSettings, bytes], chance: random.Random, taking: bool
) -> None:
    how, data = file
    reading = drive(json_reader(how), data, random_cuts(chance, len(data)), taking)
    assert reading == read_json(data, how)
    assert_starts_rise(reading)


@tried(160)
@given(
    st.lists(
        st.sampled_from(
            [b"a", b"ab", b"\n", b"\n\n", b"-", b"--", "é€😀".encode(), b"\x80", b"\xef\xbb\xbf"]
        ),
        max_size=60,
    ),
    st.sampled_from([b"", b"-", b"--", b"---", b"aba", b"\n\n", b"-a-", b"\xef"]),
    limits,
    bits,
    seeds,
    bits,
)
def test_text_is_read_as_the_reference_reads_it_however_it_is_fed(
    parts: list[bytes], separator: bytes, limit: int, drop: bool, chance: random.Random, taking: bool
) -> None:
    data = b"".join(parts)
    reading = drive(_native.TextReader(separator, limit, drop), data, random_cuts(chance, len(data)), taking)
    assert reading == read_text(data, separator, limit, drop)
    assert_starts_rise(reading)


def refuse_constant(name: str) -> None:
    raise ValueError(name)


def is_object(line: bytes) -> bool:
    """Python's own word on one line, one character for each byte."""
    try:
        return isinstance(json.loads(line.decode("latin-1"), parse_constant=refuse_constant), dict)
    except ValueError:
        return False


def accepts(line: bytes) -> bool:
    return read_lines(line).fault is None


words = b'{ } [ ] , : " "" "a" \\ u 00e9 0 1 - + . e E true false null NaN Infinity'
fragments = st.sampled_from([*words.split(), b" ", b"\t", b"\r", b"\x0b", b"\xa0", b"\x00", b"\xff"])


@tried(200)
@given(st.lists(fragments, min_size=1, max_size=12).map(b"".join))
def test_garbage_is_accepted_where_python_accepts_it(garbage: bytes) -> None:
    for line in (
        b'{"a":' + garbage + b"}",
        b"{" + garbage + b"}",
        b"x" + garbage,
        b'{"a":"' + garbage + b'"}',
    ):
        assert accepts(line) == is_object(line)


@tried(50)
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
    st.text(),
    bits,
)
def test_what_python_writes_is_read_back(other: object, text: str, ascii_only: bool) -> None:
    line = json.dumps({"other": other, "text": text}, ensure_ascii=ascii_only).encode()
    assert texts(read_lines(line)) == [text.encode()]


@pytest.mark.skipif(not SAMPLE.exists(), reason="the shared sample is not here")
def test_real_documents_come_out_as_python_reads_them() -> None:
    data = gzip.decompress(SAMPLE.read_bytes())[:6_000_000]
    data = data[: data.rindex(b"\n") + 1]
    how = replace(LINES, carry=(b"id",))
    records_ = [json.loads(line) for line in data.splitlines()]
    reading = drive(json_reader(how), data, range(0, len(data), 65_521), taking=True)
    assert [(row.text, row.carried[0]) for row in reading.rows] == [
        (record["text"].encode(), record["id"].encode()) for record in records_
    ]
    split = drive(json_reader(replace(how, max_document_bytes=2_000)), data)
    assert split.counts["oversize_split"] == sum(len(record["text"].encode()) > 2_000 for record in records_)
    assert b"".join(row.text or b"" for row in split.rows) == b"".join(
        row.text or b"" for row in reading.rows
    )
