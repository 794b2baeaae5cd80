"""Slices of a split are Python's slices of its records, in every format."""

from __future__ import annotations

from pathlib import Path

import pytest
from corpus_reading import FORMATS, SEPARATOR, batches, column, corpus_of, counts, texts, write
from hypothesis import given
from hypothesis import strategies as st

from krill.corpus import DatasetSource
from krill.corpus.splits import SplitSlice, parse_split, split_of_file
from krill.errors import ConfigError, InputError

DOCUMENTS = [f"document {i} " * (i % 11 + 1) for i in range(57)]

_SLICES = {
    "train[:10]": slice(0, 10),
    "train[20:30]": slice(20, 30),
    "train[50:]": slice(50, None),
    "train[-7:]": slice(-7, None),
    "train[:-50]": slice(0, 7),
    "train[:10%]": slice(0, 6),
    "train[25%:50%]": slice(14, 28),
    "train[-10%:]": slice(-6, None),
    "train[40:1000]": slice(40, None),
}


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("unit_bytes", [300, 32_000_000])
def test_slices_equal_those_of_python(tmp_path: Path, ending: str, unit_bytes: int) -> None:
    path = write(tmp_path, ending, DOCUMENTS)
    for split, wanted in _SLICES.items():
        read = batches(corpus_of(DatasetSource(str(path), split), unit_bytes=unit_bytes))
        assert column(read, "text") == DOCUMENTS[wanted], split
        assert counts(read)["records"] == len(DOCUMENTS[wanted]), split


def test_slices_run_through_the_files_of_a_source(tmp_path: Path) -> None:
    for i, ending in enumerate(("jsonl", "parquet", "txt.gz", "csv", "arrow", "json")):
        write(tmp_path, ending, DOCUMENTS[i * 10 : i * 10 + 10]).rename(tmp_path / f"{i}.{ending}")
    for start in range(0, 57, 5):
        for stop in range(start + 1, 58, 7):
            source = DatasetSource(str(tmp_path), f"train[{start}:{stop}]")
            assert texts(source) == DOCUMENTS[start:stop]
    corpus = corpus_of(DatasetSource(str(tmp_path), "train[12:18]"))
    assert [Path(file.path).name for file in corpus.files] == ["1.parquet"]
    assert [unit.parts[0].start for unit in corpus.units()] == [2]


def test_blank_lines_and_empty_pieces_are_no_records(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(
        b'\n  \n{"text": "one"}\r\n\r\n\n{"text": "two"}\n \t\n{"text": "three"}'
    )
    (tmp_path / "b.txt").write_text(f"{SEPARATOR}one{SEPARATOR}{SEPARATOR}two{SEPARATOR}three{SEPARATOR}")
    for name in ("a.jsonl", "b.txt"):
        assert texts(DatasetSource(str(tmp_path / name), "train[1:2]")) == ["two"]
        assert texts(DatasetSource(str(tmp_path / name), "train[-1:]")) == ["three"]


def test_records_are_counted_right_across_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for size in (1, 3, 8, 50):
        monkeypatch.setattr("krill.corpus.streams.CHUNK_BYTES", size)
        for ending in ("jsonl", "txt", "json"):
            path = write(tmp_path, ending, DOCUMENTS)
            assert texts(DatasetSource(str(path), "train[31:33]")) == DOCUMENTS[31:33]


def test_a_malformed_line_counts_as_a_record(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "one"}\n{broken\n{"text": "three"}\n')
    assert texts(DatasetSource(str(tmp_path / "a.jsonl"), "train[2:]")) == ["three"]
    assert texts(DatasetSource(str(tmp_path / "a.jsonl"), "train[:2]"), skip_malformed=True) == ["one"]


def test_an_empty_slice_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path, "jsonl", DOCUMENTS)
    with pytest.raises(InputError, match=r"`train\[100:\]` of .* has no records"):
        corpus_of(DatasetSource(str(path), "train[100:]"))


@pytest.mark.parametrize(
    "notation",
    ["", "train[", "train[5]", "train[a:b]", "train+test", "train[1:2:3]", "train[_:]", "train[1__0:]",
     f"train[:{'9' * 5000}]"],
)  # fmt: skip
def test_a_split_that_can_not_be_read_is_a_config_error(tmp_path: Path, notation: str) -> None:
    with pytest.raises(ConfigError, match="can't read the split") as error:
        corpus_of(DatasetSource(str(write(tmp_path, "txt", ["a"])), notation))
    assert "train[:10%]" in (error.value.hint or "")
    assert len(error.value.message) < 120


def test_percent_beyond_the_whole_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="goes beyond 100 %"):
        parse_split("train[:101%]")


@given(st.integers(0, 10_000), st.none() | st.integers(-100, 100), st.none() | st.integers(-100, 100))
def test_bounds_of_percent_are_in_order_and_within(total: int, start: int | None, stop: int | None) -> None:
    first, end = SplitSlice("train", start, stop, percent=True).bounds(total)
    assert 0 <= first <= end <= total


@given(st.integers(0, 300), st.integers(-100, 100), st.integers(-100, 100), st.booleans())
def test_bounds_are_those_of_hugging_face(total: int, start: int, stop: int, percent: bool) -> None:
    reader = pytest.importorskip("datasets.arrow_reader")
    unit = "%" if percent else ""
    notation = f"train[{start}{unit}:{stop}{unit}]"
    (theirs,) = reader.ReadInstruction.from_spec(notation).to_absolute({"train": total})
    ours = parse_split(notation).bounds(total)
    assert ours == (theirs.from_, max(theirs.from_, theirs.to))


@pytest.mark.parametrize(
    ("path", "split"),
    [
        ("train.jsonl", "train"),
        ("data/train-00000-of-00002.parquet", "train"),
        ("my_dev_set.txt", "validation"),
        ("validation/0001.txt", "validation"),
        ("test/train_1.txt", "train"),
        ("VAL.jsonl", "validation"),
        ("latest.jsonl", None),
        ("trained.jsonl", None),
        ("corpus.jsonl", None),
    ],
)
def test_names_of_files_speak_of_splits(path: str, split: str | None) -> None:
    assert split_of_file(path) == split
