"""The seed's functions: the same calls, caches that are found again, chunks for other cache managers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from krill.errors import ConfigError, InputError
from krill.qa import (
    ChunkedCacheManager,
    LazySquadLikeQADataset,
    StreamingSquadProcessor,
    configure_memory_tokens,
    create_dataset_from_cache,
    create_evaluation_dataloader,
    process_and_cache_dataset,
)
from questions import story_file, tokenizer_of


@pytest.fixture
def source(tmp_path) -> str:
    return str(story_file(tmp_path / "squad.json"))


def processed(source: str, folder: Path, **changes: Any) -> int:
    options = {
        "dataset_name": source,
        "split": "train",
        "cache_dir": str(folder),
        "max_examples": None,
        "max_seq_length": 48,
        "doc_stride": 12,
        "streaming_chunk_size": 1000,
        "tokenizer": tokenizer_of("unigram", 2),
    }
    return process_and_cache_dataset(**{**options, **changes})


def opened(source: str, folder: Path, **changes: Any) -> Any:
    options = {
        "dataset_name": source,
        "split": "train",
        "cache_dir": str(folder),
        "max_examples": None,
        "max_seq_length": 48,
        "doc_stride": 12,
        "max_n_segs": None,
        "tokenizer": tokenizer_of("unigram", 2),
    }
    return create_dataset_from_cache(**{**options, **changes})


def test_a_cache_that_was_made_is_found_and_one_for_other_features_is_made(source, tmp_path) -> None:
    count = processed(source, tmp_path / "cache", use_streaming=False, streaming_chunk_size=7)
    assert len(list((tmp_path / "cache").iterdir())) == 1
    assert len(opened(source, tmp_path / "cache", use_lazy_loading=False)) == count
    assert len(list((tmp_path / "cache").iterdir())) == 1
    assert len(opened(source, tmp_path / "cache", doc_stride=16)) > count
    assert len(opened(source, tmp_path / "cache", tokenizer=tokenizer_of("unigram", 3))) > count
    assert len(list((tmp_path / "cache").iterdir())) == 3


def test_a_source_that_has_changed_is_never_served_from_the_old_cache(source, tmp_path) -> None:
    before = processed(source, tmp_path / "cache")
    story_file(Path(source), contexts=9)
    assert len(opened(source, tmp_path / "cache")) > before


def test_memory_tokens_are_added_once_and_told(tmp_path) -> None:
    tokenizer = tokenizer_of("unigram", 4)
    size = len(tokenizer)
    ids = configure_memory_tokens(tokenizer, memory_num_tokens=4)
    assert len(tokenizer) == size
    assert tokenizer.convert_ids_to_tokens(ids["mem_write_ids"]) == [f"[MEM_WRITE_{n}]" for n in range(4)]
    with pytest.raises(ConfigError, match="`memory_num_tokens` is `-1`"):
        configure_memory_tokens(tokenizer, -1)
    with pytest.raises(ConfigError, match="`str` is not a tokenizer that tokens can be added to"):
        configure_memory_tokens("tokenizer.json")


class Keeper:
    """A cache manager of somebody else's."""

    def __init__(self) -> None:
        self.chunks: dict[int, list[dict[str, Any]]] = {}

    def save_chunk(self, data: list[dict[str, Any]], dataset_name: str, split: str, chunk_id: int) -> None:
        self.chunks[chunk_id] = data


def test_any_cache_manager_gets_all_features_in_chunks(source, tmp_path) -> None:
    keeper = Keeper()
    processor = StreamingSquadProcessor(tokenizer_of("unigram", 2), 48, 12, streaming_chunk_size=10)
    count = processor.process_dataset_streaming(source, "train", None, keeper, max_n_segs=None)
    features = [feature for number in sorted(keeper.chunks) for feature in keeper.chunks[number]]
    expected = opened(source, tmp_path / "cache")
    assert len(features) == count == len(expected)
    assert all(len(chunk) == 10 for chunk in list(keeper.chunks.values())[:-1])
    for made, wanted in zip(features, expected, strict=True):
        assert all(np.array_equal(made[key], wanted[key]) for key in wanted)


def test_our_own_manager_reads_a_prepared_cache_in_chunks_and_keeps_chunks_that_are_saved(
    source, tmp_path
) -> None:
    manager = ChunkedCacheManager(tmp_path / "cache", chunk_size=10)
    assert not manager.cache_exists(source, "train")
    assert manager.load_chunk(source, "train", 0) == []
    processor = StreamingSquadProcessor(tokenizer_of("unigram", 2), 48, 12)
    count = processor.process_dataset_streaming(source, "train", cache_manager=manager)
    assert manager.cache_exists(source, "train")
    assert manager.get_total_chunks(source, "train") == -(-count // 10)
    params = {"tokenizer": tokenizer_of("unigram", 2), "max_seq_length": 48, "doc_stride": 12}
    lazy = LazySquadLikeQADataset(manager, source, "train", params, memory="100MB")
    assert len(lazy) == count
    chunk = manager.load_chunk(source, "train", 1)
    assert [feature["example_id"] for feature in chunk] == [lazy[n]["example_id"] for n in range(10, 20)]

    manager.save_chunk(chunk, "mine", "dev", 0)
    assert Path(manager.get_cache_path("mine", "dev", 0)).is_file()
    for made, wanted in zip(manager.load_chunk("mine", "dev", 0), chunk, strict=True):
        assert all(np.array_equal(made[key], wanted[key]) for key in wanted)
    assert manager.get_total_chunks("mine", "dev") == 1
    Path(manager.get_cache_path("mine", "dev", 0)).write_bytes(b"nothing")
    with pytest.raises(InputError, match="can't be read"):
        manager.load_chunk("mine", "dev", 0)


def test_a_lazy_dataset_makes_a_cache_that_is_missing(source, tmp_path) -> None:
    params = {"tokenizer": tokenizer_of("wordpiece"), "max_seq_length": 64, "doc_stride": 12}
    lazy = LazySquadLikeQADataset(ChunkedCacheManager(tmp_path / "new"), source, "train", params)
    assert lazy[0]["input_ids"].shape == (64,)


def test_evaluation_goes_over_everything_in_order(source, tmp_path) -> None:
    pytest.importorskip("torch")
    dataset, loader = create_evaluation_dataloader(
        source, "train", tokenizer_of("wordpiece"), 48, 12, cache_dir=str(tmp_path / "cache"), max_examples=9
    )
    ids = [example_id for steps in loader for example_id in steps[0]["example_ids"]]
    assert ids == dataset.get_all_documents()
    assert len(ids) == 9
