"""An export is whole or absent, says when it is finished, and refuses what it can't do with the remedy."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dataset_samples import save_manifest, write_text
from export_samples import EOS, some_documents, wrapped, write_rows

from krill.dataset import Layout, Manifest, validate
from krill.dataset.export import FORMATS, export
from krill.dataset.export.source import ExportSource
from krill.errors import BudgetError, ConfigError, InputError, KrillError, StorageError
from krill.storage import atomic

LAYOUT = Layout(32, "uint16", rows_per_batch=7)
ROWS = wrapped(some_documents(200), 32)


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    write_rows(tmp_path / "dataset", ROWS, LAYOUT)
    return tmp_path / "dataset"


def refused(kind: type[KrillError], path: Path, **options: Any) -> str:
    """The error that an export ends with; it leaves nothing behind."""
    before = sorted(path.parent.rglob("*"))
    with pytest.raises(kind) as error:
        export(path, **options)
    assert sorted(path.parent.rglob("*")) == before
    assert error.value.hint
    return str(error.value)


def test_a_finished_export_is_not_made_again(dataset: Path) -> None:
    first = export(dataset, to="bin")
    assert (first.status, first.output) == ("done", dataset.with_name("dataset-bin"))
    written = first.files[0].stat().st_mtime_ns
    again = export(dataset, to="bin", memory="150MB", threads=1)
    assert again.status == "finished"
    assert again.files == first.files
    assert again.files[0].stat().st_mtime_ns == written


def test_another_export_is_refused_unless_it_may_overwrite(dataset: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    export(dataset, to="bin", output=output)
    with pytest.raises(ConfigError, match="to: `bin` -> `jsonl`"):
        export(dataset, to="jsonl", output=output)
    assert export(dataset, to="jsonl", output=output, overwrite=True).status == "done"
    assert sorted(path.name for path in output.iterdir()) == ["krill-run.json", "train.jsonl"]


def test_a_dataset_with_other_content_is_exported_anew_only_if_told(dataset: Path) -> None:
    export(dataset, to="bin")
    write_rows(dataset, ROWS[:10], LAYOUT)
    with pytest.raises(ConfigError, match=r"made differently: input `.*dataset`"):
        export(dataset, to="bin")
    summary = export(dataset, to="bin", overwrite=True)
    assert np.fromfile(summary.files[0], np.uint16).size == 320


def test_the_manifest_says_where_the_files_come_from(dataset: Path) -> None:
    summary = export(dataset, to="megatron")
    manifest = Manifest.load(summary.output)
    source = Manifest.load(dataset)
    assert (manifest.command, manifest.config["to"], manifest.config["what"]) == (
        "export",
        "megatron",
        "tokens",
    )
    assert manifest.inputs[0]["identity"] == source.identity
    assert manifest.tokenizer == source.tokenizer
    assert manifest.budget["measured_peak"] > 0
    assert summary.to_json()["files"] == manifest.extra["files"]


def test_one_split_alone(tmp_path: Path) -> None:
    write_rows(tmp_path / "dataset", ROWS, LAYOUT, validation=ROWS[:5])
    summary = export(tmp_path / "dataset", to="bin", split="validation")
    assert [file.name for file in summary.files] == ["val.bin", "meta.json"]


def test_a_split_that_is_not_there_is_refused(dataset: Path) -> None:
    assert "has no split `validation`: it has `train`" in refused(
        InputError, dataset, to="bin", split="validation"
    )


@pytest.mark.parametrize("place", ["dataset", "dataset/inside", "."])
def test_the_output_is_neither_in_the_dataset_nor_around_it(dataset: Path, place: str) -> None:
    message = refused(ConfigError, dataset, to="bin", output=dataset.parent / place, overwrite=True)
    assert "one inside the other" in message


def test_what_is_no_krill_output_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert "is not a finished Krill output" in refused(InputError, tmp_path / "folder", to="bin")
    assert "does not exist" in refused(InputError, tmp_path / "absent", to="bin")


def test_an_export_is_not_exported(dataset: Path) -> None:
    output = export(dataset, to="bin").output
    assert "holds neither tokens nor documents" in refused(InputError, output, to="jsonl")


def test_a_folder_of_something_else_stays_as_it_is(dataset: Path, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "sea.jpg").write_bytes(b"sea")
    for overwrite in (False, True):
        message = refused(StorageError, dataset, to="bin", output=tmp_path / "photos", overwrite=overwrite)
        assert "is not a Krill output" in message


def test_what_another_command_made_is_not_overwritten(dataset: Path, tmp_path: Path) -> None:
    write_rows(tmp_path / "other", ROWS, LAYOUT)
    message = refused(StorageError, dataset, to="bin", output=tmp_path / "other", overwrite=True)
    assert "holds what `krill preprocess` made" in message


def test_documents_alone_have_no_tokens_to_export(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    write_text(tmp_path / "texts", [["one", "two"]])
    for options in ({"to": "bin"}, {"to": "jsonl", "what": "tokens"}, {"to": "jsonl", "text": True}):
        message = refused(InputError, tmp_path / "texts", **options)
        assert "holds documents but no token rows" in message
        assert "--what text" in message


def test_documents_alone_have_no_splits(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    write_text(tmp_path / "texts", [["one", "two"]])
    assert "--split" in refused(ConfigError, tmp_path / "texts", to="jsonl", split="train")


def test_tokens_alone_have_no_documents_to_export(dataset: Path) -> None:
    message = refused(InputError, dataset, to="jsonl", what="text")
    assert "holds token rows but no documents" in message
    assert "--text" in message


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        (
            {"to": "csv"},
            "--to is `csv`\nhint: choose one of parquet, megatron, bin, datatrove, mds, "
            "litdata, litdata-tokens, jsonl",
        ),
        ({"to": "bin", "split": "test"}, "--split is `test`\nhint: choose one of train, validation, all"),
        ({"to": "bin", "text": True}, "--text is for JSON lines"),
        ({"to": "parquet", "lines": "rows"}, "--lines is for JSON lines"),
        (
            {"to": "parquet", "dtype": "uint16"},
            "--dtype is `uint16`\nhint: choose one of auto for --to parquet",
        ),
        ({"to": "megatron", "dtype": "uint32"}, "choose one of auto, uint16, int32 for --to megatron"),
        ({"to": "bin", "what": "text"}, "documents can't be written as bin"),
        ({"to": "jsonl", "text": True, "lines": "rows"}, "--text writes a document a line"),
        ({"to": "jsonl", "what": "text", "split": "train"}, "--what text writes the documents"),
    ],
)
def test_options_that_do_not_go_together_are_refused(dataset: Path, options: Any, fact: str) -> None:
    assert fact in refused(ConfigError, dataset, **options)


def test_a_stated_type_that_can_not_hold_the_vocabulary_is_refused(tmp_path: Path) -> None:
    write_rows(tmp_path / "dataset", [[[1, 70_000]]], Layout(2, "uint32"), vocab_size=100_000)
    for to in ("bin", "datatrove", "megatron"):
        message = refused(ConfigError, tmp_path / "dataset", to=to, dtype="uint16")
        assert "--dtype is `uint16`, which can't hold the vocabulary of 100,000 tokens" in message


def test_a_token_that_the_type_can_not_hold_is_refused_and_not_folded(tmp_path: Path) -> None:
    write_rows(tmp_path / "dataset", [[[1, 70_000]]], Layout(2, "uint32"), vocab_size=1000)
    for to in ("bin", "datatrove", "megatron"):
        assert "a token of the dataset is `70000`" in refused(InputError, tmp_path / "dataset", to=to)


def test_a_budget_that_is_too_small_is_refused_before_anything_is_read(dataset: Path) -> None:
    assert "--memory" in refused(BudgetError, dataset, to="jsonl", memory="10kB")


@pytest.mark.parametrize("to", FORMATS)
def test_a_full_disk_leaves_nothing(dataset: Path, monkeypatch: pytest.MonkeyPatch, to: Any) -> None:
    def no_space(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(atomic.os, "fsync", no_space)
    message = refused(StorageError, dataset, to=to)
    assert "no space left on the device" in message


@pytest.mark.parametrize("to", ["bin", "mds"])
def test_too_little_space_is_said_before_anything_is_written(
    dataset: Path, monkeypatch: pytest.MonkeyPatch, to: Any
) -> None:
    usage = type("Usage", (), {"free": 100})
    monkeypatch.setattr("krill.dataset.export.write.shutil.disk_usage", lambda path: usage)
    message = refused(StorageError, dataset, to=to)
    assert "the export takes at least" in message
    assert "100 B are free" in message


@pytest.mark.parametrize("to", FORMATS)
def test_an_interrupt_leaves_nothing(dataset: Path, monkeypatch: pytest.MonkeyPatch, to: Any) -> None:
    def interrupted(source: ExportSource, split: str, progress: object) -> Any:
        yield from list(given_rows(source, split, progress))[:3]
        raise KeyboardInterrupt

    given_rows = ExportSource.rows
    monkeypatch.setattr(ExportSource, "rows", interrupted)
    before = sorted(dataset.parent.rglob("*"))
    with pytest.raises(KeyboardInterrupt):
        export(dataset, to=to)
    assert sorted(dataset.parent.rglob("*")) == before


def test_a_damaged_shard_is_named(dataset: Path) -> None:
    shard = dataset / "data-00000.arrow"
    shard.write_bytes(shard.read_bytes()[:-100])
    assert "data-00000.arrow` is truncated" in refused(InputError, dataset, to="bin")


def test_text_needs_the_very_tokenizer(dataset: Path, tmp_path: Path) -> None:
    message = refused(InputError, dataset, to="jsonl", text=True)
    assert "does not say what its tokenizer is" in message
    assert "--tokenizer" in message
    save_manifest(
        dataset,
        dataset=Manifest.load(dataset).dataset,
        tokenizer={"name": "some", "vocab_size": 1000, "eos_id": EOS, "fingerprint": "another"},
        extra={"settings": {"tokenizer": {"builtin": "bytes"}}},
    )
    message = refused(InputError, dataset, to="jsonl", text=True)
    assert "is not the one that made the tokens" in message


@pytest.mark.parametrize("to", FORMATS)
def test_every_byte_of_an_export_is_checked(dataset: Path, to: Any) -> None:
    summary = export(dataset, to=to)
    report = validate(summary.output)
    assert (report.files, report.bytes) == (
        len(summary.files),
        sum(file.stat().st_size for file in summary.files),
    )
    assert report.tokens == len(ROWS) * 32
    changed = summary.files[0]
    content = bytearray(changed.read_bytes())
    content[len(content) // 2] ^= 1
    changed.write_bytes(content)
    with pytest.raises(InputError, match=f"{changed.name}` has the checksum"):
        validate(summary.output)
    changed.unlink()
    with pytest.raises(InputError, match=f"{changed.name}` is missing"):
        validate(summary.output)


@pytest.mark.parametrize(
    "name", ["../dataset/data-00000.arrow", "train/../../secret", "../train.bin", "/train/a"]
)
def test_names_in_the_manifest_of_an_export_can_not_leave_its_folder(dataset: Path, name: str) -> None:
    output = export(dataset, to="bin").output
    manifest = Manifest.load(output)
    manifest.extra["files"][0]["file"] = name
    manifest.save(output)
    with pytest.raises(InputError, match="must be a file name inside the folder"):
        validate(output)
