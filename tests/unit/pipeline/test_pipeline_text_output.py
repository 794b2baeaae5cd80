"""The text output: columns of all sources, what filters measured, and the documents that were dropped."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import krill
from call_counts import calls_of
from krill.errors import ConfigError, InputError
from krill.pipeline.stages.text import write_shard

_WORDS = [
    f"{first}{second}" for first in ("wha", "kri", "ocea", "pla") for second in ("le", "ll", "nic", "nk")
]
LONG = " ".join(random.Random(1).choices([*_WORDS, "the", "and", "of", "to"], k=120))


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def run(folder: Path, datasets: list[dict[str, Any]], **preprocess: Any) -> dict[str, Any]:
    settings = {"output": "text", "prepared_path": str(folder / "out"), **preprocess}
    return krill.preprocess({"datasets": datasets, "preprocess": settings}, memory="400MB").to_json()


def read(folder: Path, name: str = "text") -> pa.Table:
    return pq.read_table(sorted((folder / "out").glob(f"{name}-*.parquet")))


def test_columns_of_all_sources_are_one_table(tmp_path: Path) -> None:
    one = write(tmp_path / "one.jsonl", [{"text": "1 " + LONG, "id": "a", "url": "u"}])
    two = write(tmp_path / "two.jsonl", [{"text": "2 " + LONG, "id": "b", "date": "d"}])
    three = write(tmp_path / "three.jsonl", [{"text": "3 " + LONG}])
    run(tmp_path, [{"path": one, "columns": "*"}, {"path": two, "columns": ["date", "id"]}, {"path": three}])
    table = read(tmp_path)
    assert table.schema.names == ["text", "id", "url", "date"]
    assert table["id"].to_pylist() == ["a", "b", None]
    assert table["url"].to_pylist() == ["u", None, None]
    assert table["date"].to_pylist() == [None, "d", None]


def test_columns_of_one_name_and_two_types_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["1 " + LONG], "id": [5]}), tmp_path / "one.parquet")
    two = write(tmp_path / "two.jsonl", [{"text": "2 " + LONG, "id": "b"}])
    datasets = [
        {"path": str(tmp_path / "one.parquet"), "columns": ["id"]},
        {"path": two, "columns": ["id"]},
    ]
    with pytest.raises(InputError, match=r"the column `id` is `int64` in .* but `large_string` in"):
        run(tmp_path, datasets)


def test_what_filters_measured_is_kept_and_gives_way_to_a_second_measurement(tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", [{"text": LONG, "id": "a"}])
    filters = [{"gopher_quality": {"min_doc_words": 10}}]
    run(tmp_path, [{"path": source, "columns": "*"}], filters=filters, statistics=True)
    first = read(tmp_path)
    measured = [name for name in first.schema.names if name not in ("text", "id")]
    assert "gopher_words" in measured
    (tmp_path / "out").rename(tmp_path / "first")
    again = [{"path": str(tmp_path / "first"), "columns": "*"}]
    run(tmp_path, again, filters=filters, statistics=True)
    second = read(tmp_path)
    assert set(second.schema.names) >= {"text", "id", *measured}
    assert second["text"].to_pylist() == first["text"].to_pylist()


def test_every_rejected_document_is_there_with_its_reason_and_its_columns(tmp_path: Path) -> None:
    rows = [
        {"text": LONG, "id": "kept"},
        {"text": None, "id": "null"},
        {"text": " short ", "id": "short"},
        {"text": "word " * 400, "id": "repeats"},
        {"text": LONG, "id": "copy"},
        {"text": "y\ud800" + LONG, "id": "mended"},
    ]
    source = write(tmp_path / "in.jsonl", rows)
    found = run(tmp_path, [{"path": source, "columns": ["id"]}], filters=["gopher_repetition"], rejected=True)
    assert read(tmp_path)["id"].to_pylist() == ["kept", "mended"]
    table = read(tmp_path, "rejected")
    reasons = dict(zip(table["id"].to_pylist(), table["reason"].to_pylist(), strict=True))
    assert reasons.keys() == {"null", "short", "repeats", "copy"}
    assert (reasons["null"], reasons["short"], reasons["copy"]) == ("not_text", "too_short", "duplicate")
    assert reasons["repeats"].startswith("gopher_")
    texts = dict(zip(table["id"].to_pylist(), table["text"].to_pylist(), strict=True))
    assert texts["null"] is None
    assert (texts["short"], texts["copy"]) == (" short ", LONG.strip())
    assert sum(found["documents"]["dropped"].values()) == table.num_rows == 4
    assert found["rejected"] == {"rows": 4, "shards": 1}


def test_documents_dropped_for_their_tokens_are_rejected_too(tmp_path: Path) -> None:
    rows = [{"text": LONG}, {"text": LONG[:150]}, {"text": LONG + LONG}, {"text": "b" + LONG}]
    source = write(tmp_path / "in.jsonl", rows)
    config = {
        "datasets": [{"path": source}],
        "tokenizer": {"builtin": "bytes"},
        "preprocess": {
            "prepared_path": str(tmp_path / "out"),
            "sequence_len": 64,
            "min_length": 200,
            "max_length": 1000,
            "rejected": True,
        },
    }
    krill.preprocess(config, memory="400MB")
    table = read(tmp_path, "rejected")
    assert table["reason"].to_pylist() == ["too_few_tokens", "too_many_tokens"]
    assert table["text"].to_pylist() == [LONG[:150].strip(), LONG + LONG]


def test_a_rejected_output_is_checked_by_validate(tmp_path: Path) -> None:
    from krill.dataset import validate

    source = write(tmp_path / "in.jsonl", [{"text": LONG}, {"text": "short"}])
    run(tmp_path, [{"path": source}], rejected=True)
    assert validate(tmp_path / "out").files == 2
    path = tmp_path / "out" / "rejected-00000.parquet"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(InputError, match=r"rejected-00000\.parquet"):
        validate(tmp_path / "out")


def test_a_step_given_in_python_is_applied_and_belongs_to_the_run(tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", [{"text": LONG}, {"text": "b" + LONG}])
    config = {
        "datasets": [{"path": source}],
        "preprocess": {"output": "text", "prepared_path": str(tmp_path / "out")},
    }

    def without_b(batch: pa.RecordBatch) -> list[bool]:
        return [not text.as_py().startswith("b") for text in batch.column("text")]

    found = krill.preprocess(config, memory="400MB", steps=[without_b]).to_json()
    assert read(tmp_path)["text"].to_pylist() == [LONG.strip()]
    assert found["documents"]["dropped"] == {"step:without_b": 1}
    with pytest.raises(ConfigError, match="a step of your own"):
        krill.preprocess(config, memory="400MB")


def test_writing_the_next_batch_takes_as_many_calls_for_a_thousand_columns_as_for_ten(tmp_path: Path) -> None:
    def wide(columns: int) -> tuple[pa.Schema, pa.RecordBatch]:
        column = pa.array(["one", None, "three"], pa.large_string())
        carried = pa.schema([(f"c{at}", pa.large_string()) for at in range(columns)])
        position = pa.array([1, 2, 3], pa.uint64())
        batch = pa.RecordBatch.from_arrays(
            [column, position, *[column] * columns], ["text", "position", *carried.names]
        )
        return carried, batch

    def calls_for_one_more(columns: int) -> int:
        carried, batch = wide(columns)
        counts = [
            calls_of(lambda: write_shard(tmp_path / "shard", carried, iter([batch] * times)))  # noqa: B023
            for times in (2, 3)
        ]
        return counts[1] - counts[0]

    assert calls_for_one_more(1000) == calls_for_one_more(10)
