"""Every input format of a corpus, read as `krill preprocess` reads it."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from fuzzing import Target
from krill.corpus import DatasetSource, Documents, open_corpus
from krill.corpus.arrays import as_numpy
from krill.text.clean import valid_text
from mutations import mutate_bytes

ROWS = 24
TEXTS = [
    *("a line of plain text, number one", "déjà vu 漢字 \U0001f600", "", 'with "quotes", commas\nand lines'),
    *(f"document {number}: " + "some words of it " * (number % 7) for number in range(ROWS - 5)),
    "the longest of them " * 40,
]


def check_corpus(case: Path, random: Random) -> None:
    """Read all files of a folder with settings by chance, and look at every value that comes out."""
    columns = random.choice([(), ("*",), ("*",)])
    if any(file.name.startswith("plain") for file in case.iterdir()):
        columns = ()
    split = random.choice(["train", "train", "train", "train[:10]", "train[20%:60%]"])
    corpus = open_corpus(
        [DatasetSource(str(case), split=split, columns=columns)],
        unit_bytes=random.choice([1 << 10, 1 << 14, 1 << 18, 32_000_000]),
        max_document_bytes=random.choice([50, 1000, 4_000_000]),
        drop_oversize=random.random() < 0.2,
        skip_malformed=random.random() < 0.5,
        default_separator=random.choice(["\n\n", "\n", ""]),
        batch_rows=random.choice([None, 3]),
    )
    corpus.carried()
    assert corpus.held_bytes >= 0
    last = -1
    for _, blocks in corpus.walk(lambda _: None):
        for block in blocks:
            last = _check(block.documents(), last)


def _check(documents: Documents, last: int) -> int:
    """What a batch promises: positions never fall, columns are valid, texts are once they are cleaned."""
    valid_text(documents.batch).validate(full=True)
    positions = as_numpy(documents.batch.column("position"), "uint64")
    if len(positions):
        assert int(positions[0]) >= last and (np.diff(positions.astype(np.int64)) >= 0).all()
        last = int(positions[-1])
    return last


def check_plain(case: Path, random: Random) -> None:
    """Plain text besides: what comes out stands in the file."""
    check_corpus(case, random)
    (file,) = case.iterdir()
    content = file.read_bytes()
    corpus = open_corpus(
        [DatasetSource(str(file), separator="\n")],
        unit_bytes=random.choice([1 << 10, 1 << 18]),
        max_document_bytes=4_000_000,
        drop_oversize=False,
        skip_malformed=False,
        default_separator="",
        batch_rows=None,
    )
    for _, blocks in corpus.walk(lambda _: None):
        for block in blocks:
            for text in block.documents().batch.column("text").cast(pa.large_binary()).to_pylist():
                assert text in content, text


def _json_lines() -> bytes:
    rows = ({"text": text, "n": number, "tags": [text[:3]], "o": {"a": None}} for number, text in _numbered())
    return b"".join(
        json.dumps(row, ensure_ascii=number % 2).encode() + b"\n" for number, row in enumerate(rows)
    )


def _json_array() -> bytes:
    rows = [{"text": text, "n": number, "o": {"a": [1, {}]}} for number, text in _numbered()]
    return json.dumps(rows, indent=1).encode()


def _delimited(delimiter: str) -> bytes:
    file = io.StringIO()
    writer = csv.writer(file, delimiter=delimiter)
    writer.writerow(["id", "text", "note"])
    writer.writerows([number, text, f"note {number}"] for number, text in _numbered())
    return file.getvalue().encode()


def _numbered() -> list[tuple[int, str]]:
    return list(enumerate(TEXTS))


PLAIN = {"plain.txt": "\n\n".join(TEXTS).encode()}
BYTE_FORMATS = {
    "a.jsonl": _json_lines(),
    "a.json": _json_array(),
    "a.csv": _delimited(","),
    "a.tsv": _delimited("\t"),
}
COMPRESSORS: Mapping[str, Callable[[bytes], bytes]] = {
    ".gz": lambda data: gzip.compress(data, mtime=0),
    ".zst": zstandard.ZstdCompressor().compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}


def _files(contents: Mapping[str, bytes]) -> Callable[[Path], Mapping[str, Sequence[str]]]:
    """A case for each content."""

    def make(folder: Path) -> Mapping[str, Sequence[str]]:
        for name, content in contents.items():
            (folder / name.replace(".", "-")).mkdir()
            (folder / name.replace(".", "-") / name).write_bytes(content)
        return {name.replace(".", "-"): [name] for name in contents}

    return make


def _compressed() -> Mapping[str, bytes]:
    contents = {**PLAIN, **BYTE_FORMATS}
    return {
        f"{name}{suffix}": compress(content)
        for name, content in contents.items()
        for suffix, compress in COMPRESSORS.items()
    }


def _mutate_inside(data: bytes, random: Random, others: Sequence[bytes]) -> bytes:
    """At times what is compressed is damaged, and compressed again."""
    if random.random() < 0.6:
        return mutate_bytes(data, random, others)
    for suffix, decompress in _DECOMPRESSORS.items():
        try:
            content = decompress(data)
        except Exception:  # of another compression
            continue
        return COMPRESSORS[suffix](mutate_bytes(content, random))
    raise AssertionError("a seed of no known compression")


_DECOMPRESSORS: Mapping[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress,
    ".zst": lambda data: zstandard.ZstdDecompressor().decompress(data, max_output_size=1 << 20),
    ".bz2": bz2.decompress,
    ".xz": lzma.decompress,
}


def _tables() -> dict[str, pa.Table]:
    nested = pa.array(
        [None if number % 5 == 4 else [{"k": text[:9], "v": [number]}] for number, text in _numbered()],
        pa.list_(pa.struct([("k", pa.string()), ("v", pa.large_list(pa.int32()))])),
    )
    numbers = pa.array([None if number % 3 == 0 else number for number in range(len(TEXTS))], pa.int16())
    kinds = {"string": pa.string(), "large": pa.large_string(), "binary": pa.binary()}
    tables = {
        name: pa.table({"n": numbers, "text": pa.array(TEXTS, kind), "s": pa.array(TEXTS[::-1])})
        for name, kind in kinds.items()
    }
    tables["nulls"] = pa.table({"text": pa.array([None, *TEXTS, None])})
    tables["nested"] = pa.table({"text": TEXTS, "nested": nested, "map": _maps(), "f": _fixed()})
    tables["folded"] = pa.table(
        {"text": _folded(), "tag": pa.array(["x", "y"] * (len(TEXTS) // 2)).dictionary_encode()}
    )
    return tables


def _folded() -> pa.Array:
    return pa.array([TEXTS[number % 4] for number in range(len(TEXTS))]).dictionary_encode()


def _maps() -> pa.Array:
    return pa.array(
        [[("a", number), ("b", None)] for number in range(len(TEXTS))], pa.map_(pa.string(), pa.int8())
    )


def _fixed() -> pa.Array:
    return pa.array([[text[:2], None] for text in TEXTS], pa.list_(pa.string(), 2))


def _arrow_files() -> Mapping[str, bytes]:
    tables = _tables()
    tables["view"] = pa.table(
        {"text": pa.array(TEXTS, pa.string_view()), "b": pa.array(TEXTS, pa.string_view())}
    )
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([5, len(TEXTS)], pa.int32()), pa.array(["a", "bcd"]))
    tables["runs"] = pa.table({"text": TEXTS, "runs": runs})
    contents = {f"{name}-file.arrow": _ipc(table, pa.ipc.new_file) for name, table in tables.items()}
    contents |= {f"{name}-stream.arrow": _ipc(table, pa.ipc.new_stream) for name, table in tables.items()}
    for codec in ("lz4", "zstd"):
        contents[f"{codec}.arrow"] = _ipc(tables["string"], pa.ipc.new_file, codec)
        contents[f"{codec}-folded.arrow"] = _ipc(tables["folded"], pa.ipc.new_stream, codec)
    return contents


def _ipc(table: pa.Table, new: Callable[..., pa.RecordBatchWriter], codec: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    with new(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_table(table, max_chunksize=13)
    return sink.getvalue().to_pybytes()


def _parquet_files() -> Mapping[str, bytes]:
    options = {
        "plain": {"compression": "none", "use_dictionary": False},
        "snappy": {"compression": "snappy"},
        "zstd": {"compression": "zstd", "data_page_version": "2.0", "write_page_checksum": True},
        "groups": {"row_group_size": 7, "data_page_size": 64, "compression": "gzip"},
        "bare": {"store_schema": False, "write_statistics": False, "compression": "lz4"},
        "delta": {"use_dictionary": False, "column_encoding": {"text": "DELTA_BYTE_ARRAY"}},
    }
    contents = {}
    for name, table in _tables().items():
        for kind, given in options.items():
            if kind == "delta" and name not in ("string", "large", "nulls"):
                continue
            encoding = {
                **given.get("column_encoding", {}),
                **({"s": "DELTA_LENGTH_BYTE_ARRAY"} if "s" in table.column_names else {}),
            }
            if kind == "delta":
                given = {**given, "column_encoding": encoding}
            sink = io.BytesIO()
            pq.write_table(table, sink, **given)
            contents[f"{name}-{kind}.parquet"] = sink.getvalue()
    return contents


CORPUS_TARGETS = [
    Target("plain-text", _files(PLAIN), check_plain),
    *(
        Target(name.removeprefix("a."), _files({name: content}), check_corpus)
        for name, content in BYTE_FORMATS.items()
    ),
    Target("compressed", _files(_compressed()), check_corpus, _mutate_inside),
    Target("arrow", _files(_arrow_files()), check_corpus),
    Target("parquet", _files(_parquet_files()), check_corpus),
]
