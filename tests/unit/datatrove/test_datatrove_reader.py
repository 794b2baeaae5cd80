"""`KrillReader` gives the documents of Krill's sources, shared out over tasks by file."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("datatrove")

from krill.datatrove import KrillReader


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three files of JSON lines with an id and a column besides, one of them with an empty text."""
    for number in range(3):
        rows = [
            {"text": f"text {number}.{row}", "id": f"{number}-{row}", "url": f"u{row}"} for row in range(4)
        ]
        rows[3]["text"] = "" if number == 1 else rows[3]["text"]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"part-{number}.jsonl").write_text(lines)
    return tmp_path


def test_documents_come_with_ids_metadata_and_the_path_of_their_file(folder: Path) -> None:
    documents = list(KrillReader(str(folder)).run())
    assert [document.id for document in documents][:5] == ["0-0", "0-1", "0-2", "0-3", "1-0"]
    assert len(documents) == 11
    assert documents[4].text == "text 1.0"
    assert documents[4].metadata == {"url": "u0", "file_path": str(folder / "part-1.jsonl")}


def test_tasks_share_the_files_and_read_each_once(folder: Path) -> None:
    reader = KrillReader(str(folder), columns=())
    parts = [[document.text for document in reader.run(rank=rank, world_size=2)] for rank in range(2)]
    assert [len(part) for part in parts] == [8, 3]
    assert parts[1] == ["text 1.0", "text 1.1", "text 1.2"]


def test_without_an_id_a_document_is_named_by_its_place(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["one", "two"], "n": [1, 2]}), tmp_path / "rows.parquet")
    documents = list(KrillReader(str(tmp_path / "rows.parquet")).run())
    assert [document.id for document in documents] == [f"{tmp_path}/rows.parquet/{row}" for row in range(2)]
    assert [document.metadata["n"] for document in documents] == [1, 2]


def test_a_limit_is_kept_and_what_comes_in_goes_first(folder: Path) -> None:
    first, *_ = KrillReader(str(folder)).run()
    documents = list(KrillReader(str(folder), limit=2).run(iter([first])))
    assert [document.id for document in documents] == ["0-0", "0-0", "0-1"]


def test_metadata_that_datatrove_wrote_stand_beside_the_other_columns(tmp_path: Path) -> None:
    lines = [
        '{"text": "a", "n": 1, "metadata": {"url": "u", "m": [1]}}',
        '{"text": "b", "n": 2, "metadata": "{no"}',
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines) + "\n")
    first, second = KrillReader(str(tmp_path / "rows.jsonl")).run()
    path = str(tmp_path / "rows.jsonl")
    assert first.metadata == {"n": "1", "url": "u", "m": [1], "file_path": path}
    assert second.metadata == {"n": "2", "metadata": "{no", "file_path": path}


def test_a_task_without_a_file_reads_nothing(folder: Path) -> None:
    assert list(KrillReader(str(folder)).run(rank=4, world_size=5)) == []
