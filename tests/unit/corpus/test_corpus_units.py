"""Units and blocks: fixed, bounded, and each record is in exactly one."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from corpus_reading import (
    SEPARATOR,
    batches,
    column,
    compress,
    corpus_of,
    counts,
    json_lines,
    plain_text,
    texts,
    write,
)
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from krill.corpus import DatasetSource, Unit, byte_files
from krill.corpus.long_records import LongRecords
from krill.corpus.readers import BLOCKS_PER_UNIT
from properties import tried

_FILES = tried(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
_DOCUMENT = st.text(st.characters(codec="utf-8", exclude_characters="<"), max_size=30)


def _unit_by_unit(path: Path, unit_bytes: int, **limits: object) -> list[tuple[int, str]]:
    """Positions and texts, read from the last unit to the first and put back in order."""
    corpus = corpus_of(path, unit_bytes=unit_bytes, **limits)
    read: list[list[tuple[int, str]]] = []
    for unit in reversed(corpus.units()):
        blocks = [block.documents() for block in corpus.blocks(unit)]
        read.append(list(zip(column(blocks, "position"), column(blocks, "text"), strict=True)))
    return [each for unit in reversed(read) for each in unit]


@_FILES
@given(documents=st.lists(_DOCUMENT, min_size=1, max_size=30), unit_bytes=st.integers(1, 400))
def test_units_of_json_lines_partition_the_records(
    tmp_path: Path, documents: list[str], unit_bytes: int
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(json_lines(documents))
    assert _unit_by_unit(path, unit_bytes) == _unit_by_unit(path, 32_000_000)
    assert [text for _, text in _unit_by_unit(path, unit_bytes)] == documents


@_FILES
@given(documents=st.lists(_DOCUMENT, min_size=1, max_size=30), unit_bytes=st.integers(1, 400))
def test_units_of_plain_text_partition_the_records(
    tmp_path: Path, documents: list[str], unit_bytes: int
) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"x" + plain_text(documents))
    documents[0] = "x" + documents[0]
    assert _unit_by_unit(path, unit_bytes) == _unit_by_unit(path, 32_000_000)
    assert [text for _, text in _unit_by_unit(path, unit_bytes)] == [text for text in documents if text]


@_FILES
@given(
    text=st.text("ab\n", min_size=1, max_size=120),
    separator=st.sampled_from(["\n", "\n\n", "aba", "aa", "ab\na"]),
    unit_bytes=st.integers(1, 100),
    limit=st.integers(4, 60),
)
def test_separators_that_overlap_themselves_cut_the_same_documents(
    tmp_path: Path, text: str, separator: str, unit_bytes: int, limit: int
) -> None:
    path = tmp_path / "a.txt"
    path.write_text(text, newline="")
    (tmp_path / "a.txt.gz").write_bytes(compress(text.encode(), ".gz"))
    source = DatasetSource(str(path), separator=separator)
    read = texts(source, unit_bytes=unit_bytes)
    assert read == [piece for piece in text.split(separator) if piece]
    streamed = DatasetSource(str(path) + ".gz", separator=separator)
    assert texts(streamed, unit_bytes=unit_bytes) == read
    split = texts(source, unit_bytes=unit_bytes, max_document_bytes=limit)
    assert split == texts(source, max_document_bytes=limit)
    assert split == texts(streamed, unit_bytes=unit_bytes, max_document_bytes=limit)


@pytest.mark.parametrize("ending", ["parquet", "arrow", "ipc", "jsonl", "txt"])
@pytest.mark.parametrize("unit_bytes", [1, 100, 1000, 5000])
def test_units_can_be_read_in_any_order_by_any_thread(tmp_path: Path, ending: str, unit_bytes: int) -> None:
    documents = [f"{i} " * (i % 50 + 1) for i in range(200)]
    corpus = corpus_of(write(tmp_path, ending, documents), unit_bytes=unit_bytes)

    def read(unit: Unit) -> list[str]:
        return column([block.documents() for block in corpus.blocks(unit)], "text")

    with ThreadPoolExecutor(4) as pool:
        assert [text for texts in pool.map(read, corpus.units()) for text in texts] == documents


def test_units_and_blocks_are_bounded(tmp_path: Path) -> None:
    documents = [f"{i:06d} " * (i % 20 + 1) for i in range(3000)]
    corpus = corpus_of(write(tmp_path, "jsonl", documents), unit_bytes=80_000)
    units = corpus.units()
    assert len(units) == corpus.input_bytes // 80_000 + 1
    for unit in units:
        part = unit.parts[0]
        assert part.end - part.start < 80_000 + 200
        for block in corpus.blocks(unit):
            assert block.end - block.start <= 10_000
            assert block.documents().batch.nbytes <= block.nbytes == 2 * (block.end - block.start)


def test_many_small_files_share_units_and_blocks(tmp_path: Path) -> None:
    for i in range(300):
        (tmp_path / f"{i:04d}.txt").write_text(f"document {i} " * 10)
    corpus = corpus_of(tmp_path, unit_bytes=16_000)
    units = corpus.units()
    assert len(units) == 3
    assert sum(len(list(corpus.blocks(unit))) for unit in units) <= 100
    assert column(batches(corpus), "text") == [f"document {i} " * 10 for i in range(300)]


def test_many_small_compressed_files_share_units_too(tmp_path: Path) -> None:
    for i in range(300):
        (tmp_path / f"{i:04d}.txt.gz").write_bytes(compress((f"document {i} " * 10).encode(), ".gz"))
    corpus = corpus_of(tmp_path, unit_bytes=16_000)
    walked = [(unit, list(blocks)) for unit, blocks in corpus.walk(lambda _: None)]
    assert len(walked) == 6  # a unit's worth of files, if each held four times its size; these hold twice
    assert sum(len(blocks) for _, blocks in walked) <= 100
    assert (
        column((b.documents() for _, blocks in walked for b in blocks), "text")[299] == "document 299 " * 10
    )


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "json", "txt", "txt.zst"])
def test_a_giant_record_comes_in_bounded_batches(tmp_path: Path, ending: str) -> None:
    giant = "0123456789" * 500_000
    path = write(tmp_path, ending, ["before", giant, "after"])
    read = batches(corpus_of(path, unit_bytes=800_000, max_document_bytes=100_000))
    pieces = column(read, "text")
    assert (pieces[0], "".join(pieces[1:-1]), pieces[-1]) == ("before", giant, "after")
    assert max(each.batch.nbytes for each in read) < 100_000 + (1 << 20) + 200_000
    assert counts(read)["oversize_split"] == 1


def test_a_giant_row_comes_in_bounded_batches(tmp_path: Path) -> None:
    giant = "0123456789" * 500_000
    path = write(tmp_path, "parquet", ["before", giant, "after"])
    read = batches(
        corpus_of(DatasetSource(str(path), columns=("id",)), unit_bytes=800_000, max_document_bytes=100_000)
    )
    pieces = column(read, "text")
    assert (pieces[0], "".join(pieces[1:-1]), pieces[-1]) == ("before", giant, "after")
    assert max(each.batch.nbytes for each in read) < 100_000 + (1 << 20) + 200_000
    assert column(read, "id") == [0, *[1] * 50, 2]


def test_units_keep_their_identity_as_json(tmp_path: Path) -> None:
    corpus = corpus_of(write(tmp_path, "jsonl", ["a"] * 50), unit_bytes=200)
    for unit in corpus.units():
        assert Unit.from_json(json.loads(json.dumps(unit.to_json()))) == unit
    positions = [unit.position for unit in corpus.units()]
    assert positions == sorted(set(positions))


def test_the_units_of_a_sequential_corpus_are_not_known_before(tmp_path: Path) -> None:
    corpus = corpus_of(write(tmp_path, "jsonl.gz", ["a"]))
    assert corpus.sequential
    with pytest.raises(ValueError, match="walk it"):
        corpus.units()


def test_rows_per_batch_never_change_what_comes_out(tmp_path: Path) -> None:
    documents = [f"{i} " * 100 for i in range(100)]
    for ending in ("jsonl", "csv", "parquet", "arrow", "feather"):
        path = write(tmp_path, ending, documents)
        few = batches(corpus_of(path, batch_rows=3, unit_bytes=8000))
        many = batches(corpus_of(path, unit_bytes=8000))
        assert [each.batch for each in few] == [each.batch for each in many], ending


def test_an_unfinished_separator_at_the_end_is_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"one{SEPARATOR}two{SEPARATOR[:-1]}")
    for unit_bytes in range(1, 40):
        assert texts(tmp_path / "a.txt", unit_bytes=unit_bytes) == ["one", f"two{SEPARATOR[:-1]}"]


@pytest.mark.parametrize("chunk_bytes", [1, 2, 3, 5, 8, 13])
def test_separators_that_lie_across_chunks_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int
) -> None:
    documents = ["0123456789" * (i % 5 + 1) + "<|en" for i in range(12)]
    endings = ("txt", "txt.gz", "jsonl", "jsonl.gz", "csv")
    paths = [write(tmp_path, ending, documents) for ending in endings]
    units = [_unit_positions(path) for path in paths]
    monkeypatch.setattr(byte_files, "CHUNK_BYTES", chunk_bytes)
    assert [texts(path, unit_bytes=200) for path in paths] == [documents] * len(endings)
    assert [_unit_positions(path) for path in paths] == units
    assert min(map(len, units)) > 1


def _unit_positions(path: Path) -> list[int]:
    return [unit.position for unit, _ in corpus_of(path, unit_bytes=200).walk(lambda _: None)]


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl"])
def test_a_long_search_for_the_end_of_a_record_says_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    path = tmp_path / name
    path.write_bytes(b'{"text": "' + b"a" * 3_000_000 + b'"}\n')
    corpus = corpus_of(path, unit_bytes=64_000)
    (unit,) = corpus.units()
    assert not caplog.messages  # it took no ten seconds
    monkeypatch.setattr(byte_files, "REPORT_SECONDS", 0.0)
    assert corpus.units() == [unit]
    line = f"`{path}` has 3.00 MB: looking for the end of a record, at "
    assert len(caplog.messages) > 2
    assert all(message.startswith(line) for message in caplog.messages)
    assert caplog.messages[-1].endswith(" MB")
    caplog.clear()
    blocks = [block.documents() for block in corpus.blocks(unit)]
    assert sum(map(len, column(blocks, "text"))) >= 3_000_000
    assert caplog.messages
    assert all(message.startswith(line) for message in caplog.messages)


def reference_long_records(lengths: list[int], block: int, largest: int) -> LongRecords:
    """By looking at each record."""
    groups: list[list[int]] = [[]]
    short = 0
    for length in lengths:
        if length <= block:
            short += length
        else:
            if short > block:
                groups.append([])
            groups[-1].append(length)
            short = 0
    together, size = max(
        (sum(each // largest + (each % largest > block) for each in group), sum(group)) for group in groups
    )
    longest = max((each for each in lengths if each > block), default=0)
    return LongRecords(min(longest, largest), together, size, longest)


@_FILES
@given(
    lengths=st.lists(st.one_of(st.integers(1, 60), st.integers(1, 3000)), min_size=1, max_size=30),
    block=st.integers(30, 200),
    largest=st.integers(200, 2000),
)
def test_records_longer_than_a_block_are_found_without_reading_all(
    tmp_path: Path, lengths: list[int], block: int, largest: int
) -> None:
    for name, data, whole in (
        ("a.jsonl", b"".join(b"x" * (length - 1) + b"\n" for length in lengths), lengths),
        (
            "a.txt",
            SEPARATOR.encode().join(b"x" * length for length in lengths),
            [*(length + len(SEPARATOR) for length in lengths[:-1]), lengths[-1]],
        ),
    ):
        path = tmp_path / name
        path.write_bytes(data)
        corpus = corpus_of(path, unit_bytes=block * BLOCKS_PER_UNIT, max_document_bytes=largest)
        assert corpus.long_records() == reference_long_records(whole, block, largest)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary()])
def test_long_rows_of_arrow_files_are_found_by_their_offsets(tmp_path: Path, kind: pa.DataType) -> None:
    path = tmp_path / "a.arrow"
    texts_of = [b"x" * length for length in (40, 900, 10, 5000, 20, 300)]
    table = pa.table({"id": range(6), "text": pa.array(texts_of, pa.binary()).cast(kind)})
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    corpus = corpus_of(path, unit_bytes=250 * BLOCKS_PER_UNIT, max_document_bytes=2000)
    assert corpus.long_records() == LongRecords(2000, 5, 900 + 5000 + 300, 5000)
    assert corpus.longest_mapped == 5000
    # Of a row that goes in pieces the mapped memory itself is read, of others a copy.
    assert texts(path, unit_bytes=250 * BLOCKS_PER_UNIT, max_document_bytes=2000) == [
        text[start : start + 2000].decode() for text in texts_of for start in range(0, len(text), 2000)
    ]


def test_the_long_records_of_compressed_files_are_not_known(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(compress(b"x" * 5000 + b"\n", ".gz"))
    assert (
        corpus_of(path, unit_bytes=100 * BLOCKS_PER_UNIT, max_document_bytes=2000).long_records()
        == LongRecords()
    )
