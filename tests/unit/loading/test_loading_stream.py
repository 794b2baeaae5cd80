"""Text becomes batches: the tokens, sequences, order and counts that the reference says."""

from __future__ import annotations

import gc
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stream_samples import as_sequences, expected, loader_of, taken, texts, write_lines

from krill.corpus import DatasetSource
from krill.errors import InputError
from krill.loading.stream import shuffle_buffer
from krill.loading.stream import source as stream_source
from krill.loading.stream.loader import StreamingDataLoader
from krill.loading.stream.options import stream_sources
from krill.loading.stream.shuffle_buffer import ShuffleBuffer, WindowOrder
from krill.tokenizer import ByteEncoder


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units of 2,048 bytes and blocks of 64: a document or two each."""
    monkeypatch.setattr(stream_source, "UNIT_BYTES", 2048)


def test_a_batch_has_inputs_and_the_labels_that_follow_them(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "a.jsonl", ["abcdefgh", "ij"])
    (batch,) = loader_of(str(source), seq_len=5, batch_size=2, shuffle_buffer_size=1)
    assert batch["input_ids"].tolist() == [[97, 98, 99, 100, 101], [102, 103, 104, 256, 105]]
    assert batch["labels"].tolist() == [[98, 99, 100, 101, 102], [103, 104, 256, 105, 106]]
    assert {array.dtype for array in batch.values()} == {np.dtype(np.int32)}
    assert all(array.flags.c_contiguous and array.flags.owndata for array in batch.values())


def test_labels_for_hugging_face_are_the_inputs_as_int64(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "a.jsonl", texts())
    for batch in loader_of(str(source), labels="hf"):
        assert batch["labels"].dtype == np.int64
        assert (batch["labels"] == batch["input_ids"]).all()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    documents=st.lists(st.text("ab\n é", max_size=40), max_size=30),
    seq_len=st.integers(1, 12),
    stride=st.sampled_from([None, 1, 3, 11, 40, 90]),
    batch_size=st.integers(1, 4),
    world=st.integers(1, 3),
    buffer=st.sampled_from([1, 2, 5, 1000]),
    block=st.sampled_from([64, 2048, 1 << 25]),
    threads=st.integers(1, 2),
)
def test_batches_are_those_of_the_reference(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    documents: list[str],
    seq_len: int,
    stride: int | None,
    batch_size: int,
    world: int,
    buffer: int,
    block: int,
    threads: int,
) -> None:
    monkeypatch.setattr(stream_source, "UNIT_BYTES", block)
    source = write_lines(tmp_path_factory.mktemp("stream") / "a.jsonl", documents)
    shape = {"seq_len": seq_len, "stride": stride, "batch_size": batch_size, "world": world}
    for rank in range(world):
        wanted = expected(documents, window=buffer, rank=rank, **shape)
        if wanted:
            loader = loader_of(str(source), shuffle_buffer_size=buffer, rank=rank, threads=threads, **shape)
            assert taken(loader) == wanted


def test_each_epoch_has_the_same_sequences_in_another_order(tmp_path: Path, small_blocks: None) -> None:
    source = write_lines(tmp_path / "a.jsonl", texts())
    loader = loader_of(str(source))
    epochs = [taken(loader) for _ in range(3)]
    assert epochs == [expected(texts(), epoch=epoch) for epoch in range(3)]
    assert epochs[0] != epochs[1] != epochs[2]
    assert loader.epoch == 3


def test_the_seed_decides_the_order_and_nothing_else(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "a.jsonl", texts())
    one, other = (
        [row for batch in taken(loader_of(str(source), seed=seed, batch_size=1)) for row in batch]
        for seed in (1, 2)
    )
    assert one != other
    assert sorted(one) == sorted(other)


def test_neither_memory_nor_threads_change_a_batch(tmp_path: Path, small_blocks: None) -> None:
    source = write_lines(tmp_path / "a.jsonl", texts())
    wanted = taken(loader_of(str(source)))
    for threads, memory in ((2, "200MB"), (2, "1GB"), (1, "90MB")):
        assert taken(loader_of(str(source), threads=threads, memory=memory)) == wanted


def test_the_bytes_of_the_buffer_bound_it_as_well(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "a.jsonl", texts())
    # A sequence of 16 + 1 tokens of two bytes.
    loader = loader_of(str(source), shuffle_buffer_size=1000, shuffle_buffer_bytes=7 * 17 * 2 + 1)
    assert taken(loader) == expected(texts(), window=7)
    assert loader.plan.share("shuffle buffer") == 7 * 17 * 2
    assert taken(loader_of(str(source), shuffle_buffer_bytes=0)) == expected(texts(), window=1)


def test_without_streaming_all_sequences_are_shuffled_together(tmp_path: Path, small_blocks: None) -> None:
    source = write_lines(tmp_path / "a.jsonl", texts())
    loader = loader_of(str(source), streaming=False)
    assert [taken(loader), taken(loader)] == [expected(texts(), window=None, epoch=epoch) for epoch in (0, 1)]
    assert loader.plan.worst_peak == 200_000_000


def test_empty_documents_are_left_out_and_counted(tmp_path: Path) -> None:
    documents = ["", *texts(60), None, "", *texts(60)]
    source = write_lines(tmp_path / "a.jsonl", documents)
    loader = loader_of(str(source))
    assert loader.counts == {}
    batches = iter(loader)
    next(batches)
    kept = [text for text in documents if text]
    tokens = sum(len(text.encode()) + 1 for text in kept)
    assert loader.counts == {
        "documents": len(documents),
        "empty": 3,
        "tokens": tokens,
        "bytes": source.stat().st_size,
    }


@pytest.mark.parametrize("most", [1, 59, 60, 61, 119, 120, 500])
def test_max_examples_are_documents_of_the_dataset(tmp_path: Path, small_blocks: None, most: int) -> None:
    documents = ["", *texts(119)]
    source = write_lines(tmp_path / "a.jsonl", documents)
    options = {"max_examples": most, "seq_len": 2, "batch_size": 1, "stride": 5, "threads": 2}
    if most == 1:
        with pytest.raises(InputError, match="1 documents have 0 tokens"):
            taken(loader_of(str(source), **options))
        return
    loader = loader_of(str(source), **options)
    assert taken(loader) == expected(documents[:most], seq_len=2, batch_size=1, stride=5)


def test_sources_of_all_kinds_give_the_same_batches(tmp_path: Path, small_blocks: None) -> None:
    documents = texts()
    half = len(documents) // 2
    write_lines(tmp_path / "1.jsonl", documents[:half])
    write_lines(tmp_path / "2.jsonl.gz", documents[half:])
    pq.write_table(pa.table({"body": documents}), tmp_path / "all.parquet", row_group_size=17)
    (tmp_path / "all.txt").write_text("<|endoftext|>".join(documents))
    wanted = expected(documents)
    assert taken(loader_of([str(tmp_path / "1.jsonl"), tmp_path / "2.jsonl.gz"])) == wanted
    assert taken(loader_of(str(tmp_path / "*.jsonl*"))) == wanted
    assert taken(loader_of(tmp_path / "all.parquet", text_column="body")) == wanted
    assert taken(loader_of(DatasetSource(str(tmp_path / "all.parquet"), text_column="body"))) == wanted
    assert taken(loader_of(tmp_path / "all.txt")) == wanted
    sliced = taken(loader_of(tmp_path / "all.parquet", text_column="body", split="train[10:70]"))
    assert sliced == expected(documents[10:70])


def test_a_document_above_the_limit_is_split(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "a.jsonl", ["x" * 1500])
    loader = loader_of(str(source), max_document_bytes=1024, batch_size=1, shuffle_buffer_size=0)
    assert taken(loader) == expected(["x" * 1024, "x" * 476], window=1, batch_size=1)
    assert loader_of(str(source)).counts == {}


def test_several_iterators_share_one_place(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "a.jsonl", texts())
    wanted = expected(texts())
    loader = loader_of(str(source))
    first, second = iter(loader), iter(loader)
    assert [as_sequences(next(which)) for which in (first, second, first)] == wanted[:3]
    loader.close()
    assert taken(loader) == wanted[3:]
    with loader:
        assert as_sequences(next(iter(loader))) == expected(texts(), epoch=1)[0]


def test_an_interrupted_batch_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_lines(tmp_path / "a.jsonl", texts())
    loader = loader_of(str(source), batch_size=5)
    batches = iter(loader)
    first = as_sequences(next(batches))

    def interrupted(self: object) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(ShuffleBuffer, "advance", interrupted)
        next(batches)  # reaches from the first window into the second
    assert [first, *taken(loader)] == expected(texts(), batch_size=5)


def test_python_runs_for_blocks_and_batches_and_not_for_documents(tmp_path: Path) -> None:
    """The same tokens in 2,000 documents and in 40: the same calls, but for the waiting of threads."""
    calls = []
    for documents in (["x" * 20] * 2000, ["x" * 1049] * 40):
        loader = loader_of(str(write_lines(tmp_path / "a.jsonl", documents)), seq_len=128, batch_size=32)
        counted = Counter[str]()

        def count(frame: object, event: str, argument: object, counted: Counter[str] = counted) -> None:
            counted[event] += 1

        threading.setprofile(count)
        sys.setprofile(count)
        try:
            batches = sum(1 for _ in loader)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
        calls.append((batches, counted["call"]))
    assert calls[0][0] == calls[1][0] == 10
    assert abs(calls[0][1] - calls[1][1]) < 100


class HeldEncoder(ByteEncoder):
    """Encodes so many blocks; whoever comes with the next one waits until it is released."""

    def __init__(self, blocks: int) -> None:
        self._left = blocks
        self.reached = threading.Event()
        self.released = threading.Event()

    def encode(self, text: pa.Array) -> tuple[Any, Any]:
        self._left -= 1
        if self._left < 0:
            self.reached.set()
            assert self.released.wait(30)
        return super().encode(text)


def test_a_loader_that_is_dropped_halfway_leaves_no_threads_to_the_garbage_collector(
    tmp_path: Path, small_blocks: None
) -> None:
    """It may run anywhere, also where a thread is started: waiting for threads there would never end."""

    def reading() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name.startswith("krill_")]

    source = write_lines(tmp_path / "a.jsonl", texts(1000))
    gc.collect()
    loader_of(str(source)).close()
    taken(loader_of(str(source)))
    before = reading()
    encoder = HeldEncoder(508)  # the first batch takes 507 blocks, and two more are begun meanwhile
    sizes = {"seq_len": 16, "batch_size": 1, "shuffle_buffer_size": 1, "memory": "200MB", "threads": 1}
    dropped = StreamingDataLoader(str(source), encoder, **sizes)
    next(iter(dropped))
    assert encoder.reached.wait(30)
    cycle = [dropped]
    cycle.append(cycle)
    del cycle, dropped
    gc.collect()
    (waiting,) = (thread for thread in reading() if thread not in before)  # nobody waited for it
    assert waiting.is_alive()
    encoder.released.set()
    waiting.join(30)
    assert reading() == before
    assert taken(loader_of(str(source))) == expected(texts(1000))
    assert reading() == before


@settings(max_examples=25)
@given(st.integers(1, 200), st.data())
def test_an_order_has_each_number_once_whatever_stretches_are_asked_for(
    count: int, data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, count - 1))
    last = data.draw(st.integers(first + 1, count))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shuffle_buffer, "ORDERED_AT_ONCE", 16)
        order = WindowOrder(count, (1, 2, 3))
        assert Counter(order(0, count).tolist()) == Counter(range(count))
        assert order(first, last).tolist() == order(0, count)[first:last].tolist()
        assert WindowOrder(count, None)(first, last).tolist() == list(range(first, last))


def test_neighbours_end_up_a_third_of_the_window_apart() -> None:
    order = WindowOrder(10_000, (42, 0, 0))(0, 10_000)
    places = np.empty(10_000, np.int64)
    places[order] = np.arange(10_000)
    assert abs(np.abs(np.diff(places)).mean() / (10_000 / 3) - 1) < 0.02
    assert abs(np.corrcoef(order, np.arange(10_000))[0, 1]) < 0.03


def test_a_configuration_is_one_of_a_dataset_on_the_hub() -> None:
    like = DatasetSource("", text_column="body", split="validation")
    found = stream_sources(["org/one", "org/two"], "en", like)
    assert found == [
        DatasetSource(f"org/{name}:en", text_column="body", split="validation") for name in ("one", "two")
    ]
