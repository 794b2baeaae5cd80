"""Caches to the hub and back, against a small hub on this machine that speaks the real one's protocol."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from krill.errors import ConfigError, InputError, KrillError, MissingExtra, StorageError
from krill.qa import (
    QaDataset,
    create_dataset_from_cache,
    load_dataset_from_hub,
    upload_processed_dataset_to_hub,
)
from local_hub import Hub, serving
from questions import story_file, tokenizer_of

constants = pytest.importorskip("huggingface_hub.constants")


def point_to(address: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", address)
    template = address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)


@pytest.fixture
def hub(monkeypatch) -> Iterator[Hub]:
    # A made-up token: the client sends none of the machine's own to the stand-in.
    monkeypatch.setenv("HF_TOKEN", "made-up")
    with serving() as server:
        point_to(server.address, monkeypatch)
        yield server


@pytest.fixture
def source(tmp_path) -> str:
    return str(story_file(tmp_path / "squad.json"))


def uploaded(source: str, folder: Path, repository: str = "me/features", **changes: Any) -> str:
    return upload_processed_dataset_to_hub(
        source, "train", repository, tokenizer_of("unigram", 2), 48, 12, cache_dir=str(folder), **changes
    )


def opened(source: str, folder: Path, repository: str | None, doc_stride: int = 12, **more: Any) -> QaDataset:
    return create_dataset_from_cache(
        source,
        "train",
        str(folder),
        None,
        48,
        doc_stride,
        tokenizer=tokenizer_of("unigram", 2),
        hub_dataset_id=repository,
        **more,
    )


def noted(hub: Hub, repository: str) -> str:
    """Mark what is there, so that it can be told from what is made here; returns the cache's name."""
    files = hub.repositories[repository]
    (name,) = (path for path in files if path.endswith("/krill-run.json"))
    files[name] = json.dumps({**json.loads(files[name]), "note": "from the hub"}).encode()
    return name.partition("/")[0]


def test_a_cache_goes_to_the_hub_and_comes_back_without_being_made_again(source, tmp_path, hub) -> None:
    assert uploaded(source, tmp_path / "cache") == f"{hub.address}/datasets/me/features"
    name = noted(hub, "me/features")
    here = {path.name for path in (tmp_path / "cache" / name).iterdir()}
    assert {path.removeprefix(f"{name}/") for path in hub.repositories["me/features"]} == here
    found = opened(source, tmp_path / "elsewhere", "me/features")
    assert found.manifest["note"] == "from the hub"
    own = opened(source, tmp_path / "cache", None)
    assert [one["input_ids"].tolist() for one in found] == [one["input_ids"].tolist() for one in own]
    # Other features than those that are there are made here.
    other = opened(source, tmp_path / "elsewhere", "me/features", doc_stride=16)
    assert "note" not in other.manifest
    direct = load_dataset_from_hub("me/features", "train", str(tmp_path / "direct"))
    assert direct.manifest["note"] == "from the hub"
    with pytest.raises(InputError, match="has 0 caches of the split `dev`"):
        load_dataset_from_hub("me/features", "dev", str(tmp_path / "direct"))
    assert sorted(path.name for path in (tmp_path / "direct").iterdir()) == [name]


def test_where_the_questions_lay_is_not_told(source, tmp_path, hub) -> None:
    uploaded(source, tmp_path / "cache")
    assert not any(str(tmp_path).encode() in content for content in hub.repositories["me/features"].values())


def test_a_private_cache_is_seen_with_a_token_only(source, tmp_path, hub, monkeypatch) -> None:
    uploaded(source, tmp_path / "cache", "me/mine", private=True, hub_token="made-up-too")
    assert hub.private == {"me/mine"}
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "nothing"))
    with pytest.raises(InputError, match=r"the hub refused the download from `me/mine`: .*404") as refused:
        load_dataset_from_hub("me/mine", "train", str(tmp_path / "direct"))
    assert "hf auth login" in str(refused.value.hint)
    found = load_dataset_from_hub("me/mine", "train", str(tmp_path / "direct"), hub_token="made-up-too")
    assert len(found) > 24


def test_a_repository_that_is_not_there_is_said(source, tmp_path, hub) -> None:
    with pytest.raises(InputError, match=r"the hub refused the download from `me/none`: .*404"):
        opened(source, tmp_path / "cache", "me/none")
    assert len(opened(source, tmp_path / "cache", "me/none", use_hub_dataset=False)) > 24


def test_what_can_t_be_written_or_is_no_id_is_said(source, tmp_path, hub) -> None:
    with pytest.raises(StorageError, match=r"the hub refused the upload to `stranger/theirs`: .*403"):
        uploaded(source, tmp_path / "cache", "stranger/theirs")
    for call in (uploaded, opened):
        with pytest.raises(ConfigError, match="`a/b/c` is not the id of a repository"):
            call(source, tmp_path / call.__name__, "a/b/c")
    assert hub.repositories == {}


@pytest.mark.parametrize("offline", [False, True])
def test_a_hub_that_can_t_be_reached_is_an_error_and_not_an_empty_repository(
    source, tmp_path, monkeypatch, offline
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        point_to(f"http://127.0.0.1:{unused.getsockname()[1]}", monkeypatch)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)
    monkeypatch.setattr("time.sleep", lambda _: None)  # between the client's five attempts
    with pytest.raises(InputError, match="can't reach the hub for `me/features`") as refused:
        opened(source, tmp_path / "cache", "me/features")
    assert "HF_HUB_OFFLINE" in str(refused.value.hint)
    with pytest.raises(StorageError, match="can't reach the hub for `me/features`"):
        uploaded(source, tmp_path / "cache")


@pytest.mark.parametrize(
    ("file", "damage", "said"),
    [
        ("features-00000.arrow", lambda content: content[:200], "features-00000.arrow` has the checksum"),
        # The last offset of the contexts' text points far behind it.
        (
            "paragraphs-00000.arrow",
            lambda content: content.replace(b"\0\0\0\0\0\0\0\0", b"\xff\xff\0\0\0\0\0\0"),
            "paragraphs-00000.arrow` has the checksum",
        ),
        ("krill-run.json", lambda content: b"{", "krill-run.json` can't be read"),
        ("examples-00000.arrow", None, "lacks `examples-00000.arrow`"),
    ],
)
def test_a_cache_that_somebody_has_damaged_is_refused_and_not_kept(
    source, tmp_path, hub, file, damage, said
) -> None:
    uploaded(source, tmp_path / "cache")
    files = hub.repositories["me/features"]
    path = f"{noted(hub, 'me/features')}/{file}"
    if damage is None:
        del files[path]
    else:
        files[path] = damage(files[path])
    with pytest.raises(KrillError, match=said):
        opened(source, tmp_path / "elsewhere", "me/features")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_without_the_extra_the_command_that_installs_it_is_told(source, tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtra, match="hub"):
        load_dataset_from_hub("me/features", "train", str(tmp_path))
