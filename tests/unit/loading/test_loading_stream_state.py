"""A state restores exactly: the batches that would have come, whatever is read and whoever reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from stream_samples import as_sequences, expected, loader_of, taken, write_lines
from stream_samples import texts as many_texts

from krill.corpus import Corpus
from krill.errors import ConfigError, InputError
from krill.loading.stream import source as stream_source
from krill.loading.stream.loader import StreamingDataLoader


def texts() -> list[str]:
    return many_texts(70)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units of 2,048 bytes and blocks of 64: a state lies in the middle of all of them."""
    monkeypatch.setattr(stream_source, "UNIT_BYTES", 2048)


def write_all(kind: str, folder: Path) -> str:
    """The sample in one kind of file, or in several."""
    documents = texts()
    if kind == "many":
        for first in range(0, len(documents), 10):
            write_lines(folder / f"{first:03}.jsonl", documents[first : first + 10])
        return str(folder / "*.jsonl")
    if kind == "mixed":
        write_lines(folder / "1.jsonl", documents[:20])
        write_lines(folder / "2.jsonl.gz", documents[20:40])
        write_lines(folder / "3.jsonl.gz", documents[40:60])
        write_lines(folder / "4.jsonl", documents[60:])
        return str(folder)
    if kind == "remote":
        content = write_lines(folder / "local.jsonl", documents).read_bytes()
        fsspec.filesystem("memory").pipe("/stream/all.jsonl", content)
        return "memory://stream/all.jsonl"
    path = folder / f"all.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table({"text": documents}), path, row_group_size=17)
    else:
        write_lines(path, documents)
    return str(path)


def steps(loader: StreamingDataLoader) -> Iterator[tuple[dict[str, Any], list[list[int]]]]:
    """Each state of an epoch, as JSON keeps it, and the batch that comes next."""
    batches = iter(loader)
    while True:
        state = json.loads(json.dumps(loader.state_dict()))
        batch = next(batches, None)
        if batch is None:
            return
        yield state, as_sequences(batch)


def next_batches(loader: StreamingDataLoader) -> list[list[list[int]]]:
    """Four, or as many as are left; enough to reach into the next window."""
    return [as_sequences(batch) for batch in islice(loader, 4)]


@pytest.mark.parametrize("kind", ["jsonl", "jsonl.gz", "parquet", "many", "mixed", "remote"])
def test_every_state_of_an_epoch_restores_in_every_kind_of_file(kind: str, tmp_path: Path) -> None:
    source = write_all(kind, tmp_path)
    wanted = expected(texts())
    seen = list(steps(loader_of(source)))
    assert [batch for _, batch in seen] == wanted
    restored = loader_of(source)
    for number, (state, _) in enumerate(seen):
        restored.load_state_dict(state)
        assert (restored.epoch, restored.samples) == (0, 3 * number)
        assert next_batches(restored) == wanted[number : number + 4]
    for number in (len(seen) // 2, len(seen) - 1):
        restored.load_state_dict(seen[number][0])
        assert taken(restored) == wanted[number:]
        assert restored.epoch == 1


@pytest.mark.parametrize(
    "options",
    [
        {"stride": 2, "seq_len": 40},
        {"stride": 70},
        {"stride": 700, "batch_size": 1},
        {"max_examples": 47},
        {"streaming": False},
        {"shuffle_buffer_size": 0},
        {"shuffle_buffer_size": 2, "batch_size": 5},
        {"threads": 2},
        {"split": "train[20:60]"},
    ],
    ids=str,
)
def test_every_state_restores_with_every_option(options: dict[str, Any], tmp_path: Path) -> None:
    source = write_all("jsonl", tmp_path)
    seen = list(steps(loader_of(source, **options)))
    assert seen
    restored = loader_of(source, **options)
    step = max(1, len(seen) // 12)
    for number in range(0, len(seen), step):
        restored.load_state_dict(seen[number][0])
        assert next_batches(restored) == [batch for _, batch in seen[number : number + 4]]


def test_a_state_holds_on_another_number_of_ranks(tmp_path: Path) -> None:
    """Two ranks with batches of six take twelve sequences together, and so do four with batches of three."""
    source = write_all("jsonl", tmp_path)
    before = [loader_of(source, batch_size=6, rank=rank, world=2) for rank in range(2)]
    columns = [list(steps(loader)) for loader in before]
    for at, states in enumerate(zip(*columns, strict=True)):
        assert states[0][0] == states[1][0]  # the same on every rank
        if at % 3:
            continue
        after = [loader_of(source, batch_size=3, rank=rank, world=4) for rank in range(4)]
        for loader in after:
            loader.load_state_dict(states[0][0])
        rounds = zip(*(taken(loader) for loader in after), strict=True)
        rows = [[row for batch in batches for row in batch] for batches in rounds]
        assert rows == [columns[0][step][1] + columns[1][step][1] for step in range(at, len(columns[0]))]


def test_epochs_go_on_after_a_restored_one(tmp_path: Path) -> None:
    source = write_all("jsonl", tmp_path)
    loader = loader_of(source)
    taken(loader)
    after_an_epoch = loader.state_dict()
    next(iter(loader))
    in_the_second = loader.state_dict()
    for state, done in ((after_an_epoch, 0), (in_the_second, 1)):
        restored = loader_of(source)
        restored.load_state_dict(state)
        assert taken(restored) == expected(texts(), epoch=1)[done:]
        assert taken(restored) == expected(texts(), epoch=2)


def test_a_state_at_the_very_end_gives_no_batch_and_then_the_next_epoch(tmp_path: Path) -> None:
    source = write_all("jsonl", tmp_path)
    loader = loader_of(source)
    batches = iter(loader)
    for _ in expected(texts()):
        next(batches)
    restored = loader_of(source)
    restored.load_state_dict(loader.state_dict())
    assert taken(restored) == []
    assert taken(restored) == expected(texts(), epoch=1)


def test_set_epoch_begins_another_one_and_leaves_the_current_one_alone(tmp_path: Path) -> None:
    source = write_all("jsonl", tmp_path)
    loader = loader_of(source)
    next(iter(loader))
    loader.set_epoch(0)
    assert loader.samples == 3
    loader.set_epoch(5)
    assert (loader.epoch, loader.samples) == (5, 0)
    assert taken(loader) == expected(texts(), epoch=5)
    with pytest.raises(ConfigError, match="`epoch`: `-1`"):
        loader.set_epoch(-1)


def test_a_state_is_small_and_the_same_before_and_after_restoring(tmp_path: Path) -> None:
    source = write_all("many", tmp_path)
    loader = loader_of(source)
    for _, _ in zip(range(9), loader, strict=False):
        state = loader.state_dict()
        assert len(json.dumps(state)) < 600
        restored = loader_of(source)
        restored.load_state_dict(state)
        assert restored.state_dict() == state


def test_restoring_reads_no_more_than_a_buffer_again(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "a.jsonl", many_texts(200))
    whole = source.stat().st_size
    restored = loader_of(str(source))
    for state, batch in list(steps(loader_of(str(source))))[::9]:
        restored.load_state_dict(state)
        assert as_sequences(next(iter(restored))) == batch
        # A batch of 3 lies in two windows of 7 sequences of 16 bytes at the most; half of JSON is text, and
        # blocks of 64 bytes are read whole.
        assert restored.counts["bytes"] < 2 * (2 * 7 * 16) + 2 * 64 < whole / 10


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"seq_len": 8}, "`seq_len` was `16` and is `8`, `stride` was `16` and is `8`"),
        ({"stride": 3}, "`stride` was `16` and is `3`"),
        ({"seed": 1}, "`seed` was `42` and is `1`"),
        ({"shuffle_buffer_size": 8}, "`shuffle_buffer` was `7` and is `8`"),
        ({"streaming": False}, "`streaming` was `True` and is `False`"),
        ({"max_examples": 9}, "`max_examples` was `None` and is `9`"),
    ],
)
def test_the_state_of_another_loader_is_refused(
    changed: dict[str, Any], message: str, tmp_path: Path
) -> None:
    source = write_all("jsonl", tmp_path)
    state = loader_of(source).state_dict()
    with pytest.raises(ConfigError, match=message):
        loader_of(source, **changed).load_state_dict(state)


def test_another_batch_size_goes_on_with_the_next_sequence(tmp_path: Path) -> None:
    source = write_all("jsonl", tmp_path)
    loader = loader_of(source, batch_size=3)
    next(iter(loader))
    other = loader_of(source, batch_size=1)
    other.load_state_dict(loader.state_dict())
    assert taken(other) == expected(texts(), batch_size=1)[3:]


@pytest.mark.parametrize("change", ["content", "longer", "one file more"])
def test_input_that_changed_is_refused(change: str, tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", texts())
    size = (tmp_path / "a.jsonl").stat().st_size
    loader = loader_of(str(tmp_path / "*.jsonl"))
    next(iter(loader))
    state = loader.state_dict()
    documents = texts()
    documents[50] = documents[50].swapcase()
    if change == "one file more":
        write_lines(tmp_path / "b.jsonl", ["more"])
    else:
        write_lines(tmp_path / "a.jsonl", documents + ["more"] * (change == "longer"))
    with pytest.raises(
        InputError, match=f"1 file of {size:,} bytes then, (1 file|2 files) of [0-9,]+ bytes now"
    ):
        loader_of(str(tmp_path / "*.jsonl")).load_state_dict(state)


@pytest.mark.parametrize(
    "damage",
    [{"version": 99}, {"samples": -3}, {"samples": "3"}, {"tokens": None}, {"epoch": True}, {"input": 3}],
)
def test_a_damaged_state_is_refused(damage: dict[str, Any], tmp_path: Path) -> None:
    source = write_all("jsonl", tmp_path)
    loader = loader_of(source)
    with pytest.raises((ConfigError, InputError)):
        loader.load_state_dict({**loader.state_dict(), **damage})
    with pytest.raises(ConfigError, match="not the state of a StreamingDataLoader"):
        loader.load_state_dict({})
    assert taken(loader) == expected(texts())


def test_a_state_whose_numbers_contradict_each_other_is_refused(tmp_path: Path) -> None:
    loader = loader_of(write_all("jsonl", tmp_path))
    loader.load_state_dict({**loader.state_dict(), "window": 5})
    with pytest.raises(ConfigError, match="sequence 0 is in window 5"):
        next(iter(loader))


def test_nothing_is_hashed_until_a_state_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_all("jsonl", tmp_path)
    calls: list[str] = []
    fingerprints = Corpus.fingerprints
    monkeypatch.setattr(
        Corpus, "fingerprints", lambda corpus: [calls.append("read"), fingerprints(corpus)][1]
    )
    loader = loader_of(source)
    taken(loader)
    assert calls == []
    loader.state_dict()
    loader.state_dict()
    assert calls == ["read"]
