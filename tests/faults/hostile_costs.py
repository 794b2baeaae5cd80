"""Inputs that are small and cost much, if whoever reads them is careless: work that grows with the square of
their size, and counts that nothing bounds.
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import struct
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import zstandard
from hostile import FAULTS, Case, preprocess, save, settings, words
from hostile_text import GOOD, WHOLE

STAR: dict[str, Any] = {"dataset": {"columns": "*"}, "config": {"output": "text"}}


def cases() -> Iterator[Case]:
    yield from _separators()
    yield from _configs()
    yield from _frames()
    yield from _tables()
    yield from _records()
    yield from _tags()


def _separators() -> Iterator[Case]:
    kinds = {
        "alike-but-for-its-end": ("a" * 499_999 + "b", b"a" * 5_000_000),
        "alike-but-for-its-beginning": ("b" + "a" * 499_999, b"a" * 5_000_000),
        "that-overlaps-a-hundred-times": ("a" * 1000, b"a" * 5_000_000),
        "that-overlaps-itself-always": ("a" * 50_000, b"a" * 5_000_000),
        "of-pairs-that-overlap": ("ab" * 500, b"ab" * 2_500_000),
        "of-halves-that-overlap": ("a" * 300 + "b" + "a" * 300, (b"a" * 300 + b"b") * 20_000),
        "of-a-megabyte-that-is-there": ("x" * 1_000_000 + "y", b"text" + b"x" * 1_000_000 + b"y" + b"more"),
    }
    for name, (separator, content) in kinds.items():
        for form, compress in (("txt", bytes), ("txt.gz", gzip.compress)):
            yield preprocess(
                f"separator-{name}-in-{form}",
                f"input.{form}",
                lambda path, content=content, compress=compress: path.write_bytes(compress(content)),
                dataset={"separator": separator},
                config={"unit_bytes": 1_000_000, "max_document_bytes": 500_000},
            )
        yield preprocess(
            f"separator-{name}-sliced",
            "input.txt",
            content,
            dataset={"separator": separator, "split": "train[:50%]"},
        )


def _configs() -> Iterator[Case]:
    some = [f"word{at}" for at in range(60_000)]
    plain = settings()
    kinds: dict[str, Any] = {
        "thirty-thousand-datasets": {**plain, "datasets": [{"path": "absent.jsonl"}] * 30_000},
        "sixty-thousand-stop-words": settings(filters=[{"gopher_quality": {"stop_words": some}}]),
        "sixty-thousand-columns": settings([{"path": "input.jsonl", "columns": some}], output="text"),
        "sixty-thousand-special-tokens": {
            **plain, "tokenizer": {"path": "t", "vocab_size": 70_000, "special_tokens": some}
        },
        "sixty-thousand-patterns": settings(filters=[{"blocklist": {"patterns": some}}]),
        "sixty-thousand-expressions": settings(
            filters=[{"blocklist": {"patterns": [f"{word}[ab]" for word in some]}}]
        ),
        "sixty-thousand-languages": settings(filters=[{"language": {"allow": some}}]),
        "sixty-thousand-files-against": settings(dedup={"method": "exact", "against": some}),
        "ten-thousand-ngrams": settings(
            filters=[{"gopher_repetition": {"dup_n_grams": [[at % 99 + 1, 0.5] for at in range(10_000)]}}]
        ),
        "sixty-thousand-stop-characters": settings(filters=[{"fineweb": {"stop_chars": some}}]),
    }  # fmt: skip
    for name, config in kinds.items():

        def make(folder: Path, config: object = config) -> None:
            (folder / "input.jsonl").write_bytes(WHOLE)
            save(folder, config)

        for verb in ("preprocess", "estimate"):
            yield Case(f"many-{name}-{verb}", make, words(verb, "config.yaml"), FAULTS | {0})
    numbers = {
        "hexadecimal": "0x" + "f" * 50_000, "binary": "0b" + "1" * 50_000, "octal": "0" + "7" * 50_000,
        "sexagesimal": ":".join(["59"] * 50_000), "underscores": "1" + "_" * 50_000,
        "float": "1." + "0" * 50_000, "exponent": "1e" + "9" * 5000, "minus": "-0x" + "f" * 9000,
    }  # fmt: skip
    places = ("seed", "memory", "threads", "preprocess.sequence_len", "preprocess.split.validation",
        "datasets.0.split",
              "preprocess.filters", "disk")  # fmt: skip
    for at, (name, number) in enumerate(numbers.items()):
        for key in (places[at], places[(at + 3) % len(places)]):

            def write(folder: Path, key: str = key, number: str = number) -> None:
                (folder / "input.jsonl").write_bytes(WHOLE)
                *sections, last = key.split(".")
                text = "".join(f"{'  ' * depth}{word}:\n" for depth, word in enumerate(sections))
                text += f"{'  ' * len(sections)}{last}: {number}\n"
                (folder / "config.yaml").write_text(text)

            yield Case(f"number-{name}-as-{key}", write, words("preprocess", "config.yaml"), FAULTS)
            typed = [*words("preprocess", "config.yaml"), "--set", f"{key}={number}"]

            def whole(folder: Path) -> None:
                (folder / "input.jsonl").write_bytes(WHOLE)
                save(folder, settings())

            yield Case(f"number-{name}-set-as-{key}", whole, typed, FAULTS | {0})
    for name, split in {
        "underscore": "train[_:]", "underscores": "train[1__0:]", "digits": f"train[:{'9' * 5000}]",
        "other-digits": "train[:\u0661\u0662]", "other-percent": "train[:\u0663%]", "minus": "train[--1:]",
        "minus-alone": "train[-:]", "both-negative": "train[-3:-9]", "a-megabyte": "t" * 900_000,
        "percent-below": "train[-200%:]",
    }.items():  # fmt: skip
        yield preprocess(f"split-notation-{name}", "input.jsonl", WHOLE, dataset={"split": split})


def _tags() -> Iterator[Case]:
    """Texts that are not what their tag says."""
    texts = {
        "bool": "preprocess: {strip: !!bool maybe}\n", "int-of-nothing": 'seed: !!int ""\n',
        "float-of-nothing": 'seed: !!float ""\n', "timestamp": "seed: !!timestamp now\n",
        "timestamp-beyond": "seed: !!timestamp 9999-99-99\n", "null-of-text": "seed: !!null text\n",
        "sexagesimal-float": "seed: " + "1:" * 20_000 + "1.5\n", "int-of-points": "seed: !!int ...\n",
        "bool-as-a-key": "? !!bool maybe\n: 1\n", "merge-of-a-number": "preprocess: {<<: 5}\n",
        "value-key": "preprocess: {=: 5}\n", "pairs": "preprocess: !!pairs [a: 1, a: 2]\n",
    }  # fmt: skip
    for name, text in texts.items():

        def make(folder: Path, text: str = text) -> None:
            (folder / "input.jsonl").write_bytes(WHOLE)
            (folder / "config.yaml").write_text(text)

        yield Case(f"tag-{name}", make, words("preprocess", "config.yaml"), FAULTS)


def _frames() -> Iterator[Case]:
    empty = struct.pack("<II", 0x184D2A50, 0)
    zst = zstandard.compress(WHOLE)
    yield preprocess(
        "zst-half-a-million-empty-frames", "input.jsonl.zst",
        lambda path: path.write_bytes(empty * 500_000 + zst), 0
    )  # fmt: skip
    yield preprocess(
        "zst-only-empty-frames", "input.jsonl.zst", lambda path: path.write_bytes(empty * 500_000), 3
    )
    wide = zstandard.ZstdCompressor(
        compression_params=zstandard.ZstdCompressionParameters(window_log=27, enable_ldm=True)
    )
    yield preprocess(
        "zst-second-frame-of-a-large-window", "input.txt.zst",
        lambda path: path.write_bytes(zst + wide.compress(bytes(150_000_000))), 0, 3, 4, memory="200MB",
        seconds=120,
    )  # fmt: skip
    for name, records in {"two-to-62": 2**62, "a-million": 10**6, "none": 0}.items():
        content = _xz_with_index(records)
        yield preprocess(f"xz-index-of-{name}-records", "input.jsonl.xz", content, 0, 3, 4, seconds=30)
    chains = {
        "delta": [{"id": lzma.FILTER_DELTA, "dist": 4}, {"id": lzma.FILTER_LZMA2, "preset": 1}],
        "x86": [{"id": lzma.FILTER_X86}, {"id": lzma.FILTER_LZMA2, "preset": 1}],
        "four": [{"id": lzma.FILTER_DELTA, "dist": 1}] * 3 + [{"id": lzma.FILTER_LZMA2, "preset": 1}],
        "largest-dictionary": [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 2**29}],
    }  # fmt: skip
    for name, filters in chains.items():
        yield preprocess(
            f"xz-filters-{name}", "input.jsonl.xz",
            lambda path, filters=filters: path.write_bytes(lzma.compress(WHOLE, filters=filters)), 0,
            kept=GOOD,
        )  # fmt: skip
    bare = zlib.compressobj(wbits=-15)
    deflated = bare.compress(WHOLE) + bare.flush()
    tail = struct.pack("<II", zlib.crc32(WHOLE), len(WHOLE))
    head = b"\x1f\x8b\x08\x1e" + bytes(6) + struct.pack("<H", 4) + b"abcd" + b"name\0" + b"comment\0"
    checked = head + struct.pack("<H", zlib.crc32(head) & 0xFFFF)
    yield preprocess(
        "gz-every-field-of-the-header", "input.jsonl.gz", checked + deflated + tail, 0, kept=GOOD
    )
    stored = zlib.compressobj(level=0, wbits=31)
    letters = (WHOLE[at : at + 1] for at in range(len(WHOLE)))
    blocks = b"".join(stored.compress(letter) + stored.flush(zlib.Z_FULL_FLUSH) for letter in letters)
    yield preprocess("gz-a-block-for-each-byte", "input.jsonl.gz", blocks + stored.flush(), 0, kept=GOOD)
    yield preprocess("gz-empty-blocks", "input.jsonl.gz", _empty_blocks, 0, kept=GOOD)
    yield preprocess("bz2-of-level-one", "input.jsonl.bz2", bz2.compress(WHOLE, 1), 0, kept=GOOD)


def _empty_blocks(path: Path) -> None:
    coder = zlib.compressobj(wbits=31)
    nothing = b"\x00\x00\x00\xff\xff"  # stored, of no bytes
    parts = [coder.compress(WHOLE), coder.flush(zlib.Z_FULL_FLUSH), nothing * 100_000, coder.flush()]
    path.write_bytes(b"".join(parts))


def _xz_with_index(records: int) -> bytes:
    """A whole file whose index states another number of blocks."""
    whole = lzma.compress(WHOLE)
    length = (struct.unpack_from("<I", whole, len(whole) - 8)[0] + 1) * 4
    stated, number = b"", records
    while number >= 0x80:
        stated, number = stated + bytes([number & 0x7F | 0x80]), number >> 7
    index = b"\0" + stated + bytes([number]) + whole[len(whole) - 12 - length + 2 : len(whole) - 12 - 4]
    index += bytes(-len(index) % 4)
    index += struct.pack("<I", zlib.crc32(index))
    fields = struct.pack("<I", len(index) // 4 - 1) + whole[-4:-2]
    footer = struct.pack("<I", zlib.crc32(fields)) + fields + b"YZ"
    return whole[: len(whole) - 12 - length] + index + footer


def _tables() -> Iterator[Case]:
    yield preprocess(
        "arrow-a-dictionary-for-each-batch", "input.arrow", partial(_dictionaries, batches=3000), 0, 4
    )
    wide = pa.table({"text": ["a text"] * 40} | {f"c{at}": [at] * 40 for at in range(3000)})
    for name, options in {"one-group": {}, "forty-groups": {"row_group_size": 1}}.items():
        write = partial(pq.write_table, wide, **options)
        yield preprocess(f"parquet-3000-columns-carried-{name}", "input.parquet", write, 0, 4, **STAR)
    nested = pa.array(["x"] * 3)
    for _ in range(400):
        nested = pa.StructArray.from_arrays([nested], ["a"])
    yield preprocess(
        "parquet-nested-400-deep", "input.parquet",
        lambda path: pq.write_table(pa.table({"text": ["a"] * 3, "x": nested}), path), 0, 3, 4, **STAR,
    )  # fmt: skip
    yield preprocess("parquet-forty-million-nulls", "input.parquet", _nulls, 0, 3, 4)
    yield preprocess(
        "parquet-one-text-for-a-million-rows", "input.parquet",
        lambda path: pq.write_table(pa.table({"text": ["x" * 100] * 1_000_000}), path), 0, 4,
        config={"output": "tokens", "sequence_len": 64, "dedup": "exact"},
    )  # fmt: skip
    lists = pa.array([[b"word " * 2000] * 2000] * 5)
    yield preprocess(
        "parquet-lists-that-unfold", "input.parquet",
        lambda path: pq.write_table(pa.table({"text": ["a"] * 5, "x": lists}), path), 0, 4, **STAR,
    )  # fmt: skip
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"text": GOOD}), sink)
    whole = sink.getvalue().to_pybytes()
    yield preprocess("parquet-in-a-file-of-a-gigabyte", "input.parquet", partial(_far, whole=whole), 3)
    yield preprocess(
        "csv-a-million-empty-columns", "input.csv",
        lambda path: path.write_bytes(b"text" + b"," * 1_000_000 + b"\n" + b"a" + b"," * 1_000_000 + b"\n"),
        0, 3, 4, **STAR,
    )  # fmt: skip
    yield preprocess(
        "csv-a-million-empty-columns-unread", "input.csv",
        lambda path: path.write_bytes(b"text" + b"," * 1_000_000 + b"\n" + b"a" + b"," * 1_000_000 + b"\n"),
        0, 3, 4,
    )  # fmt: skip
    yield preprocess(
        "csv-four-million-blank-lines", "input.csv", b"\n" * 4_000_000 + b"text\nabcdefgh\n", 0, 3
    )
    yield preprocess("csv-blank-lines-behind", "input.csv", b"text\nabcdefgh\n" + b"\r\n" * 2_000_000, 0, 3)


def _dictionaries(path: Path, batches: int) -> None:
    """A stream that replaces its dictionary with every batch."""
    schema = pa.schema({"text": pa.dictionary(pa.int32(), pa.string())})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
        for at in range(batches):
            words = pa.array([f"{GOOD[at % 20]} number {at}"])
            array = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), words)
            writer.write_batch(pa.record_batch([array], schema=schema))


def _nulls(path: Path) -> None:
    table = pa.table({"text": pa.nulls(2_000_000, pa.string())})
    with pq.ParquetWriter(path, table.schema) as writer:
        for _ in range(20):
            writer.write_table(table)


def _far(path: Path, whole: bytes) -> None:
    """Its pages are where they were, the footer is a gigabyte away, and nothing is between."""
    length = struct.unpack("<I", whole[-8:-4])[0] + 8
    with path.open("wb") as file:
        file.write(b"PAR1")
        file.seek(10**9)
        file.write(whole[-length:])


def _records() -> Iterator[Case]:
    deep = b"[" * 300_000
    records = {
        "deep-without-text": b'{"a": ' + deep + b"]" * 300_000 + b"}",
        "deep-and-cut-without-text": b'{"a": ' + deep,
        "thousands-of-keys-without-text": json.dumps({f"key {at}": 1 for at in range(40_000)}).encode(),
        "a-key-of-a-megabyte-without-text": json.dumps({"k" * 1_000_000: 1}).encode(),
        "a-number-of-5000-digits-as-text": b'{"text": ' + b"1" * 5000 + b"}",
        "a-float-of-5000-digits-as-text": b'{"text": 1.' + b"1" * 5000 + b"}",
        "a-long-list-as-text": b'{"text": [' + b"[]," * 200_000 + b"1]}",
        "lists-that-take-much-memory": b'{"text": "a", "x": [' + b"[]," * 1_200_000 + b"1]}",
        "objects-that-take-much-memory": b'{"text": "a", "x": [' + b'{"a":[]},' * 400_000 + b"1]}",
        "keys-that-take-much-memory": b'{"text": "a", "x": {'
        + b",".join(b'"%d":0' % at for at in range(300_000)) + b"}}",
    }  # fmt: skip
    for name, record in records.items():
        for form, content in (("jsonl", record + b"\n"), ("json", b"[" + record + b"]")):
            yield preprocess(f"record-{name}-{form}", f"input.{form}", content, 0, 2, 3, 4)
            yield preprocess(f"record-{name}-{form}-carried", f"input.{form}", content, 0, 2, 3, 4, **STAR)
