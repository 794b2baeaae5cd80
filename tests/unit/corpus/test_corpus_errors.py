"""Bad input: each a clear error that names the file, and the exit code for input."""

from __future__ import annotations

import gzip
import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpus_reading import (
    batches,
    column,
    compress,
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
from krill.errors import ConfigError, InputError

DOCUMENTS = [f"document {i} " * 50 for i in range(200)]


def _error(path: Path, message: str, **limits: object) -> InputError:
    with pytest.raises(InputError, match=message) as caught:
        texts(path, **limits)
    assert caught.value.exit_code == 3
    assert f"`{path}`" in caught.value.message
    return caught.value


@pytest.mark.parametrize("ending", ["jsonl.gz", "jsonl.zst", "jsonl.bz2", "jsonl.xz", "csv.gz", "json.zst"])
@pytest.mark.parametrize("skip", [False, True])
def test_a_truncated_compressed_file_is_an_error(tmp_path: Path, ending: str, skip: bool) -> None:
    path = write(tmp_path, ending, DOCUMENTS)
    path.write_bytes(path.read_bytes()[:-20])
    error = _error(path, "can't read `", skip_malformed=skip)
    assert "damaged or incomplete" in (error.hint or "")


def test_a_truncated_stream_says_how_far_it_was_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(json_lines([os.urandom(2000).hex() for _ in range(2000)]))[:-20])
    _error(path, r"after [\d,]{7,} bytes: Truncated compressed stream")


@pytest.mark.parametrize("ending", ["jsonl.gz", "jsonl.zst", "jsonl.bz2", "jsonl.xz"])
def test_a_file_that_is_not_compressed_as_its_name_says_is_an_error(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.{ending}"
    path.write_bytes(json_lines(DOCUMENTS))
    _error(path, "can't read `")


def test_a_truncated_parquet_file_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path, "parquet", DOCUMENTS)
    data = path.read_bytes()
    path.write_bytes(data[:-100])
    _error(path, "can't read `.*magic bytes")
    path.write_bytes(data[:4] + bytes(len(data) // 2) + data[4 + len(data) // 2 :])
    _error(path, "can't read `")
    path.write_bytes(b"")
    (tmp_path / "other.jsonl").write_bytes(json_lines(["x"]))
    with pytest.raises(InputError, match=r"can't read `.*magic bytes"):
        texts(tmp_path)


@pytest.mark.parametrize("stream", [False, True])
def test_a_truncated_arrow_file_is_an_error(tmp_path: Path, stream: bool) -> None:
    path = tmp_path / "a.arrow"
    write_arrow(path, table(DOCUMENTS), stream=stream)
    data = path.read_bytes()
    for size in (len(data) * 2 // 3, 100, 20):
        path.write_bytes(data[:size])
        _error(path, "is not a whole Arrow IPC file")


def test_what_is_no_arrow_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    for data in (b"hello world, this is plain text", bytes(100), b"\xff" * 100, os.urandom(500)):
        path.write_bytes(data)
        _error(path, "is not a whole Arrow IPC file")
    path.write_bytes(b"FEA1" + bytes(60) + b"FEA1")
    assert "Feather V1" in (_error(path, "not a whole Arrow").hint or "")


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz"])
def test_a_malformed_line_is_named_by_its_number(tmp_path: Path, ending: str) -> None:
    lines = json_lines(DOCUMENTS).splitlines(keepends=True)
    lines[6] = b'{"text": "never closed}\n'
    path = tmp_path / f"a.{ending}"
    path.write_bytes(compress(b"\n" + b"".join(lines), path.suffix))
    error = _error(path, "line 8: ", unit_bytes=10_000)
    assert "on_error: skip" in (error.hint or "")
    read = batches(corpus_of(path, skip_malformed=True))
    assert column(read, "text") == DOCUMENTS[:6] + DOCUMENTS[7:]
    assert counts(read)["malformed"] == 1


def test_a_malformed_array_is_named_by_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b'[\n{"text": "one"},\n{"text": broken}\n]')
    _error(tmp_path / "a.json", "line 3: ")
    (tmp_path / "a.json").write_bytes(b'[\n{"text": "one"},\n')
    _error(tmp_path / "a.json", "line ")


def test_a_malformed_row_is_named_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"id,text\n1,one\n2,two,too many\n3,three\n")
    error = _error(path, "line 3: expected 2 columns, got 3")
    assert "on_error: skip" in (error.hint or "")
    read = batches(corpus_of(path, skip_malformed=True))
    assert column(read, "text") == ["one", "three"]
    assert counts(read) == {"records": 3, "key_seen": 2, "malformed": 1}


def test_a_csv_row_that_never_ends_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'text\n"' + b"x" * 300_000)
    _error(path, "row of over .* bytes, or a quote", max_document_bytes=1000, unit_bytes=1000)


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "json", "csv", "parquet", "arrow"])
def test_a_missing_column_names_those_there_are(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path, ending, DOCUMENTS)
    with pytest.raises(InputError, match=r"no column `content` in `.*`; there are: `id`, `text`") as error:
        texts(DatasetSource(str(path), text_column="content"))
    assert "text_column:" in (error.value.hint or "")


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow"])
def test_a_missing_column_to_carry_is_an_error(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path, ending, DOCUMENTS)
    with pytest.raises(InputError, match=r"no column `url` in `.*`; there are: `id`, `text`") as error:
        texts(DatasetSource(str(path), columns=("url",)))
    assert "columns:" in (error.value.hint or "")


@pytest.mark.parametrize(("ending", "kind"), [("jsonl", "int"), ("json", "int"), ("parquet", "int64")])
def test_a_column_that_is_not_text_names_its_type(tmp_path: Path, ending: str, kind: str) -> None:
    path = write(tmp_path, ending, DOCUMENTS)
    with pytest.raises(InputError, match=f"column `id` of `.*` holds `{kind}`, not strings"):
        texts(DatasetSource(str(path), text_column="id"))


def test_of_thousands_of_keys_the_first_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({f"key {at}": 1 for at in range(4000)}) + "\n")
    with pytest.raises(InputError) as error:
        texts(tmp_path / "a.jsonl")
    assert error.value.message.endswith("`key 48`, `key 49` and 3,950 more")


def test_a_message_stays_readable_whatever_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f'"{"x" * 500_000}",b\n1,2\n')
    with pytest.raises(InputError) as error:
        texts(tmp_path / "a.csv")
    assert len(error.value.message) < 8000
    assert error.value.message.startswith("no column `text`") and error.value.message.endswith("`b`")


def test_records_that_lack_text_by_chance_are_null_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": null}\n{"id": 1}\n')
    read = batches(corpus_of(path))
    assert column(read, "text") == [None, None]
    assert counts(read) == {"records": 2, "key_seen": 1, "not_text": 2}
    path.write_bytes(json_lines(["x"] * 100) + b'{"id": 1}\n' * 100)
    assert texts(path, unit_bytes=500) == ["x"] * 100 + [None] * 100


def test_columns_of_plain_text_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is plain text: it has no columns"):
        corpus_of(DatasetSource(str(write(tmp_path, "txt", ["x"])), columns=("id",)))


def test_carried_columns_must_have_one_type_in_a_source(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", ["x"])
    pq.write_table(pa.table({"text": ["x"], "id": ["one"]}), tmp_path / "b.parquet")
    with pytest.raises(InputError, match=r"column `id` is `int64` in `.*a.parquet`, but `string` in"):
        corpus_of(DatasetSource(str(tmp_path), columns=("id",)))
    assert texts(tmp_path) == ["x", "x"]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-32-le", "utf-16-be", "utf-32-be"])
def test_wide_encodings_are_an_error_with_the_remedy(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffhello".encode(encoding))
    error = _error(path, f"is encoded in {encoding[:6].upper()}, not UTF-8")
    assert (error.hint or "").startswith("iconv -f UTF-")


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.csv", "a.dat", "a.json"])
@pytest.mark.parametrize(
    ("ending", "kind"),
    [
        ("txt.gz", "compressed with gzip"),
        ("txt.zst", "compressed with zstd"),
        ("txt.bz2", "compressed with bzip2"),
        ("txt.xz", "compressed with xz"),
        ("parquet", "a Parquet file"),
        ("arrow", "an Arrow file"),
        ("arrows", "an Arrow file"),
        ("zip", "a zip archive"),
        ("warc", "holds WARC records"),
    ],
)
def test_what_is_no_text_whatever_its_name_says_is_an_error(
    tmp_path: Path, name: str, ending: str, kind: str
) -> None:
    path = tmp_path / name
    path.write_bytes(_of_kind(tmp_path, ending))
    error = _error(path, kind)
    assert f".{ending.rpartition('.')[2].removesuffix('s')}" in (error.hint or "")
    with pytest.raises(InputError, match=kind):  # many small ones are read by other code
        many = tmp_path / "many"
        many.mkdir()
        for number in range(20):
            (many / f"{number}.txt").write_bytes(path.read_bytes() if number == 9 else b"some text")
        texts(many)


def _of_kind(folder: Path, ending: str) -> bytes:
    if ending == "zip":
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("a.txt", "text")
        return buffer.getvalue()
    if ending == "warc":
        return b"WARC/1.0\r\nWARC-Type: response\r\n\r\n"
    if ending in ("arrow", "arrows"):
        columns = pa.table({"text": DOCUMENTS})
        target = pa.BufferOutputStream()
        new = pa.ipc.new_file if ending == "arrow" else pa.ipc.new_stream
        with new(target, columns.schema) as writer:
            writer.write_table(columns)
        return target.getvalue().to_pybytes()
    made = folder / "made"
    made.mkdir()
    return write(made, ending, DOCUMENTS).read_bytes()


def test_what_is_compressed_twice_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(gzip.compress(json_lines(DOCUMENTS))))
    error = _error(path, "is compressed with gzip inside of gzip, not jsonl")
    assert error.hint == "decompress it once"


def test_text_that_begins_as_a_signature_does_is_text(tmp_path: Path) -> None:
    for number, text in enumerate(
        ["PAR1 is a gene", "ARROW1 flies", "PK is short", "BZh is not much", "WARC/2"]
    ):
        (tmp_path / f"{number}.txt").write_text(text)
    assert texts(tmp_path) == ["PAR1 is a gene", "ARROW1 flies", "PK is short", "BZh is not much", "WARC/2"]


def test_a_separator_of_over_a_kilobyte_is_a_config_error(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("some text")
    with pytest.raises(ConfigError, match="has 1,001 bytes: at most 1,000"):
        corpus_of(DatasetSource(str(tmp_path / "a.txt"), separator="x" * 1001))


def test_a_file_without_permission_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "jsonl", ["x"])
    opened = os.open

    def refuse(name: str | Path, *options: Any, **named: Any) -> int:
        if str(name) == str(path):  # root, which tests may run as, is never refused
            raise PermissionError(13, "Permission denied")
        return opened(name, *options, **named)

    monkeypatch.setattr("krill.corpus.streams.os.open", refuse)
    assert (_error(path, "no permission to read").hint or "").startswith("chmod +r")


def test_a_file_that_vanishes_or_shrinks_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path, "jsonl", DOCUMENTS)
    corpus = corpus_of(path)
    units = corpus.units()
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(InputError, match="became shorter"):
        [block.documents() for block in corpus.blocks(units[0])]
    path.unlink()
    with pytest.raises(InputError, match="no such file"):
        [block.documents() for block in corpus.blocks(units[0])]


def test_a_lone_surrogate_is_removed_and_counted(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "a\ud800b"}))
    read = batches(corpus_of(tmp_path / "a.jsonl"))
    assert column(read, "text") == ["ab"]
    assert counts(read)["surrogates_removed"] == 1
