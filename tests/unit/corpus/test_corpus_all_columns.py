"""`columns: "*"`: all columns of a source, whatever its format."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from krill.corpus import DatasetSource, open_corpus
from krill.errors import ConfigError, InputError

ROWS = [{"id": 1, "text": "one", "url": "a", "tags": ["x"]}, {"id": 2, "text": "two", "url": "b", "tags": []}]


def columns_of(path: Path, *, columns: tuple[str, ...] = ("*",), text_column: str = "text") -> list[str]:
    corpus = open_corpus(
        [DatasetSource(str(path), columns=columns, text_column=text_column)],
        unit_bytes=1_000_000,
        max_document_bytes=100_000,
        drop_oversize=False,
        skip_malformed=False,
        default_separator="",
        batch_rows=None,
    )
    names: list[str] = []
    for _, blocks in corpus.walk(lambda _: None):
        for block in blocks:
            batch = block.documents().batch
            assert batch.num_rows == len(ROWS)
            names = batch.schema.names
    return names


def write(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", ["jsonl", "json", "parquet", "arrow", "csv", "tsv"])
def test_all_columns_are_carried_in_the_order_of_the_first_file(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"in.{kind}"
    if kind == "jsonl":
        write(path, "\n\n".join(map(json.dumps, ROWS)))
    elif kind == "json":
        write(path, "\n [" + ",\n".join(map(json.dumps, ROWS)) + "]")
    elif kind == "parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path)
    elif kind == "arrow":
        table = pa.Table.from_pylist(ROWS)
        with pa.ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table)
    else:
        mark = "," if kind == "csv" else "\t"
        lines = [mark.join(["id", "text", "url", "tags"])]
        lines += [mark.join([str(row["id"]), str(row["text"]), str(row["url"]), "-"]) for row in ROWS]
        write(path, "\n".join(lines) + "\n")
    assert columns_of(path) == ["text", "position", "id", "url", "tags"]


def test_names_that_are_krill_s_own_are_left_out(tmp_path: Path) -> None:
    rows = [{"body": "one", "text": "t", "position": 5, "id": 1}] * 2
    path = write(tmp_path / "in.jsonl", "\n".join(map(json.dumps, rows)))
    assert columns_of(path, text_column="body") == ["text", "position", "id"]


def test_plain_text_has_none(tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    write(folder / "1.txt", "one")
    write(folder / "2.txt", "two")
    assert columns_of(folder) == ["text", "position"]


def test_empty_files_before_the_first_one_with_rows_say_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    write(folder / "1.jsonl", "\n")
    write(folder / "2.jsonl", "\n".join(map(json.dumps, ROWS)))
    assert columns_of(folder) == ["text", "position", "id", "url", "tags"]


def test_a_first_record_that_is_no_object_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a JSON object, so its columns are unknown"):
        columns_of(write(tmp_path / "in.jsonl", "5\n" + json.dumps(ROWS[0])))


def test_all_and_some_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "in.jsonl", json.dumps(ROWS[0]))
    with pytest.raises(ConfigError, match="and others besides"):
        columns_of(path, columns=("*", "id"))
