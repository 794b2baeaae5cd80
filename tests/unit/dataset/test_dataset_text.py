"""The Parquet shard on disk."""

from __future__ import annotations

import hashlib
import json
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dataset_samples import TEXT_SCHEMA, text_batch
from hypothesis import given
from hypothesis import strategies as st

from krill.dataset import ShardInfo, TextShardWriter
from krill.dataset import text_shard as module
from krill.dataset.shard_file import ShardFile
from krill.errors import BudgetError, InputError
from properties import tried


def write(path: Path, batches: list[pa.RecordBatch], schema: pa.Schema = TEXT_SCHEMA) -> ShardInfo:
    with TextShardWriter(path, schema) as writer:
        for batch in batches:
            writer.write(batch)
        return writer.close()


def row_groups(path: Path) -> list[int]:
    metadata = pq.ParquetFile(path).metadata
    return [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]


def test_documents_come_back_with_their_columns(tmp_path: Path) -> None:
    texts, urls = ["one", "", "drei \U0001f980"], ["a", None, "c"]
    shard = write(tmp_path / "text.parquet", [text_batch(texts, urls)])
    table = pq.read_table(tmp_path / "text.parquet")
    assert table.schema.equals(TEXT_SCHEMA)
    assert table.to_pydict() == {"text": texts, "url": urls}
    content = (tmp_path / "text.parquet").read_bytes()
    assert shard == ShardInfo("text.parquet", 3, len(content), hashlib.sha256(content).hexdigest())


def test_a_row_group_ends_with_the_document_that_fills_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets = 8 + 4  # of a text and of a URL
    monkeypatch.setattr(module, "ROW_GROUP_BYTES", 10 + 2 * offsets)
    write(tmp_path / "text.parquet", [text_batch(["x" * 5] * 3), text_batch(["x" * 25, "x" * 9, "x"])])
    assert row_groups(tmp_path / "text.parquet") == [2, 2, 2]


def test_a_row_group_is_filled_by_the_columns_carried_along_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ROW_GROUP_BYTES", 10_000)
    urls = ["u" * 3000 if row < 10 else None for row in range(20)]
    write(tmp_path / "text.parquet", [text_batch(["x"] * 20, urls)])
    assert row_groups(tmp_path / "text.parquet") == [4, 4, 12]


@tried(50)
@given(
    texts=st.lists(st.text(max_size=30), max_size=60),
    cuts=st.lists(st.integers(0, 60), max_size=8),
    gaps=st.sets(st.integers(0, 60)),
)
def test_the_bytes_do_not_depend_on_the_batches(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], cuts: list[int], gaps: set[int]
) -> None:
    folder = tmp_path_factory.mktemp("batches")
    urls = [None if row in gaps else f"https://example.org/{row}" for row in range(len(texts))]
    whole = text_batch(texts, urls)
    borders = sorted({0, len(texts), *(cut for cut in cuts if cut < len(texts))})
    pieces = [whole.slice(start, end - start) for start, end in pairwise(borders)]
    copies = [text_batch(texts[a:b], urls[a:b]) for a, b in pairwise(borders)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "ROW_GROUP_BYTES", 200)
        patch.setattr(module, "PAGE_BYTES", 40)
        digests = {write(folder / "text.parquet", batches).sha256 for batches in ([whole], pieces, copies)}
    assert len(digests) == 1
    assert pq.read_table(folder / "text.parquet").to_pydict() == {"text": texts, "url": urls}


def test_real_text_in_any_batches_gives_the_same_file(tmp_path: Path) -> None:
    sample = Path(__file__).parents[4] / "shared" / "data" / "docs_sample.jsonl.gz"
    if not sample.exists():
        pytest.skip("no shared data here")
    import gzip

    with gzip.open(sample, "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    whole = text_batch(texts)
    digests = set()
    for rows in (len(texts), 1009, 313):
        batches = [whole.slice(start, rows) for start in range(0, len(texts), rows)]
        digests.add(write(tmp_path / "text.parquet", batches).sha256)
    assert len(digests) == 1
    metadata = pq.ParquetFile(tmp_path / "text.parquet").metadata
    assert metadata.num_row_groups == sum(len(text.encode()) + 12 for text in texts) // 8_000_000 + 1
    assert metadata.row_group(0).column(0).compression == "ZSTD"
    assert metadata.row_group(0).column(0).statistics is None


def test_no_documents_make_an_empty_file(tmp_path: Path) -> None:
    assert write(tmp_path / "text.parquet", [text_batch([])]).rows == 0
    assert pq.read_table(tmp_path / "text.parquet").num_rows == 0


def test_text_of_another_type_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must be large_string, not string"):
        TextShardWriter(tmp_path / "text.parquet", pa.schema([("text", pa.string())]))
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_when_the_body_raises(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), TextShardWriter(tmp_path / "text.parquet", TEXT_SCHEMA) as writer:
        writer.write(text_batch(["a", "b"]))
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_a_column_that_parquet_can_not_hold_is_an_input_error(tmp_path: Path) -> None:
    schema = pa.schema([("text", pa.large_string()), ("empty", pa.struct([]))])
    with pytest.raises(
        InputError, match=r"cannot write the documents to .*text\.parquet`: .*empty"
    ) as caught:
        write(tmp_path / "text.parquet", [], schema)
    assert caught.value.hint == "leave the column out of `columns` under `datasets:`"
    assert list(tmp_path.iterdir()) == []


def test_a_row_group_that_takes_more_than_the_room_is_refused_before_it_is_read(tmp_path):
    shard = write(tmp_path / "text-00000.parquet", [text_batch(["a" * 3_000_000])])
    file = ShardFile(tmp_path, shard)
    with module.TextShardReader(file, room=10_000_000) as opened:
        assert opened.read(0, ["text"]).num_rows == 1
    with module.TextShardReader(file, room=8_000_000) as opened:
        with pytest.raises(BudgetError, match=r"takes 9\.\d+ MB to read, and 8\.00 MB are left") as refused:
            opened.read(0, ["text"])
        assert "more --memory" in refused.value.hint
