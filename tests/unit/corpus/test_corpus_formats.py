"""Every format and compression gives the same documents."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpus_reading import (
    FORMATS,
    SEPARATOR,
    batches,
    column,
    corpus_of,
    counts,
    json_lines,
    table,
    texts,
    write,
    write_arrow,
    write_parquet,
)

from krill.corpus import DatasetSource

SAMPLE = Path(__file__).parents[4] / "shared" / "data" / "docs_sample.jsonl.gz"

DOCUMENTS = [
    f'Document {i}: {"naïve café 東京 🦐 " * (i % 9)}\nits second line, "quoted"\t.' for i in range(40)
]
DOCUMENTS[5] = "a NUL\0inside"


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("unit_bytes", [64, 1000, 32_000_000])
def test_every_format_gives_the_same_documents(tmp_path: Path, ending: str, unit_bytes: int) -> None:
    path = write(tmp_path, ending, DOCUMENTS)
    read = batches(corpus_of(path, unit_bytes=unit_bytes))
    assert column(read, "text") == DOCUMENTS
    assert counts(read) == {"records": 40, "key_seen": 40}
    positions = column(read, "position")
    assert positions == sorted(set(positions))


@pytest.mark.parametrize("ending", [ending for ending in FORMATS if not ending.startswith("txt")])
def test_carried_columns_keep_their_rows(tmp_path: Path, ending: str) -> None:
    source = DatasetSource(str(write(tmp_path, ending, DOCUMENTS)), columns=("id",))
    read = batches(corpus_of(source, unit_bytes=2000))
    assert [int(value) for value in column(read, "id")] == list(range(40))
    assert read[0].batch.schema.names == ["text", "position", "id"]


def test_positions_name_the_file_and_the_byte_or_row(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "one"}\n{"text": "two"}\n')
    write_parquet(tmp_path / "b.parquet", ["three", "four"])
    read = batches(corpus_of(tmp_path))
    assert [(p >> 40, p & (1 << 40) - 1) for p in column(read, "position")] == [
        (0, 0),
        (0, 16),
        (1, 0),
        (1, 1),
    ]


def test_a_text_file_is_one_document_or_its_pieces_between_separators(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(f"one{SEPARATOR}{SEPARATOR}two\n--\nthree")
    assert texts(path) == ["one", "two\n--\nthree"]
    assert texts(DatasetSource(str(path), separator="\n--\n")) == [f"one{SEPARATOR}{SEPARATOR}two", "three"]
    assert texts(DatasetSource(str(path), separator="")) == [path.read_text()]
    assert texts(path, default_separator="") == [path.read_text()]


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    for name, body in (("a.txt", b"hello"), ("a.jsonl", b'{"text": "hello"}'), ("a.csv", b"text\nhello\n")):
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + body)
        assert texts(tmp_path / name) == ["hello"]


def test_a_json_file_that_begins_with_an_object_holds_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"\n " + json_lines(["one", "two"]))
    corpus = corpus_of(path)
    assert (corpus.files[0].format, corpus.files[0].sequential) == ("jsonl", False)
    assert texts(path) == ["one", "two"]


def test_text_that_is_not_utf8_reaches_cleaning_as_it_is(tmp_path: Path) -> None:
    rows = pa.table({"text": pa.array([b"good", b"b\xffad", None], pa.binary())})
    pq.write_table(rows, tmp_path / "a.parquet")
    (tmp_path / "b.txt").write_bytes(b"b\xffad")
    (tmp_path / "c.csv").write_bytes(b"text\nb\xffad\n")
    for name, expected in (("a.parquet", ["good", "bad", None]), ("b.txt", ["bad"]), ("c.csv", ["bad"])):
        assert texts(tmp_path / name) == expected
    assert counts(batches(corpus_of(tmp_path / "a.parquet")))["not_text"] == 1


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.large_binary(), pa.binary_view(), "folded"]
)
@pytest.mark.parametrize("unit_bytes", [8, 32_000_000])
def test_text_may_be_of_any_string_type(tmp_path: Path, kind: pa.DataType, unit_bytes: int) -> None:
    documents = ["one", None, "three", "three"] * 20
    plain = pa.chunked_array([pa.array(documents)])
    rows = pa.table({"text": plain.dictionary_encode() if kind == "folded" else plain.cast(kind)})
    for stream in (False, True):
        write_arrow(tmp_path / "a.arrow", rows, stream=stream)
        assert texts(tmp_path / "a.arrow", unit_bytes=unit_bytes) == documents
    pq.write_table(rows, tmp_path / "a.parquet", row_group_size=30)
    assert texts(tmp_path / "a.parquet", unit_bytes=unit_bytes) == documents


@pytest.mark.parametrize("deltas", [False, True])
def test_a_batch_is_read_with_the_dictionary_that_it_was_written_with(tmp_path: Path, deltas: bool) -> None:
    schema = pa.schema({"text": pa.dictionary(pa.int32(), pa.string())})
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=deltas)
    path = tmp_path / "a.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, schema, options=options) as writer:
        for at in range(200):
            # Each adds a value to the one before it, and every tenth begins anew.
            values = pa.array([f"text {number}" for number in range(at - at % 10, at + 1)])
            last = pa.DictionaryArray.from_arrays(pa.array([len(values) - 1], pa.int32()), values)
            writer.write_batch(pa.record_batch([last], schema=schema))
    assert texts(path) == [f"text {at}" for at in range(200)]
    corpus = corpus_of(path)
    assert corpus.held_bytes < 20 * 1024  # ten values, not all that there were


def test_a_stream_with_dictionaries_in_other_columns_is_read(tmp_path: Path) -> None:
    rows = table(["one", "two", "three"]).append_column("tag", pa.array(["x", "y", "x"]).dictionary_encode())
    write_arrow(tmp_path / "a.arrow", rows, stream=True, batch=2)
    read = batches(corpus_of(DatasetSource(str(tmp_path / "a.arrow"), columns=("tag",))))
    assert column(read, "text") == ["one", "two", "three"]
    assert column(read, "tag") == ["x", "y", "x"]


def test_repeated_documents_of_a_parquet_file_decode_within_bounds(tmp_path: Path) -> None:
    documents = ["x" * 5000, "y" * 3000] * 1000
    write_parquet(tmp_path / "a.parquet", documents, rows=2000)
    assert (tmp_path / "a.parquet").stat().st_size < 50_000
    read = batches(corpus_of(tmp_path / "a.parquet", unit_bytes=160_000))
    assert column(read, "text") == documents
    assert max(each.batch.nbytes for each in read) <= 20_000 + 5000 + 2 * 24 * 5


def test_a_large_record_batch_is_read_in_slices(tmp_path: Path) -> None:
    documents = [str(i) * 300 for i in range(500)]
    write_arrow(tmp_path / "a.arrow", table(documents), stream=True, batch=500)
    corpus = corpus_of(tmp_path / "a.arrow", unit_bytes=80_000)
    assert len(corpus.units()) == 1
    read = batches(corpus)
    assert column(read, "text") == documents
    assert max(each.batch.nbytes for each in read) < 2 * 10_000
    assert corpus.held_bytes == 0
    write_arrow(tmp_path / "b.arrow", table(documents), stream=True, batch=500, compression="zstd")
    compressed = corpus_of(tmp_path / "b.arrow", unit_bytes=80_000)
    assert column(batches(compressed), "text") == documents
    assert compressed.held_bytes > sum(map(len, documents))


@pytest.mark.parametrize("ending", ["parquet", "arrow", "ipc", "feather"])
def test_columns_carried_along_fill_blocks_too(tmp_path: Path, ending: str) -> None:
    documents = [f"document {i}" for i in range(400)]
    pages = [str(i % 10) * 1000 if i % 3 else None for i in range(400)]
    path = tmp_path / f"a.{ending}"
    rows = pa.table({"text": documents, "html": pages, "tags": [[text] for text in documents]})
    if ending == "parquet":
        pq.write_table(rows, path, data_page_size=1000, use_dictionary=False)
    else:
        compression = "lz4" if ending == "feather" else None
        write_arrow(path, rows, stream=ending == "arrow", batch=400, compression=compression)
    source = DatasetSource(str(path), columns=("html", "tags"))
    corpus = corpus_of(source, unit_bytes=32 * 10_000)
    read = batches(corpus)
    assert column(read, "text") == documents
    assert column(read, "html") == pages
    assert column(read, "tags") == [[text] for text in documents]
    assert max(each.batch.nbytes for each in read) < 10_000 + 1100 + 1000
    for few in (1, 7, 100):
        again = batches(corpus_of(source, unit_bytes=32 * 10_000, batch_rows=few))
        assert [each.batch for each in again] == [each.batch for each in read]


@pytest.mark.parametrize("words", [1, 200])
def test_repeated_values_of_carried_columns_decode_within_bounds(tmp_path: Path, words: int) -> None:
    documents = [f"{i} " * words for i in range(2000)]
    pages = [str(i % 4) * 5000 for i in range(2000)]
    pq.write_table(pa.table({"text": documents, "html": pages}), tmp_path / "a.parquet")
    source = DatasetSource(str(tmp_path / "a.parquet"), columns=("html",))
    read = batches(corpus_of(source, unit_bytes=32 * 40_000))
    assert column(read, "text") == documents
    assert column(read, "html") == pages
    assert {each.batch.schema.field("html").type for each in read} == {pa.string()}
    assert max(each.batch.nbytes for each in read) < 40_000 + 7000 + 1000


def test_pages_of_long_documents_are_held_whole_and_told_of(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    long = [rng.bytes(10_000).hex() for _ in range(50)]
    rows = pa.table({"text": long, "other": [text[::-1] for text in long]})
    pq.write_table(rows, tmp_path / "a.parquet", compression="none", use_dictionary=False)
    pq.write_table(rows, tmp_path / "b.parquet", compression="none")
    pq.write_table(pa.table({"text": ["x" * 100] * 20}), tmp_path / "short.parquet")
    limits = {"unit_bytes": 32 * 100_000}
    page = sum(map(len, long))
    assert corpus_of(tmp_path / "short.parquet", **limits).held_bytes == 0
    assert corpus_of(tmp_path / "a.parquet", **limits).held_bytes == pytest.approx(page, rel=0.01)
    assert corpus_of(tmp_path / "b.parquet", **limits).held_bytes == pytest.approx(2 * page, rel=0.01)
    assert corpus_of(tmp_path / "*.parquet", **limits).held_bytes == pytest.approx(2 * page, rel=0.01)
    both = DatasetSource(str(tmp_path / "a.parquet"), columns=("other",))
    assert corpus_of(both, **limits).held_bytes == pytest.approx(2 * page, rel=0.01)
    pq.write_table(
        pa.table({"text": [text[:200] for text in long] * 400}),
        tmp_path / "many.parquet",
        compression="none",
        use_dictionary=False,
    )
    held = corpus_of(tmp_path / "many.parquet", **limits).held_bytes
    assert held == pytest.approx(2**20, rel=0.2)  # of 20,000 documents, those of a page


@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv", "jsonl", "json", "txt"])
@pytest.mark.parametrize("drop", [False, True])
def test_documents_above_the_limit_are_split_or_dropped_alike(
    tmp_path: Path, ending: str, drop: bool
) -> None:
    long = "\n".join(f"line {i}" for i in range(200))
    path = write(tmp_path, ending, ["before", long, "after"])
    read = batches(corpus_of(path, max_document_bytes=500, drop_oversize=drop, unit_bytes=4000))
    pieces = column(read, "text")
    if drop:
        assert pieces == ["before", "after"]
        assert counts(read)["oversize"] == 1
    else:
        assert (pieces[0], "".join(pieces[1:-1]), pieces[-1]) == ("before", long, "after")
        assert max(len(piece) for piece in pieces) <= 500
        assert all(piece.endswith("\n") for piece in pieces[1:-2])
        assert counts(read)["oversize_split"] == 1
    assert counts(read)["records"] == 3
    positions = column(read, "position")
    assert positions == sorted(positions)


def test_several_sources_follow_each_other_in_config_order(tmp_path: Path) -> None:
    write_parquet(tmp_path / "b.parquet", ["one"])
    (tmp_path / "a.txt").write_text("two")
    corpus = corpus_of(tmp_path / "b.parquet", tmp_path / "a.txt")
    assert column(batches(corpus), "text") == ["one", "two"]
    assert [file.dataset for file in corpus.files] == [0, 1]
    assert len(corpus.units()) == 2


@pytest.mark.skipif(not SAMPLE.exists(), reason="the shared sample is not here")
def test_real_documents_are_those_that_python_reads() -> None:
    with gzip.open(SAMPLE, "rt", encoding="utf-8") as lines:
        expected = [json.loads(line)["text"] for line in lines]
    assert texts(SAMPLE, unit_bytes=4_000_000) == expected


_READ_ALL = """
import sys
from krill.corpus import DatasetSource, open_corpus
corpus = open_corpus(
    [DatasetSource(sys.argv[1])], unit_bytes=3200, max_document_bytes=300, drop_oversize=False,
    skip_malformed=False, default_separator="", batch_rows=None,
)
rows = sum(b.documents().batch.num_rows for _, blocks in corpus.walk(lambda _: None) for b in blocks)
print(rows > 40 * len(corpus.files), "pandas" in sys.modules)
"""


def test_reading_imports_no_pandas(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    for ending in ("jsonl", "json", "txt", "csv", "parquet", "arrow", "feather"):
        write(tmp_path, ending, DOCUMENTS * 3)
    folded = table(["x" * 400, "y"] * 60)
    write_arrow(
        tmp_path / "folded.arrow",
        folded.set_column(1, "text", folded["text"].dictionary_encode()),
        stream=True,
    )
    command = [sys.executable, "-c", _READ_ALL, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "True False\n"
