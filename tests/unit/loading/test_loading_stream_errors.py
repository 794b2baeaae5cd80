"""Whatever a user can get wrong about a stream is said, with what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from stream_samples import loader_of, taken, texts, write_lines

from krill.errors import BudgetError, ConfigError, InputError
from krill.loading.stream.loader import StreamingDataLoader
from krill.tokenizer import ByteEncoder


@pytest.fixture
def source(tmp_path: Path) -> str:
    return str(write_lines(tmp_path / "a.jsonl", texts()))


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ({"seq_len": 0}, "`seq_len` is `0`", "at least 1"),
        ({"seq_len": 2.5}, "`seq_len` is `2.5`", "whole number"),
        ({"seq_len": True}, "`seq_len` is `True`", "whole number"),
        ({"seq_len": 2**31}, "`seq_len` is `2147483648`", "tokens of one sequence"),
        ({"batch_size": 0}, "`batch_size` is `0`", "at least 1"),
        ({"batch_size": -1}, "`batch_size` is `-1`", "at least 1"),
        ({"stride": 0}, "`stride` is `0`", "at least 1"),
        ({"stride": -4}, "`stride` is `-4`", "at least 1"),
        ({"shuffle_buffer_size": -1}, "`shuffle_buffer_size` is `-1`", "at least 0"),
        ({"shuffle_buffer_bytes": "lots"}, "shuffle_buffer_bytes: `lots` is not a size", "512MB"),
        ({"max_examples": 0}, "`max_examples` is `0`", "at least 1"),
        ({"max_document_bytes": 10}, "`max_document_bytes` is `10`", "1KB"),
        ({"seed": "x"}, "`seed` is `x`", "whole number"),
        ({"rank": 2, "world": 2}, "`rank` is `2` of `world` `2`", "from 0"),
        ({"world": 0}, "`world` is `0`", "at least 1"),
        ({"labels": "both"}, "`labels` is `both`", "`shifted` or `hf`"),
        ({"on_error": "ignore"}, "`on_error` is `ignore`", "`fail` or `skip`"),
        ({"threads": 0}, "`threads` is `0`", "from 1"),
        ({"dataset_config": "en"}, "is no dataset of the hub", "leave it out"),
    ],
)
def test_an_argument_that_cannot_be_is_named(
    options: dict[str, Any], message: str, hint: str, source: str
) -> None:
    with pytest.raises(ConfigError) as error:
        loader_of(source, **options)
    assert message in error.value.message
    assert hint in str(error.value.hint)


@pytest.mark.parametrize("given", [[], "", [""], [3]])
def test_a_dataset_that_is_no_path_is_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match="`dataset_id`"):
        loader_of(given)


def test_a_file_that_is_not_there_is_said_when_the_loader_is_made(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no such file: `.*missing.jsonl`"):
        loader_of(str(tmp_path / "missing.jsonl"))


def test_a_column_that_is_not_there_is_said_with_those_that_are(source: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no column `body` in `.*`; there are: `text`"):
        taken(loader_of(source, text_column="body"))
    pq.write_table(pa.table({"words": ["a"]}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"no column `text` in `.*`; there are: `words`"):
        taken(loader_of(tmp_path / "a.parquet"))


def test_a_malformed_record_is_named_or_left_out_and_counted(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", texts())
    path.write_bytes(path.read_bytes() + b'{"text": "half\n' + path.read_bytes())
    with pytest.raises(InputError, match="line 121"):
        taken(loader_of(str(path)))
    loader = loader_of(str(path), on_error="skip")
    next(iter(loader))
    assert (loader.counts["documents"], loader.counts["malformed"]) == (240, 1)


def test_too_little_text_for_one_batch_is_said_with_the_numbers(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "a.jsonl", ["abc", "", "defg"])
    with pytest.raises(InputError) as error:
        taken(loader_of(str(source), seq_len=4, batch_size=3))
    assert "3 documents have 9 tokens, which is 2 sequences of seq_len 4" in error.value.message
    assert "a batch takes 3" in error.value.message
    with pytest.raises(InputError, match=r"0 sequences of seq_len 100 .* a batch takes 1 on each of 2 ranks"):
        taken(loader_of(str(source), seq_len=100, batch_size=1, world=2))


def test_a_budget_that_is_too_small_is_refused_before_reading(source: str) -> None:
    with pytest.raises(BudgetError) as error:
        loader_of(source, memory="1MB")
    assert "the budget is too small" in error.value.message
    assert "preprocess." not in str(error.value.hint)
    with pytest.raises(BudgetError, match="set shuffle_buffer_size or shuffle_buffer_bytes lower"):
        loader_of(source, shuffle_buffer_size=10**9, shuffle_buffer_bytes="5GB")


def test_more_sequences_than_the_budget_holds_are_refused_with_what_they_take(tmp_path: Path) -> None:
    """The estimate is made of the first ones, so that nobody waits for the last."""
    source = write_lines(tmp_path / "a.jsonl", ["some text that is not long, but long enough"] * 150_000)
    options = {"seq_len": 512, "stride": 16, "streaming": False, "max_document_bytes": "64KB"}
    loader = loader_of(str(source), memory="60MB", **options)
    with pytest.raises(BudgetError) as error:
        taken(loader)
    assert "would take" in error.value.message
    assert "leave `streaming` on" in str(error.value.hint)
    assert loader.counts == {}
    # What is known to be left is not counted: a slice, or the first documents.
    for few in ({"max_examples": 2000}, {"split": "train[:2000]"}):
        batches = sum(1 for _ in loader_of(str(source), memory="60MB", **options, **few))
        assert batches == ((2000 * 44 - 513) // 16 + 1) // 3
    # As many as fit, and one more.
    room = loader.plan.share("sequences held in memory") // (513 * 2)
    exact = write_lines(tmp_path / "b.jsonl", ["x" * (16 * room + 512)])
    with pytest.raises(BudgetError, match=f"all sequences, about {room + 1:,} or more"):
        taken(loader_of(str(exact), memory="60MB", **options))


@pytest.mark.parametrize("tokenizer", [3, None, object(), ["a"]], ids=lambda given: type(given).__name__)
def test_what_is_no_tokenizer_is_refused(source: str, tokenizer: Any) -> None:
    with pytest.raises(ConfigError, match="`tokenizer` is a `") as error:
        StreamingDataLoader(source, tokenizer)
    assert "tokenizers.Tokenizer" in str(error.value.hint)


def test_a_tokenizer_that_is_not_there_is_said(source: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no tokenizer at `.*nowhere`"):
        StreamingDataLoader(source, tmp_path / "nowhere")


def test_the_error_of_a_worker_leaves_the_loader_usable(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", texts())
    good = path.read_bytes()
    loader = StreamingDataLoader(str(path), ByteEncoder(), seq_len=16, batch_size=3, shuffle_buffer_size=7)
    path.write_bytes(b"[" * len(good))
    with pytest.raises(InputError):
        taken(loader)
    path.write_bytes(good)
    assert len(taken(loader)) > 0
