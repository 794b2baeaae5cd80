"""Every format holds the dataset's tokens, as a reader written from the format's description finds them."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from dataset_samples import write_text
from export_samples import EOS, Rows, row_batch, some_documents, wrapped, write_rows

from krill.dataset import Layout, Manifest, SourceRows
from krill.dataset.export import FORMATS, ExportSummary, export
from krill.dataset.export.sink import ParquetSink

SEQUENCE_LEN = 32
DOCUMENTS = some_documents(400)
ROWS = wrapped(DOCUMENTS, SEQUENCE_LEN)
TOKENS = [token for row in ROWS for piece in row for token in piece]
LAYOUT = Layout(SEQUENCE_LEN, "uint16", rows_per_batch=7)
VARIABLE = Layout(SEQUENCE_LEN, "uint16", rows_per_batch=7, fixed=False)


def documents_kept() -> list[list[int]]:
    """The documents as far as the rows hold them."""
    kept, left = [], len(TOKENS)
    for document in DOCUMENTS:
        if left:
            kept.append(document[:left])
            left -= len(kept[-1])
    return kept


def variable_rows() -> Rows:
    """Each document in a row of its own, or in several if it is longer than one, as `none` packs."""
    return [
        [document[start : start + SEQUENCE_LEN]]
        for document in DOCUMENTS
        for start in range(0, len(document), SEQUENCE_LEN)
    ]


def exported(folder: Path, rows: Rows = ROWS, layout: Layout = LAYOUT, **options: Any) -> ExportSummary:
    """A dataset of these rows, exported; options that `export` has not are keys of the dataset's config."""
    shaping = {key: options.pop(key) for key in ("packing", "shuffle", "part", "eos_id") if key in options}
    shaping |= {key: options.pop(key) for key in ("validation", "vocab_size") if key in options}
    write_rows(folder / "dataset", rows, layout, rows_per_shard=50, **shaping)
    return export(folder / "dataset", threads=2, **options)


def read_megatron(prefix: Path) -> list[list[int]]:
    """The sequences of an `.idx` and a `.bin`, by the format's description."""
    index = prefix.with_suffix(".idx").read_bytes()
    assert index[:9] == b"MMIDIDX\x00\x00"
    version, code, sequences, documents = struct.unpack_from("<QBQQ", index, 9)
    assert version == 1
    dtype = {4: "<i4", 8: "<u2"}[code]
    at = 34
    lengths = np.frombuffer(index, "<i4", sequences, at)
    pointers = np.frombuffer(index, "<i8", sequences, at + 4 * sequences)
    borders = np.frombuffer(index, "<i8", documents, at + 12 * sequences)
    assert len(index) == at + 12 * sequences + 8 * documents
    assert borders.tolist() == list(range(sequences + 1))
    tokens = prefix.with_suffix(".bin").read_bytes()
    return [
        np.frombuffer(tokens, dtype, length, pointer).tolist()
        for length, pointer in zip(lengths, pointers, strict=True)
    ]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_bin_is_mapped_as_nanogpt_does(tmp_path: Path) -> None:
    summary = exported(tmp_path, to="bin", validation=ROWS[:9])
    train, val = (np.memmap(summary.output / name, np.uint16, "r") for name in ("train.bin", "val.bin"))
    assert train.tolist() == TOKENS
    assert val.tolist() == TOKENS[: 9 * SEQUENCE_LEN]
    meta = json.loads((summary.output / "meta.json").read_bytes())
    assert meta["tokens"] == {"train": len(TOKENS), "val": 9 * SEQUENCE_LEN}
    assert (meta["vocab_size"], meta["dtype"], meta["eos_id"]) == (1000, "uint16", EOS)


@pytest.mark.parametrize(
    ("vocab_size", "stored", "written"),
    [(200, "uint8", "uint16"), (65_536, "uint16", "uint16"), (65_537, "uint32", "uint32")],
)
def test_bin_takes_as_many_bits_as_the_vocabulary_needs_and_never_fewer_than_nanogpt_reads(
    tmp_path: Path, vocab_size: int, stored: str, written: str
) -> None:
    rows = [[[1, vocab_size - 1, 3]], [[4, 5, EOS]]]
    summary = exported(tmp_path, rows, Layout(3, stored), to="bin", vocab_size=vocab_size)
    assert np.fromfile(summary.output / "train.bin", written).tolist() == [1, vocab_size - 1, 3, 4, 5, EOS]
    assert json.loads((summary.output / "meta.json").read_bytes())["dtype"] == written


def test_megatron_has_a_sequence_for_each_document_put_together_from_rows(tmp_path: Path) -> None:
    summary = exported(tmp_path, to="megatron", validation=ROWS[:9])
    assert read_megatron(summary.output / "train") == documents_kept()
    assert sum(read_megatron(summary.output / "validation"), []) == TOKENS[: 9 * SEQUENCE_LEN]  # noqa: RUF017
    assert summary.manifest.extra["files"][0]["documents"] == len(documents_kept())


def read_ds(path: Path, dtype: str = "<u2") -> list[list[int]]:
    """The documents of a `.ds` file and its index."""
    tokens = np.fromfile(path, dtype).tolist()
    ends = np.fromfile(f"{path}.index", "<u8").tolist()
    return [tokens[begin:end] for begin, end in zip([0, *ends[:-1]], ends, strict=True)]


def test_datatrove_has_tokens_ends_of_documents_and_lines_for_people(tmp_path: Path) -> None:
    summary = exported(tmp_path, to="datatrove", validation=ROWS[:9])
    assert read_ds(summary.output / "train.ds") == documents_kept()
    assert sum(read_ds(summary.output / "validation.ds"), []) == TOKENS[: 9 * SEQUENCE_LEN]  # noqa: RUF017
    name, tokens, told = (summary.output / "train.ds.metadata").read_text().splitlines()
    assert name.endswith("|2")
    assert int(tokens) == len(TOKENS)
    assert told == f"{len(TOKENS) / 1000:.2f} kT"


@pytest.mark.parametrize(("vocab_size", "dtype"), [(2**16, "uint16"), (2**16 + 1, "uint32")])
def test_datatrove_takes_the_type_that_datatrove_itself_would(
    tmp_path: Path, vocab_size: int, dtype: str
) -> None:
    rows = [[[1, vocab_size - 1, EOS]]]
    summary = exported(tmp_path, rows, Layout(3, dtype), to="datatrove", vocab_size=vocab_size)
    width = np.dtype(dtype).newbyteorder("<").str
    assert read_ds(summary.output / "train.ds", width) == [[1, vocab_size - 1, EOS]]


@pytest.mark.parametrize(
    ("vocab_size", "dtype", "code"), [(65_499, "uint16", 8), (65_500, "uint16", 4), (128_256, "uint32", 4)]
)
def test_megatron_takes_the_type_that_megatron_itself_would(
    tmp_path: Path, vocab_size: int, dtype: str, code: int
) -> None:
    rows = [[[1, vocab_size - 1, EOS]]]
    summary = exported(tmp_path, rows, Layout(3, dtype), to="megatron", vocab_size=vocab_size)
    assert (summary.output / "train.idx").read_bytes()[17] == code
    assert read_megatron(summary.output / "train") == [[1, vocab_size - 1, EOS]]


def test_megatron_joins_rows_only_where_they_stand_in_order(tmp_path: Path) -> None:
    whole = exported(tmp_path / "none", variable_rows(), VARIABLE, to="megatron", packing="none")
    assert read_megatron(whole.output / "train") == DOCUMENTS
    pieces = [piece for row in variable_rows() for piece in row]
    for name, keys in {
        "bfd": {"packing": "bfd"},
        "shuffled": {"packing": "none", "shuffle": True},
        "no-eos": {"packing": "none", "eos_id": None},
    }.items():
        cut = exported(tmp_path / name, variable_rows(), VARIABLE, to="megatron", **keys)
        assert read_megatron(cut.output / "train") == pieces


def test_megatron_does_not_join_sources_that_were_packed_on_their_own(tmp_path: Path) -> None:
    rows = [[[1, 2]], [[3, 4]], [[5, EOS]]]
    sources = (SourceRows(0, 1.0, 0, 2, 4), SourceRows(1, 2.0, 2, 1, 2))
    summary = exported(tmp_path, rows, Layout(2, "uint16"), to="megatron", part={"sources": sources})
    assert read_megatron(summary.output / "train") == [[1, 2, 3, 4], [5, EOS]]


@pytest.mark.parametrize("layout", [LAYOUT, VARIABLE], ids=["fixed", "variable"])
def test_parquet_holds_the_rows_with_their_types(tmp_path: Path, layout: Layout) -> None:
    rows = ROWS if layout.fixed else variable_rows()
    summary = exported(tmp_path, rows, layout, to="parquet")
    table = pq.read_table(summary.output / "train-00000.parquet")
    assert table.schema.types == layout.schema.types
    assert table.schema.metadata == layout.schema.metadata
    assert table["input_ids"].to_pylist() == [[token for piece in row for token in piece] for row in rows]
    assert table["seq_lengths"].to_pylist() == [[len(piece) for piece in row] for row in rows]
    metadata = pq.read_metadata(summary.output / "train-00000.parquet")
    assert metadata.row_group(0).column(0).compression == "ZSTD"


def test_parquet_is_cut_into_row_groups_and_files_of_bounded_size(tmp_path: Path) -> None:
    width = 2 * SEQUENCE_LEN
    sink = ParquetSink(tmp_path, "train", LAYOUT, group_bytes=10 * width, file_bytes=40 * width)
    for row in range(0, 100, 7):
        sink.write(sink.prepare(row_batch(ROWS[row : min(100, row + 7)])))
    files = sink.commit()
    assert [file.counts["rows"] for file in files] == [42, 42, 16]
    groups = pq.read_metadata(tmp_path / files[0].file)
    assert [groups.row_group(group).num_rows for group in range(groups.num_row_groups)] == [14, 14, 14]
    assert pq.read_table(tmp_path)["seq_lengths"].to_pylist() == [list(map(len, row)) for row in ROWS[:100]]


def test_json_lines_are_rows_with_their_lengths(tmp_path: Path) -> None:
    found = lines(exported(tmp_path, to="jsonl").output / "train.jsonl")
    assert [line["input_ids"] for line in found] == [[t for piece in row for t in piece] for row in ROWS]
    assert [line["seq_lengths"] for line in found] == [list(map(len, row)) for row in ROWS]


def test_json_lines_are_documents_if_asked(tmp_path: Path) -> None:
    summary = exported(tmp_path, to="jsonl", lines="documents")
    assert lines(summary.output / "train.jsonl") == [{"input_ids": d} for d in documents_kept()]


def test_json_lines_of_kept_documents_have_all_their_columns(tmp_path: Path) -> None:
    (tmp_path / "dataset").mkdir()
    write_text(tmp_path / "dataset", [["first \u2028 line\n", 'a "quoted" \\ one'], ["", "日本語"]])
    summary = export(tmp_path / "dataset", to="jsonl")
    texts = ["first \u2028 line\n", 'a "quoted" \\ one', "", "日本語"]
    assert lines(summary.output / "documents.jsonl") == [{"text": text, "url": None} for text in texts]


@pytest.mark.parametrize("to", FORMATS)
def test_files_are_the_same_for_any_threads_and_memory_and_the_manifest_has_their_hashes(
    tmp_path: Path, to: Any
) -> None:
    write_rows(tmp_path / "dataset", ROWS, LAYOUT, rows_per_shard=50)
    contents = []
    for number, (threads, memory) in enumerate([(1, "200MB"), (3, "1GB")]):
        output = tmp_path / str(number)
        summary = export(tmp_path / "dataset", to=to, output=output, threads=threads, memory=memory)
        assert sorted(path for path in output.rglob("*") if path.is_file()) == sorted(
            [*summary.files, output / "krill-run.json"]
        )
        contents.append({str(file.relative_to(output)): file.read_bytes() for file in summary.files})
        stated = {entry["file"]: entry["sha256"] for entry in Manifest.load(output).extra["files"]}
        assert stated == {name: hashlib.sha256(content).hexdigest() for name, content in contents[-1].items()}
    assert contents[0] == contents[1]
