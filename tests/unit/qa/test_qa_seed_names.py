"""The seed's functions: the same calls, caches that are found again, chunks for other cache managers."""

from __future__ import annotations

import shutil
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
    load_dataset_from_hub,
    process_and_cache_dataset,
    upload_processed_dataset_to_hub,
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


class LocalHub:
    """What `huggingface_hub.HfApi` does, in a folder that is laid out as the hub's repositories are."""

    root: Path

    def __init__(self, token: str | None = None) -> None:
        self.token = token

    def create_repo(self, repo_id: str, *, repo_type: str, private: bool, exist_ok: bool) -> str:
        (self.root / repo_type / repo_id).mkdir(parents=True, exist_ok=exist_ok)
        return f"https://hub/datasets/{repo_id}"

    def upload_folder(
        self, *, repo_id: str, repo_type: str, folder_path: str, path_in_repo: str, commit_message: str
    ) -> None:
        shutil.copytree(folder_path, self.root / repo_type / repo_id / path_in_repo)

    def list_repo_files(self, repo_id: str, *, repo_type: str) -> list[str]:
        root = self.root / repo_type / repo_id
        return [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()]

    def snapshot_download(
        self, repo_id: str, *, repo_type: str, allow_patterns: list[str], local_dir: str
    ) -> str:
        root = self.root / repo_type / repo_id
        if not root.is_dir():
            raise OSError(f"404: no repository {repo_id}\nmore about it")
        for pattern in allow_patterns:
            for path in root.glob(pattern):
                target = Path(local_dir) / path.relative_to(root)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, target)
        return local_dir


@pytest.fixture
def hub(tmp_path, monkeypatch) -> Path:
    hub = pytest.importorskip("huggingface_hub")
    monkeypatch.setattr(hub, "HfApi", type("Hub", (LocalHub,), {"root": tmp_path / "hub"}))
    return tmp_path / "hub"


def test_a_cache_goes_to_the_hub_and_comes_back_without_being_made_again(source, tmp_path, hub) -> None:
    tokenizer = tokenizer_of("unigram", 2)
    address = upload_processed_dataset_to_hub(
        source, "train", "me/features", tokenizer, 48, 12, cache_dir=str(tmp_path / "cache")
    )
    assert address == "https://hub/datasets/me/features"
    (repository,) = (hub / "dataset" / "me" / "features").iterdir()
    marked = repository / "krill-run.json"
    marked.write_text(marked.read_text().replace('"command"', '"note": "from the hub", "command"'))
    found = opened(source, tmp_path / "elsewhere", hub_dataset_id="me/features")
    assert found.manifest["note"] == "from the hub"
    assert len(found) == len(opened(source, tmp_path / "cache"))
    # Other features than those that are there are made here.
    other = opened(source, tmp_path / "elsewhere", hub_dataset_id="me/features", doc_stride=16)
    assert "note" not in other.manifest
    direct = load_dataset_from_hub("me/features", "train", str(tmp_path / "direct"))
    assert direct.manifest["note"] == "from the hub"
    with pytest.raises(InputError, match="has 0 caches of the split `dev`"):
        load_dataset_from_hub("me/features", "dev", str(tmp_path / "direct"))


def test_a_repository_that_is_not_there_is_said(source, tmp_path, hub) -> None:
    with pytest.raises(InputError, match=r"`me/none` can't be read: 404: no repository me/none\n"):
        opened(source, tmp_path / "cache", hub_dataset_id="me/none").manifest  # noqa: B018
    assert len(opened(source, tmp_path / "cache", hub_dataset_id="me/none", use_hub_dataset=False)) > 0
