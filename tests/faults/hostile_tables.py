"""Hostile CSV, Parquet and Arrow: for `krill preprocess`."""

from __future__ import annotations

import datetime
import decimal
import struct
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet as pq
from hostile import Case, preprocess
from hostile_text import GOOD

STAR: dict[str, Any] = {"dataset": {"columns": "*"}, "config": {"output": "text", "rejected": True}}
WHOLE = pa.table({"text": GOOD})


def cases() -> Iterator[Case]:
    yield from _csv()
    yield from _columns()
    yield from _parquet_forms()
    yield from _parquet_damaged()
    yield from _arrow_forms()
    yield from _arrow_damaged()


def _csv() -> Iterator[Case]:
    rows = "".join(f"{at},{text}\n" for at, text in enumerate(GOOD)).encode()
    head = b"id,text\n"
    kinds: dict[str, bytes] = {
        "quote-that-never-ends": head + b'1,"abc\n' + rows * 200,
        "quote-in-the-middle": head + b'1,ab"c"d\n' + rows,
        "quotes-doubled": head + b'1,"a ""b"" c"\n' + rows,
        "quote-then-text": head + b'1,"abc"def\n' + rows,
        "only-quotes": b'"' * 1_000_001,
        "nul": head + b"1,a\0b\n" + rows,
        "nul-in-the-header": b"id\0,text\n" + rows,
        "newlines-in-fields": head + b'1,"a\nb\r\nc\rd"\n' * 5000,
        "duplicate-names": b"text,text\n" + rows,
        "empty-header": b"\n" + rows,
        "empty-names": b",,\n" + rows,
        "header-alone": head,
        "header-alone-without-a-newline": b"id,text",
        "header-that-never-ends": b"text," * 3_000_000,
        "one-column": b"text\n" + b"abcdefgh\n" * 100,
        "semicolons": b"id;text\n" + rows.replace(b",", b";"),
        "ragged-short": head + b"1\n" + rows,
        "ragged-long": head + b"1,2,3,4\n" + rows,
        "empty-rows": head + b"\n\n\n" + rows + b"\n\n",
        "only-commas": b"," * 500_000,
        "only-newlines": b"\n" * 500_000,
        "carriage-returns-alone": (head + rows).replace(b"\n", b"\r"),
        "field-of-ten-megabytes": head + b"1," + b"word " * 2_000_000 + b"\n" + rows,
        "quoted-field-of-ten-megabytes": head + b'1,"' + b'w""\n' * 2_500_000 + b'"\n' + rows,
        "byte-order-mark": b"\xef\xbb\xbf" + b"text,id\n" + b"".join(b"%s,1\n" % t.encode() for t in GOOD),
        "utf-16": (head + rows).decode().encode("utf-16"),
        "invalid-utf8": head + b"1,\xff\xfe\xfa\n" + rows,
        "no-final-newline": head + rows[:-1],
        "formulas": head + b"1,=cmd|' /C calc'!A0\n" + rows,
        "header-with-escapes": b"\x1b[31mid,text\n" + rows,
        "sep-line": b"sep=;\nid;text\n" + rows.replace(b",", b";"),
        "rows-of-one-byte": b"text\n" + b"a\n" * 300_000,
    }
    for name, content in kinds.items():
        yield preprocess(f"csv-{name}", "input.csv", content, 0, 2, 3, 4)
        tabs = content.replace(b",", b"\t")
        if len(content) < 100_000:
            yield preprocess(f"tsv-{name}", "input.tsv", tabs, 0, 2, 3, 4)
            yield preprocess(f"csv-{name}-carried", "input.csv", content, 0, 2, 3, 4, **STAR)


def _of_every_type() -> dict[str, pa.Array]:
    day = datetime.datetime(2024, 2, 29)
    strings = pa.array(["one", None, "three"] * 7)
    run_ends = pa.RunEndEncodedArray.from_arrays(pa.array([3, 21], pa.int32()), pa.array(["a", "b"]))
    return {
        "null": pa.nulls(21),
        "bool": pa.array([True, None, False] * 7),
        "float16": pa.array([1.5] * 21, pa.float16()),
        "decimal": pa.array([decimal.Decimal("1.23")] * 21, pa.decimal256(70, 2)),
        "timestamp": pa.array([day] * 21, pa.timestamp("ns", "Europe/Berlin")),
        "timestamp-in-no-zone": pa.array([day] * 21, pa.timestamp("us", "Nowhere/At all")),
        "duration": pa.array([1] * 21, pa.duration("ns")),
        "binary": pa.array([b"\xff\xfe"] * 21),
        "binary-that-is-text": pa.array([b"some text here"] * 21),
        "large-binary": pa.array([b"\x00\xff"] * 21, pa.large_binary()),
        "fixed-size-binary": pa.array([b"abcd"] * 21, pa.binary(4)),
        "fixed-size-binary-of-nothing": pa.array([b""] * 21, pa.binary(0)),
        "string": strings,
        "large-string": strings.cast(pa.large_string()),
        "string-view": strings.cast(pa.string_view()),
        "binary-view": pa.array([b"a long value that is not inline"] * 21, pa.binary_view()),
        "dictionary": strings.dictionary_encode(),
        "dictionary-of-numbers": pa.array([1, 2, 3] * 7).dictionary_encode(),
        "dictionary-of-dictionaries": pa.DictionaryArray.from_arrays(
            pa.array([0, 1, 0] * 7, pa.int8()), pa.array(["a", "b"]).dictionary_encode()
        ),
        "list": pa.array([["a", None], [], None] * 7),
        "large-list": pa.array([["a"], []] * 10 + [None], pa.large_list(pa.string())),
        "fixed-size-list-of-nothing": pa.array([[]] * 21, pa.list_(pa.int8(), 0)),
        "fixed-size-list-with-nulls": pa.array([["a", None], None, ["b", "c"]] * 7, pa.list_(pa.string(), 2)),
        "struct-of-fixed-size-lists": pa.array(
            [{"a": [1]}, None, {"a": None}] * 7, pa.struct({"a": pa.list_(pa.int8(), 1)})
        ),
        "list-view": pa.array([[1], [2, 3], None] * 7, pa.list_view(pa.int32())),
        "struct": pa.array([{"text": "a", "b": 1}] * 21),
        "struct-of-nothing": pa.array([{}] * 21, pa.struct([])),
        "map": pa.array([[("k", 1)]] * 21, pa.map_(pa.string(), pa.int32())),
        "dense-union": pa.UnionArray.from_dense(
            pa.array([0, 1, 0] * 7, pa.int8()),
            pa.array([*range(7), *range(7), *range(7)], pa.int32()),
            [strings, pa.array(range(7))],
        ),
        "sparse-union": pa.UnionArray.from_sparse(
            pa.array([0, 1, 0] * 7, pa.int8()), [strings, pa.array(range(21))]
        ),
        "run-end-encoded": run_ends,
        "uuid": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16)] * 21, pa.binary(16))),
        "json-extension": pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a": 1}'] * 21)),
        "month-day-nano": pa.array([pa.scalar((1, 2, 3), pa.month_day_nano_interval())] * 21),
        "deeply-nested": _nested(60),
    }


def _nested(depth: int) -> pa.Array:
    array = pa.array(["x"] * 21)
    for _ in range(depth):
        array = pa.StructArray.from_arrays([array], ["a"])
    return array


def _columns() -> Iterator[Case]:
    """Every type of a column: as the text, and carried along."""
    writers: dict[str, Callable[[pa.Table, Path], object]] = {
        "parquet": pq.write_table,
        "arrow": _write_file,
    }
    for format, write in writers.items():
        for name, array in _of_every_type().items():
            text = pa.array([*GOOD, "last"])
            for role, table in (("text", {"text": array}), ("carried", {"text": text, "x": array})):
                made = pa.table(table)
                try:
                    # Into a folder of its own: where it fails, Arrow removes the file that it was given.
                    with TemporaryDirectory() as folder:
                        write(made, Path(folder, "tried"))
                except (pa.ArrowException, OSError):
                    continue  # a type that the format does not have
                more = STAR if role == "carried" else {}
                yield preprocess(
                    f"{format}-{role}-{name}", f"input.{format}", partial(write, made), 0, 3, 4, **more
                )


def _write_file(table: pa.Table, path: Path, **options: Any) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema, **options) as writer:
        writer.write_table(table, max_chunksize=7)


def _write_stream(table: pa.Table, path: Path, **options: Any) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema, **options) as writer:
        writer.write_table(table, max_chunksize=7)


def _parquet_forms() -> Iterator[Case]:
    def parquet(
        name: str,
        table: pa.Table | Callable[[], pa.Table],
        *numbers: int,
        kept: list[str] | None = None,
        **options: Any,
    ) -> Case:
        def write(path: Path) -> None:  # a large table is made when it is written
            pq.write_table(table() if callable(table) else table, path, **options)

        return preprocess(f"parquet-{name}", "input.parquet", write, *numbers, kept=kept)

    for codec in ("none", "snappy", "gzip", "brotli", "lz4", "zstd"):
        yield parquet(f"codec-{codec}", WHOLE, 0, kept=GOOD, compression=codec, data_page_version="2.0")
    for encoding in ("PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"):
        for version in ("1.0", "2.0"):
            yield parquet(
                f"encoding-{encoding.lower()}-pages-{version}", WHOLE, 0, kept=GOOD,
                column_encoding={"text": encoding}, use_dictionary=False, data_page_version=version,
            )  # fmt: skip
    yield parquet(
        "page-checksums-and-indices", WHOLE, 0, kept=GOOD, write_page_checksum=True, write_page_index=True
    )
    yield parquet("no-rows", WHOLE.slice(0, 0), 3)
    yield parquet("no-columns", pa.table({}), 3)
    yield parquet("only-nulls", pa.table({"text": pa.nulls(1000, pa.string())}), 0, 3)
    yield parquet("only-empty-texts", pa.table({"text": [""] * 100_000}), 0, 3)
    many = pa.table({"text": [f"text {at}" for at in range(3000)]})
    yield parquet("a-row-group-for-each-row", many, 0, 4, row_group_size=1)
    yield parquet("a-page-for-each-row", many, 0, 4, data_page_size=1, write_batch_size=1)
    twice = pa.Table.from_arrays([WHOLE["text"], WHOLE["text"]], names=["text", "text"])
    yield parquet("two-columns-of-one-name", twice, 0, 3)
    wide = pa.table({"text": ["a text"] * 3} | {f"c{at}": [at] * 3 for at in range(5000)})
    yield parquet("5000-columns-of-which-one-is-read", wide, 0, 4)
    named = pa.table(
        {"text": GOOD, "\x1b[31m": GOOD, "": GOOD, "position": GOOD, "a.b": GOOD, "\u202e": GOOD}
    )
    yield preprocess(
        "parquet-columns-with-hostile-names", "input.parquet", partial(pq.write_table, named), 0, 2, 3, **STAR
    )
    metadata = WHOLE.replace_schema_metadata({b"k" * 100: bytes(10_000_000), b"pandas": b"{not json"})
    yield parquet("metadata-of-ten-megabytes", metadata, 0, 4)
    yield parquet(
        "schema-that-is-not-one", WHOLE.replace_schema_metadata({b"ARROW:schema": b"AAAA////"}), 0, 3
    )
    yield parquet("one-value-of-five-megabytes", pa.table({"text": ["word " * 1_000_000]}), 0, 4)
    yield parquet(
        "a-dictionary-that-grows-five-hundredfold",
        lambda: pa.table({"text": ["word " * 40_000] * 500}),
        0,
        4,
        compression="zstd",
    )
    yield parquet(
        "nulls-that-compress-to-nothing",
        lambda: pa.table({"text": pa.nulls(5_000_000, pa.string())}),
        0,
        3,
        4,
    )


def _parquet_damaged() -> Iterator[Case]:
    sink = pa.BufferOutputStream()
    pq.write_table(WHOLE, sink, compression="none", use_dictionary=False)
    whole = sink.getvalue().to_pybytes()
    footer = struct.unpack("<I", whole[-8:-4])[0]
    start = len(whole) - 8 - footer
    kinds = {
        "magic-alone": b"PAR1",
        "two-magics": b"PAR1PAR1",
        "magics-and-a-length-of-nothing": b"PAR1" + bytes(4) + b"PAR1",
        "encrypted-footer": whole[:-4] + b"PARE",
        "encrypted-and-empty": b"PARE" + bytes(4) + b"PARE",
        "length-beyond-the-file": whole[:-8] + struct.pack("<I", 2**32 - 1) + b"PAR1",
        "length-of-two-gibibytes": whole[:-8] + struct.pack("<I", 2**31) + b"PAR1",
        "length-one-too-small": whole[:-8] + struct.pack("<I", footer - 1) + b"PAR1",
        "length-one-too-big": whole[:-8] + struct.pack("<I", footer + 1) + b"PAR1",
        "footer-of-zeros": whole[:start] + bytes(footer) + whole[-8:],
        "footer-of-ones": whole[:start] + b"\xff" * footer + whole[-8:],
        "footer-that-never-ends": whole[:start] + b"\x15\x02\x19" * (footer // 3 + 1) + whole[-8:],
        "footer-of-open-structs": whole[:start]
        + b"\x1c" * 1_000_000
        + struct.pack("<I", 1_000_000)
        + b"PAR1",
        "footer-of-endless-lists": whole[:start]
        + b"\x19\xfc\xff\xff\xff\xff\x0f" * 1000
        + struct.pack("<I", 7000)
        + b"PAR1",
        "data-of-zeros": b"PAR1" + bytes(start - 4) + whole[start:],
        "data-of-ones": b"PAR1" + b"\xff" * (start - 4) + whole[start:],
        "data-removed": b"PAR1" + whole[start:],
        "data-moved-by-one": b"PAR1\0" + whole[4:],
        "cut-in-half": whole[: len(whole) // 2],
        "something-behind": whole + b"behind",
        "twice": whole + whole,
    }
    for name, content in kinds.items():
        codes = (0, 3) if name == "twice" else (3,)
        yield preprocess(f"parquet-damaged-{name}", "input.parquet", content, *codes)


def _arrow_forms() -> Iterator[Case]:
    forms: dict[str, Callable[[Path], object]] = {
        "file": partial(_write_file, WHOLE),
        "stream": partial(_write_stream, WHOLE),
        "feather-1": lambda path: pa.feather.write_feather(WHOLE, str(path), version=1),
        "feather-2-lz4": lambda path: pa.feather.write_feather(WHOLE, str(path), compression="lz4"),
        "file-zstd": partial(_write_file, WHOLE, options=pa.ipc.IpcWriteOptions(compression="zstd")),
        "stream-lz4": partial(_write_stream, WHOLE, options=pa.ipc.IpcWriteOptions(compression="lz4")),
        "file-of-format-4": partial(
            _write_file, WHOLE, options=pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V4)
        ),
        "stream-of-the-oldest-framing": partial(
            _write_stream, WHOLE, options=pa.ipc.IpcWriteOptions(use_legacy_format=True)
        ),
    }
    for name, write in forms.items():
        kept = GOOD if name != "feather-1" else None
        yield preprocess(f"arrow-form-{name}", "input.arrow", write, *((0,) if kept else (0, 3)), kept=kept)
    yield preprocess("arrow-no-batches-in-a-file", "input.arrow", partial(_write_file, WHOLE.slice(0, 0)), 3)
    yield preprocess(
        "arrow-no-batches-in-a-stream", "input.arrow", partial(_write_stream, WHOLE.slice(0, 0)), 3
    )
    yield preprocess("arrow-no-columns", "input.arrow", partial(_write_stream, pa.table({})), 3)
    yield preprocess("arrow-delta-dictionaries", "input.arrow", _deltas, 0, 3)
    yield preprocess("arrow-empty-batches", "input.arrow", _empty_batches, 0)
    big = WHOLE.replace_schema_metadata({b"k": bytes(10_000_000)})
    yield preprocess("arrow-metadata-of-ten-megabytes", "input.arrow", partial(_write_stream, big), 0, 3, 4)

    def bomb(path: Path) -> None:
        _write_file(pa.table({"text": ["\0" * 3_000_000] * 30}), path, options=options)

    options = pa.ipc.IpcWriteOptions(compression="zstd")
    yield preprocess("arrow-compressed-zeros", "input.arrow", bomb, 0, 4)
    twice = pa.Table.from_arrays([WHOLE["text"], WHOLE["text"]], names=["text", "text"])
    yield preprocess("arrow-two-columns-of-one-name", "input.arrow", partial(_write_file, twice), 0, 3)


def _deltas(path: Path) -> None:
    schema = pa.schema({"text": pa.dictionary(pa.int32(), pa.string())})
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, schema, options=options) as writer:
        for size in range(1, len(GOOD)):
            array = pa.DictionaryArray.from_arrays(pa.array(range(size), pa.int32()), pa.array(GOOD[:size]))
            writer.write_batch(pa.record_batch([array], schema=schema))


def _empty_batches(path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, WHOLE.schema) as writer:
        for at in range(5000):
            rows = [{"text": GOOD[at // 100 % 20]}] if at % 100 == 0 else []
            writer.write_batch(pa.RecordBatch.from_pylist(rows, WHOLE.schema))


def _cut_between_batches() -> bytes:
    """The file form without its later batches, its mark of the end and its footer."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, WHOLE.schema) as writer:
        writer.write_table(WHOLE, max_chunksize=10)
        one = sink.tell()
        writer.write_table(WHOLE, max_chunksize=10)
    return sink.getvalue().to_pybytes()[:one]


def _arrow_damaged() -> Iterator[Case]:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, WHOLE.schema) as writer:
        writer.write_table(WHOLE)
    file = sink.getvalue().to_pybytes()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, WHOLE.schema) as writer:
        writer.write_table(WHOLE)
    stream = sink.getvalue().to_pybytes()
    footer = struct.unpack("<i", file[-10:-6])[0]
    kinds = {
        "magic-alone": b"ARROW1\0\0",
        "two-magics": b"ARROW1\0\0ARROW1",
        "footer-length-negative": file[:-10] + struct.pack("<i", -1) + b"ARROW1",
        "footer-length-beyond-the-file": file[:-10] + struct.pack("<i", 2**31 - 1) + b"ARROW1",
        "footer-of-zeros": file[: -10 - footer] + bytes(footer) + file[-10:],
        "footer-of-ones": file[: -10 - footer] + b"\xff" * footer + file[-10:],
        "body-removed": file[:8] + file[-10 - footer :],
        "file-cut-between-batches": _cut_between_batches(),
        "only-continuations": b"\xff\xff\xff\xff" * 10_000,
        "message-of-two-gibibytes": b"\xff\xff\xff\xff" + struct.pack("<i", 2**31 - 1) + bytes(100),
        "message-of-negative-length": b"\xff\xff\xff\xff" + struct.pack("<i", -8) + bytes(100),
        "end-at-once": b"\xff\xff\xff\xff" + bytes(4),
        "stream-without-its-schema": stream[stream.index(b"\xff\xff\xff\xff", 8) :],
        "stream-cut-in-the-body": stream[:-60],
        "stream-cut-in-the-metadata": stream[: stream.index(b"\xff\xff\xff\xff", 8) + 20],
        "two-streams": stream + stream,
        "feather-1-magic-alone": b"FEA1" + bytes(100) + b"FEA1",
        "zeros": bytes(100_000),
    }
    for name, content in kinds.items():
        # A file whose footer alone is damaged is still read whole, as a stream.
        numbers = (0, 3) if name.startswith(("two-streams", "body-removed", "footer")) else (3,)
        yield preprocess(f"arrow-damaged-{name}", "input.arrow", content, *numbers)
