"""`--push`, against a small hub on this machine that speaks the real one's protocol."""

import socket
import sys

import pytest

from krill.errors import ConfigError, InputError, MissingExtra, StorageError
from krill.tokenizer.files import push_tokenizer, save
from krill.tokenizer.options import TrainOptions
from local_hub import serving
from oracles.tokenizer import train

pytest.importorskip("huggingface_hub")


@pytest.fixture
def hub(monkeypatch):
    # A made-up token: the client sends none of the machine's own to the stand-in.
    monkeypatch.setenv("HF_TOKEN", "made-up")
    with serving() as server:
        yield server


@pytest.fixture
def folder(tmp_path):
    save(train({b"ab": 2, b"bc": 1}, TrainOptions(vocab_size=300)), tmp_path / "tokenizer", tiktoken=True)
    (tmp_path / "tokenizer" / "krill-run.json").write_text("{}")
    return tmp_path / "tokenizer"


def test_the_tokenizers_files_are_uploaded_and_nothing_else(hub, folder):
    address = push_tokenizer(folder, "me/tokenizer", endpoint=hub.address)
    assert address == f"{hub.address}/me/tokenizer"
    pushed = hub.repositories["me/tokenizer"]
    assert sorted(pushed) == [
        "merges.txt",
        "tokenizer.json",
        "tokenizer.tiktoken",
        "tokenizer_config.json",
        "vocab.json",
    ]
    assert all(content == (folder / name).read_bytes() for name, content in pushed.items())
    assert hub.private == set()


def test_a_repository_can_be_private(hub, folder):
    push_tokenizer(folder, "me/mine", private=True, endpoint=hub.address)
    assert hub.private == {"me/mine"}


def test_a_refusal_says_how_to_log_in(hub, folder):
    with pytest.raises(StorageError, match=r"the hub refused the upload to `stranger/theirs`") as error:
        push_tokenizer(folder, "stranger/theirs", endpoint=hub.address)
    assert "hf auth login" in str(error.value)
    assert "403" in str(error.value)


def test_a_hub_that_is_not_there_is_named_and_the_tokenizer_is_safe(folder, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "made-up")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with pytest.raises(StorageError, match="can't reach the hub for `me/tokenizer`") as error:
        push_tokenizer(folder, "me/tokenizer", endpoint=f"http://127.0.0.1:{port}")
    assert f"safe in `{folder}`" in str(error.value)


def test_what_is_no_repository_id_is_refused(hub, folder):
    with pytest.raises(ConfigError, match="`a/b/c` is not the id of a repository"):
        push_tokenizer(folder, "a/b/c", endpoint=hub.address)
    assert hub.repositories == {}


def test_a_folder_without_a_tokenizer_is_refused(tmp_path):
    with pytest.raises(InputError, match="no tokenizer at"):
        push_tokenizer(tmp_path, "me/tokenizer")


def test_without_the_extra_the_error_says_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtra, match="needs the extra `hub`") as error:
        push_tokenizer(folder, "me/tokenizer")
    assert "pip install 'krill-lm[hub]'" in str(error.value)
