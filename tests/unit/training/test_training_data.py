"""What a model is trained on: the same batches from rows or text, from any state, and nothing else."""

from __future__ import annotations

import json
from itertools import islice

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import krill
from krill.config import load_config
from krill.errors import ConfigError, InputError
from krill.threads.progress import Silent
from krill.tokenizer import ByteEncoder
from krill.tokenizer.open import open_encoder
from krill.training.data import check_ids, open_data, with_segments
from krill.training.vocabulary import byte_tokenizer_bytes, mean_token_bytes, token_bytes
from properties import tried
from real_text import real_texts
from tiny_trainings import prepare, write_text

COLUMNS = {"input_ids", "labels", "segment_ids", "position_ids"}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    prepare(folder)
    return folder


def opened(home, *, streaming=False, overrides=()):
    from tiny_trainings import tiny_config

    config = load_config(tiny_config(home, streaming=streaming), overrides=["seed=3", *overrides], environ={})
    return open_data(config, 10**9)


def same(left, right):
    return all(np.array_equal(left[name], right[name]) for name in COLUMNS)


@pytest.mark.parametrize("streaming", [False, True])
def test_batches_go_on_from_a_state_across_epochs(home, streaming):
    extra = ["train.seq_len=32", "train.batch_size=4"]
    data, other = (opened(home, streaming=streaming, overrides=extra) for _ in range(2))
    steps = data.steps_per_epoch(Silent())
    batches = data.batches()
    first = list(islice(batches, steps - 1))
    state = json.loads(json.dumps(data.state_dict()))
    later = list(islice(batches, 3))  # the last of this epoch, and two of the next
    other.load_state_dict(state)
    assert all(same(*pair) for pair in zip(later, islice(other.batches(), 3), strict=True))
    assert set(first[0]) == COLUMNS
    assert all(column.shape == (4, 32) and column.dtype == np.int32 for column in first[0].values())
    # An epoch has every row once: the next one brings the same rows in another order.
    rows = {row.tobytes() for batch in [*first, later[0]] for row in batch["input_ids"]}
    assert len(rows) == 4 * steps
    assert not same(first[0], later[1])


def test_labels_are_the_next_tokens_and_documents_don_t_see_each_other(home):
    for streaming in (False, True):
        batch = next(opened(home, streaming=streaming, overrides=["train.seq_len=32"]).batches())
        ids, labels, segments = batch["input_ids"], batch["labels"], batch["segment_ids"]
        inside = segments[:, 1:] == segments[:, :-1]
        assert np.array_equal(labels[:, :-1][inside], ids[:, 1:][inside])
        assert (labels[:, :-1][~inside] == -100).all()
        assert (batch["position_ids"][:, 1:][~inside] == 0).all()


def test_validation_rows_come_once_and_the_last_batch_is_filled_up(home):
    data = opened(home)
    everything = data.validation(4, None)
    rows = sum(int((batch["labels"] >= 0).any(axis=1).sum()) for batch in everything)
    assert rows == len(krill.load(home / "dataset", split="validation"))
    assert {batch["labels"].shape for batch in everything} == {(4, 32)}
    some = data.validation(4, 6)
    assert len(some) == 2
    # Some rows are taken from everywhere, the same ones each time.
    known = {row.tobytes() for batch in everything for row in batch["labels"]}
    assert {row.tobytes() for row in some[0]["labels"]} < known
    assert not np.array_equal(some[0]["labels"], everything[0]["labels"])
    assert np.array_equal(some[0]["labels"], opened(home).validation(4, 6)[0]["labels"])
    assert (some[1]["labels"][2:] == -100).all()
    assert (some[1]["labels"][:2] >= 0).any(axis=1).all()


def test_text_that_is_streamed_has_no_validation_rows(home):
    assert opened(home, streaming=True).validation(4, None) == []


@pytest.mark.parametrize(("wanted", "kind"), [(64, "longer"), (16, "shorter")])
def test_rows_of_another_length_are_refused(home, wanted, kind):
    with pytest.raises(ConfigError, match=f"`{wanted}`, {kind} than the rows .* which have 32 tokens"):
        opened(home, overrides=[f"train.seq_len={wanted}"])


def test_a_dataset_that_is_not_there_is_told_with_every_way_to_have_one(tmp_path):
    with pytest.raises(InputError, match="there is no dataset at") as error:
        opened(tmp_path)
    for way in ("krill preprocess CONFIG", "krill run CONFIG", "train.streaming: true"):
        assert way in error.value.hint


def test_another_tokenizer_than_the_dataset_s_is_refused_with_both_sizes(home, tmp_path):
    write_text(tmp_path)
    krill.tokenizer.train(tmp_path / "input.jsonl", vocab_size=300, output=tmp_path / "tok", memory="200MB")
    with pytest.raises(InputError, match="its vocabulary has 257 tokens, the config's 300"):
        opened(home, overrides=["tokenizer.builtin=null", f"tokenizer.path={tmp_path / 'tok'}"])


@pytest.mark.parametrize("key", ["weight", "max_tokens"])
def test_streaming_refuses_what_only_preparing_can_do(home, key):
    with pytest.raises(ConfigError, match=f"`datasets.0.{key}` is set"):
        opened(home, streaming=True, overrides=[f"datasets.0.{key}=2"])


def test_streaming_needs_text_and_a_tokenizer(home):
    with pytest.raises(ConfigError, match="`datasets` is missing"):
        opened(home, streaming=True, overrides=["datasets=[]"])
    with pytest.raises(ConfigError, match="`tokenizer` is missing"):
        opened(home, streaming=True, overrides=["tokenizer.builtin=null"])


def test_ids_beyond_the_vocabulary_are_refused():
    check_ids({"input_ids": np.array([[0, 256]])}, 257, "rows")
    with pytest.raises(InputError, match="has the token id `257`, and the vocabulary only 257 ids"):
        check_ids({"input_ids": np.array([[0, 257]])}, 257, "rows")


@tried(60)
@given(st.lists(st.lists(st.integers(0, 3), min_size=7, max_size=7), min_size=1, max_size=3))
def test_documents_are_told_apart_as_a_loop_over_tokens_would(rows):
    ids = np.array([row[:-1] for row in rows], np.int32)
    labels = np.array([row[1:] for row in rows], np.int32)
    batch = with_segments({"input_ids": ids, "labels": labels}, eos_id=0)
    for row, found in enumerate(ids.tolist()):
        document = position = 0
        for place, token in enumerate(found):
            assert batch["segment_ids"][row, place] == document
            assert batch["position_ids"][row, place] == position
            assert batch["labels"][row, place] == (-100 if token == 0 else labels[row, place])
            document, position = (document + 1, 0) if token == 0 else (document, position + 1)


def test_the_bytes_of_all_tokens_are_those_of_the_text(tmp_path):
    write_text(tmp_path)
    krill.tokenizer.train(tmp_path / "input.jsonl", vocab_size=400, output=tmp_path / "tok", memory="200MB")
    file = tmp_path / "tok" / "tokenizer.json"
    texts = [text[:2000] for text in islice(real_texts(), 10, 20)]
    size = sum(len(text.encode()) for text in texts)
    config = load_config({"tokenizer": {"path": str(file)}}, environ={}).tokenizer
    ids, _ = open_encoder(config).encode(pa.array(texts, pa.large_string()))
    assert token_bytes(file).of(ids.astype(np.int32)) == size  # the ends of documents are no text
    plain, _ = ByteEncoder().encode(pa.array(texts, pa.large_string()))
    assert byte_tokenizer_bytes().of(plain.astype(np.int32)) == size
    # Decoding tells the same, but for characters that the rows cut in two.
    mean = mean_token_bytes(file, 400, np.array_split(ids, 5))
    assert mean.of(ids.astype(np.int32)) == pytest.approx(size, rel=0.002)
    assert not mean.exact
