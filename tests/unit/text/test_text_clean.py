"""The cleaning step is held to its reference, whatever the batch looks like."""

from __future__ import annotations

import gzip
from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from call_counts import calls_of
from krill.corpus.documents import Documents
from krill.text import CleanText, Step
from oracles.clean import reference_clean
from properties import tried

SAMPLE = Path(__file__).parents[4] / "shared" / "data" / "docs_sample.jsonl.gz"


def documents_of(texts: list[bytes | None], text_type: pa.DataType | None = None) -> Documents:
    """A batch as a reader makes it: the bytes are taken for strings without a look at them."""
    binary = pa.array(texts, pa.large_binary())
    text = pa.Array.from_buffers(pa.large_string(), len(binary), binary.buffers())
    if text_type is not None:
        text = text.cast(text_type)
    position = pa.array([10 * row for row in range(len(texts))], pa.uint64())
    origin = pa.array([f"row {row}" for row in range(len(texts))], pa.string())
    return Documents(pa.RecordBatch.from_arrays([text, position, origin], ["text", "position", "origin"]), {})


def test_clean_is_a_step() -> None:
    step: Step = CleanText(strip=True, min_chars=0)
    assert step.apply(documents_of([b" a "])).batch["text"].to_pylist() == ["a"]


@given(
    texts=st.lists(st.one_of(st.none(), st.binary(max_size=30), st.text(max_size=30).map(str.encode))),
    strip=st.booleans(),
    min_chars=st.integers(0, 10),
    cut=st.tuples(st.integers(0, 4), st.integers(0, 4)),
)
@tried(80)
def test_a_batch_is_cleaned_row_by_row_as_the_reference_does(
    texts: list[bytes | None], strip: bool, min_chars: int, cut: tuple[int, int]
) -> None:
    whole = documents_of(texts).batch
    first, last = cut[0], max(cut[0], len(texts) - cut[1])
    result = CleanText(strip, min_chars).apply(Documents(whole.slice(first, last - first), {}))

    cleaned = [reference_clean(text, strip, min_chars) for text in texts]
    rows = [row for row in range(len(texts))[first:last] if cleaned[row] is not None]
    result.batch.validate(full=True)
    assert result.batch.to_pydict() == {
        "text": [cleaned[row] for row in rows],
        "position": [10 * row for row in rows],
        "origin": [f"row {row}" for row in rows],
    }


@pytest.mark.parametrize("text_type", [pa.string(), pa.large_string()])
def test_both_string_types_give_large_strings(text_type: pa.DataType) -> None:
    result = CleanText(True, 2).apply(documents_of([b" ab ", None, b"c", b"de\xff"], text_type)).batch
    assert result.schema.field("text").type == pa.large_string()
    assert result["text"].to_pylist() == ["ab", "de"]


def test_drops_and_repairs_are_counted_beside_what_the_reader_counted() -> None:
    read = documents_of([b"good text", None, b"short", b"\xffrepaired"])
    counted = Documents(read.batch, {"records": 5, "malformed": 1, "not_text": 1})
    assert CleanText(True, 6).apply(counted).counts == {
        "records": 5,
        "malformed": 1,
        "not_text": 1,  # the null that the reader counted is the null dropped here
        "too_short": 1,
        "invalid_utf8": 1,
    }


def test_columns_are_not_copied_when_every_row_survives() -> None:
    before = documents_of([b" ab ", b"cd"])
    after = CleanText(True, 1).apply(before)
    for name in ("position", "origin"):
        old, new = before.batch[name].buffers(), after.batch[name].buffers()
        assert [buffer and buffer.address for buffer in new] == [buffer and buffer.address for buffer in old]


def test_an_empty_batch_stays_empty() -> None:
    result = CleanText(True, 1).apply(documents_of([])).batch
    assert (result.num_rows, result.schema.names) == (0, ["text", "position", "origin"])


def test_cleaning_twice_changes_nothing() -> None:
    step = CleanText(True, 3)
    once = step.apply(documents_of([b"\xff a\xe2\x82 \xffbc \xff", b"\xc3 \xa9abc", b"  \xff  "]))
    assert step.apply(once).batch.equals(once.batch)


@pytest.mark.skipif(not SAMPLE.exists(), reason="the shared sample is not here")
def test_real_text_is_cleaned_as_the_reference_does() -> None:
    with gzip.open(SAMPLE) as lines:
        texts: list[bytes | None] = [orjson.loads(line)["text"].encode() for line in lines]
    expected = [reference_clean(text, True, 100) for text in texts]
    result = CleanText(True, 100).apply(documents_of(texts))
    assert result.batch["text"].to_pylist() == [text for text in expected if text is not None]
    assert result.counts["too_short"] == expected.count(None)


def test_cleaning_takes_as_many_calls_with_a_thousand_carried_columns_as_with_ten() -> None:
    def wide(columns: int) -> Documents:
        batch = documents_of([b"a document", b"another one", b"short"]).batch
        origin = batch.column(2)
        names = [*batch.schema.names, *(f"c{at}" for at in range(columns))]
        return Documents(pa.RecordBatch.from_arrays([*batch.columns, *[origin] * columns], names), {})

    for min_chars in (0, 8):  # all are kept; one is dropped
        few, many = wide(10), wide(1000)
        step = CleanText(strip=True, min_chars=min_chars)
        assert calls_of(lambda: step.apply(many)) == calls_of(lambda: step.apply(few))  # noqa: B023
