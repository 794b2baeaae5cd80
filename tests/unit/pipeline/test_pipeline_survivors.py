"""Documents that are read, cleaned and hashed in one native call are those of the separate steps."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from krill.corpus import DatasetSource, Documents, open_corpus
from krill.corpus.blocks import RangeBlock
from krill.errors import InputError
from krill.pipeline.surviving_units import hashes_of, survivors
from krill.text.clean import CleanText
from properties import tried

_FILES = tried(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
# What cleaning looks at: spaces of all kinds, bytes that are not UTF-8, texts around the limit of length.
_TEXT = st.lists(
    st.sampled_from([b"a", b" ", b"\xc3\xa9", b"\xff", b"\xe2\x80\x83", b"word ", b"\xf0\x9f"]), max_size=12
).map(b"".join)
_RECORD = st.one_of(
    _TEXT.map(lambda text: b'{"text": "' + text + b'"}'),
    st.sampled_from([b'{"text": null}', b'{"other": 1}', b"{broken", b'{"text": "\\ud800 lone"}']),
)


def _blocks(path: Path, **given: Any) -> list[RangeBlock]:
    corpus = open_corpus(
        [DatasetSource(str(path))],
        unit_bytes=32_000_000,
        max_document_bytes=4_000_000,
        drop_oversize=False,
        skip_malformed=True,
        default_separator="<|end|>",
        batch_rows=None,
        **given,
    )
    blocks = [block for unit in corpus.units() for block in corpus.blocks(unit)]
    assert all(isinstance(block, RangeBlock) for block in blocks)
    return blocks  # type: ignore[return-value]


def _facts(documents: Documents) -> tuple[Any, ...]:
    counts = {name: count for name, count in documents.counts.items() if count}
    rejected = [
        # Null texts and bytes that are not UTF-8 as they came.
        [(field.name, rows.column(field.name).cast(pa.large_binary()).to_pylist()) for field in rows.schema]
        for rows in map(_as_binary, documents.rejected or ())
    ]
    batch = documents.batch
    return batch.schema.names, batch.to_pydict(), counts, hashes_of(documents).tolist(), rejected


def _as_binary(rows: pa.RecordBatch) -> pa.RecordBatch:
    positions = pa.array(list(map(str, rows.column("position").to_pylist())), pa.large_string())
    return rows.set_column(rows.schema.get_field_index("position"), "position", positions)


def _in_both_ways(path: Path, clean: CleanText) -> tuple[list[Any], list[Any]]:
    """What the one call gives for each block, and what the steps give one after the other."""
    at_once = [survivors(block, [clean], collect=True) for block in _blocks(path)]
    assert all(documents.hashes is not None for documents in at_once)
    apart = [clean.apply(replace(block.documents(), rejected=())) for block in _blocks(path)]
    assert all(documents.hashes is None for documents in apart)
    return [_facts(each) for each in at_once], [_facts(each) for each in apart]


@_FILES
@given(st.lists(_RECORD, max_size=20), st.booleans(), st.integers(0, 6))
def test_json_lines_give_the_same_documents_counts_and_hashes(
    tmp_path: Path, records: list[bytes], strip: bool, min_chars: int
) -> None:
    path = tmp_path / "made.jsonl"
    # One good record first: without any, there is no text column.
    path.write_bytes(b"\n".join([b'{"text": "first of all"}', *records]) + b"\n")
    at_once, apart = _in_both_ways(path, CleanText(strip, min_chars))
    assert at_once == apart


@_FILES
@given(st.lists(_TEXT, min_size=1, max_size=20), st.booleans(), st.integers(0, 6))
def test_plain_text_gives_the_same_documents_counts_and_hashes(
    tmp_path: Path, documents: list[bytes], strip: bool, min_chars: int
) -> None:
    path = tmp_path / "made.txt"
    path.write_bytes(b"<|end|>".join([b"first of all", *documents]))
    at_once, apart = _in_both_ways(path, CleanText(strip, min_chars))
    assert at_once == apart


def test_a_file_that_became_shorter_is_named(tmp_path: Path) -> None:
    path = tmp_path / "made.jsonl"
    path.write_text("".join(json.dumps({"text": "some words"}) + "\n" for _ in range(10)))
    (block,) = _blocks(path)
    path.write_text("")
    with pytest.raises(InputError, match=r"made\.jsonl.*shorter"):
        survivors(block, [CleanText(strip=True, min_chars=1)])


def test_rejected_documents_can_still_be_had(tmp_path: Path) -> None:
    path = tmp_path / "made.jsonl"
    path.write_text('{"text": "long enough"}\n{"text": "no"}\n')
    (block,) = _blocks(path)
    documents = survivors(block, [CleanText(strip=True, min_chars=5)], collect=True)
    assert documents.rejected is not None
    assert [row["text"] for batch in documents.rejected for row in batch.to_pylist()] == ["no"]
