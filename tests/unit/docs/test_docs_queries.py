"""The queries that the page on duplicates shows, asked of both databases."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from docs_pages import DATA, ROOT, blocks_of

PAGE = ROOT / "docs" / "dedup.md"


@pytest.mark.parametrize(("form", "library"), [("database", sqlite3), ("duckdb", duckdb)])
def test_the_queries_of_the_page_are_answered(form: str, library: Any, tmp_path: Path, krill: Any) -> None:
    DATA["documents"](tmp_path)
    (block,) = [block for block in blocks_of(PAGE) if block.notes.get("file") == "config.yaml"]
    assert "dedup: database\n" in block.content
    (tmp_path / "config.yaml").write_text(block.content.replace("dedup: database", f"dedup: {form}"))
    assert krill("preprocess", "config.yaml", "--quiet", cwd=tmp_path).code == 0
    output = yaml.safe_load(block.content)["preprocess"]["prepared_path"]
    queries = [block.content for block in blocks_of(PAGE) if block.language == "sql"]
    assert len(queries) == 3
    (database,) = (tmp_path / "cache/dedup").glob("index.*")
    with closing(library.connect(str(database))) as connection:
        runs, sources, one = (connection.execute(query).fetchall() for query in queries)
    ((run, written, documents),) = runs
    assert (len(run), written, documents) == (64, output, 360)
    assert sorted(sources) == [("data/a.jsonl", 180, 0), ("data/b.jsonl", 180, 0)]
    ((kept_by, source, offset),) = one
    assert kept_by == run
    line = (tmp_path / source).read_bytes()[offset:].split(b"\n")[0]
    assert line.startswith(b'{"id": ')
