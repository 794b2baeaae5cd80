"""The manifest: what it keeps, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from dataset_samples import Rows, save_manifest, write_dataset, write_text

from krill.dataset import MANIFEST_NAME, Layout, Manifest
from krill.errors import InputError


def dataset_folder(folder: Path) -> dict[str, Any]:
    write_dataset(folder, Rows(Layout(8, "uint16", 4), 21), 10)
    return read(folder)


def read(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = orjson.loads((folder / MANIFEST_NAME).read_bytes())
    return content


def change(folder: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    content = read(folder)
    edit(content)
    (folder / MANIFEST_NAME).write_bytes(orjson.dumps(content))


def test_a_manifest_survives_save_and_load(tmp_path: Path) -> None:
    saved = write_dataset(tmp_path, Rows(Layout(8, "uint16", 4), 21), 10)
    assert Manifest.load(tmp_path) == saved
    assert saved.dataset is not None
    assert (saved.dataset.rows, saved.dataset.tokens) == (21, 168)


def test_a_text_manifest_survives_save_and_load(tmp_path: Path) -> None:
    saved = write_text(tmp_path, [["a", "b"], ["c"]])
    assert Manifest.load(tmp_path) == saved
    assert saved.text is not None
    assert saved.text.rows == 3


def test_fields_come_in_a_fixed_order(tmp_path: Path) -> None:
    content = dataset_folder(tmp_path)
    assert list(content) == [
        "format",
        "krill",
        "command",
        "identity",
        "config",
        "inputs",
        "budget",
        "seconds",
        "stages",
        "documents",
        "tokens",
        "dataset",
        "text",
        "tokenizer",
    ]
    assert list(content["dataset"]) == [
        "sequence_len",
        "token_dtype",
        "rows_per_batch",
        "rows",
        "tokens",
        "shards",
    ]
    assert list(content["dataset"]["shards"][0]) == ["file", "rows", "bytes", "sha256", "batches"]


def test_a_shard_takes_one_line(tmp_path: Path) -> None:
    dataset_folder(tmp_path)
    lines = (tmp_path / MANIFEST_NAME).read_text().splitlines()
    assert sum("data-0000" in line and "batches" in line for line in lines) == 3


def test_fields_of_a_newer_version_survive(tmp_path: Path) -> None:
    dataset_folder(tmp_path)

    def add(content: dict[str, Any]) -> None:
        content["novel"] = {"a": [1]}
        content["dataset"]["novel"] = 2
        content["dataset"]["shards"][1]["novel"] = 3

    change(tmp_path, add)
    Manifest.load(tmp_path).save(tmp_path)
    content = read(tmp_path)
    assert content["novel"] == {"a": [1]}
    assert content["dataset"]["novel"] == 2
    assert content["dataset"]["shards"][1]["novel"] == 3


def set_at(*path: Any) -> Callable[[dict[str, Any]], None]:
    """An edit that sets the value at a path: the last argument is the value."""
    *keys, last, value = path

    def edit(content: Any) -> None:
        for key in keys:
            content = content[key]
        content[last] = value

    return edit


SHARD = ("dataset", "shards", 0)
HUGE = 2**62


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            set_at(*SHARD, "file", "../data-00000.arrow"),
            "`dataset.shards[0].file` must be a file name inside",
        ),
        (set_at(*SHARD, "file", "/etc/passwd"), "`dataset.shards[0].file` must be a file name inside"),
        (set_at(*SHARD, "file", "a/b.arrow"), "`dataset.shards[0].file` must be a file name inside"),
        (set_at(*SHARD, "file", "a\\b.arrow"), "`dataset.shards[0].file` must be a file name inside"),
        (set_at(*SHARD, "file", ".."), "`dataset.shards[0].file` must be a file name inside"),
        (set_at(*SHARD, "file", ""), "`dataset.shards[0].file` must be a file name inside"),
        (set_at(*SHARD, "file", "a\0b"), "`dataset.shards[0].file` must be a file name inside"),
        (set_at(*SHARD, "file", "x" * 300), "`dataset.shards[0].file` must be a file name inside"),
        (set_at(*SHARD, "file", 3), "`dataset.shards[0].file` must be a string, not `3`"),
        (
            set_at(*SHARD, "file", "data-00001.arrow"),
            "`dataset.shards[1].file` names `data-00001.arrow` a second",
        ),
        (
            set_at(*SHARD, "batches", 2, HUGE),
            "`dataset.shards[0].batches[2]` is `4611686018427387904`, not below",
        ),
        (set_at(*SHARD, "batches", 1, 0), "`dataset.shards[0].batches[0]` is `"),
        (set_at(*SHARD, "batches", 0, -8), "`dataset.shards[0].batches[0]` must be between 0 and"),
        (set_at(*SHARD, "batches", 0, 1.5), "`dataset.shards[0].batches[0]` must be an integer, not `1.5`"),
        (set_at(*SHARD, "batches", [8]), "`dataset.shards[0].batches` has 1 offsets for 10 rows"),
        (set_at(*SHARD, "batches", None), "`dataset.shards[0].batches` must be a list"),
        (set_at(*SHARD, "rows", -1), "`dataset.shards[0].rows` must be between 0 and"),
        (set_at(*SHARD, "rows", True), "`dataset.shards[0].rows` must be an integer, not `True`"),
        (set_at(*SHARD, "rows", 9), "`dataset.rows` is 21, but the shards add up to 20"),
        (set_at(*SHARD, "bytes", "12"), "`dataset.shards[0].bytes` must be an integer, not `'12'`"),
        (
            set_at(*SHARD, "sha256", "abc"),
            "`dataset.shards[0].sha256` must be 64 hexadecimal digits, not `abc`",
        ),
        (set_at("dataset", "shards", 0, None), "`dataset.shards[0]` must be an object, not `None`"),
        (set_at("dataset", "shards", {}), "`dataset.shards` must be a list, not `dict`"),
        (set_at("dataset", "sequence_len", 2**30), "`dataset.shards[0].rows` is 10, more than"),
        (set_at("dataset", "sequence_len", 2**40), "`dataset.sequence_len` must be between 1 and 2147483647"),
        (set_at("dataset", "token_dtype", "float32"), "`dataset.token_dtype` must be one of uint8"),
        (set_at("dataset", "rows_per_batch", 0), "`dataset.rows_per_batch` must be between 1 and"),
        (set_at("dataset", "tokens", 1), "`dataset.tokens` is 1, but the shards add up to 168"),
        (set_at("dataset", []), "`dataset` must be an object, not `list`"),
        (set_at("tokenizer", None), "`tokenizer` must be an object, not `None`"),
        (set_at("tokenizer", "vocab_size", 0), "`tokenizer.vocab_size` must be between 1 and"),
        (set_at("krill", None), "`krill` must be a string, not `None`"),
        (set_at("config", []), "`config` must be an object, not `list`"),
        (set_at("inputs", ["a"]), "`inputs[0]` must be an object, not `'a'`"),
        (set_at("stages", "scan"), "`stages` must be a list, not `'scan'`"),
        (set_at("seconds", -1), "`seconds` must be a non-negative number, not `-1`"),
        (set_at("documents", "kept", -3), "`documents.kept` must be between 0 and"),
        (
            set_at("documents", "dropped", "too_short", 0.5),
            "`documents.dropped.too_short` must be an integer",
        ),
        (set_at("stages", 0, "peak", -1), "`stages[0].peak` must be between 0 and"),
        (lambda content: content["stages"][0].pop("seconds"), "`stages[0].seconds` is missing"),
        (lambda content: content["documents"].pop("read"), "`documents.read` is missing"),
        (set_at("budget", "measured_peak", "x"), "`budget.measured_peak` must be an integer, not `'x'`"),
        (set_at("text", 5), "`text` must be an object, not `5`"),
        (lambda content: content.pop("identity"), "`identity` is missing"),
        (lambda content: content["dataset"].pop("shards"), "`dataset.shards` is missing"),
    ],
)
def test_a_manifest_that_was_tampered_with_is_refused(
    tmp_path: Path, edit: Callable[[dict[str, Any]], Any], message: str
) -> None:
    dataset_folder(tmp_path)
    change(tmp_path, edit)
    with pytest.raises(InputError) as caught:
        Manifest.load(tmp_path)
    assert f"{MANIFEST_NAME}`: {message}" in caught.value.message
    assert caught.value.hint is not None


def test_a_link_that_leaves_the_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "dataset"
    folder.mkdir()
    dataset_folder(folder)
    (folder / "data-00001.arrow").rename(tmp_path / "elsewhere.arrow")
    (folder / "data-00001.arrow").symlink_to("../elsewhere.arrow")
    with pytest.raises(InputError, match=r"`dataset\.shards\[1\]\.file` is a link that leaves the folder"):
        Manifest.load(folder)


def test_the_folder_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    dataset_folder(tmp_path / "real")
    (tmp_path / "link").symlink_to("real")
    assert Manifest.load(tmp_path / "link") == Manifest.load(tmp_path / "real")


def test_another_format_says_what_to_do(tmp_path: Path) -> None:
    save_manifest(tmp_path, format=2)
    with pytest.raises(InputError, match="`format` is 2, and this Krill reads format 1") as caught:
        Manifest.load(tmp_path)
    assert "pip install --upgrade krill-lm" in str(caught.value.hint)


@pytest.mark.parametrize("content", [b"", b"{", b"\x80\x04K\x01.", b"[1]", b'"text"'])
def test_what_is_not_a_json_object_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / MANIFEST_NAME).write_bytes(content)
    with pytest.raises(InputError, match=r"is not valid JSON|must be an object"):
        Manifest.load(tmp_path)


def test_folders_of_others_are_named_for_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="absent` does not exist"):
        Manifest.load(tmp_path / "absent")
    with pytest.raises(InputError, match="is not a finished Krill output"):
        Manifest.load(tmp_path)
    (tmp_path / "state.json").write_text("{}")
    with pytest.raises(InputError, match="holds a Hugging Face dataset that is not a finished Krill output"):
        Manifest.load(tmp_path)
    with pytest.raises(InputError, match="is a file, not a dataset folder"):
        Manifest.load(tmp_path / "state.json")


def test_what_another_command_wrote_is_named(tmp_path: Path) -> None:
    (tmp_path / MANIFEST_NAME).write_bytes(orjson.dumps({"command": "qa prepare", "format": 1}))
    with pytest.raises(InputError, match=r"was written by `krill qa prepare`: its folder is not a dataset"):
        Manifest.load(tmp_path)
