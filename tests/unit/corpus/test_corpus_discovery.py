"""From a path in the config to files, in a fixed order."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from corpus_reading import batches, column, corpus_of, json_lines, table, texts, write_arrow, write_parquet

from krill.corpus import DatasetSource
from krill.corpus.discovery import is_hub_id
from krill.errors import ConfigError, InputError


def _paths(*sources: DatasetSource | Path | str) -> list[str]:
    return [file.path for file in corpus_of(*sources).files]


def _lines(path: Path, *documents: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(json_lines(documents))


def test_a_folder_is_read_recursively_in_sorted_order(tmp_path: Path) -> None:
    for name in (
        "b.jsonl",
        "a/2.jsonl",
        "a/1.jsonl",
        "c.jsonl",
        ".hidden.jsonl",
        ".cache/x.jsonl",
        "code.py",
    ):
        _lines(tmp_path / name, name)
    assert texts(tmp_path) == ["a/1.jsonl", "a/2.jsonl", "b.jsonl", "c.jsonl"]


@pytest.mark.parametrize("path", ["data", "data/**/*.jsonl", "data/**/*", "data/[a-z]*/*.jsonl", "./data"])
def test_excluded_folders_are_not_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    for name in (
        "in/a.jsonl",
        "out/shard.jsonl",
        "out/more/shard.jsonl",
        "outer/b.jsonl",
        ".out.krill/c.jsonl",
    ):
        _lines(tmp_path / "data" / name, name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("data")
    for out in (Path("data/out"), tmp_path / "link" / "out", Path("data/../data/out/")):
        assert texts(path, exclude=[out, tmp_path / "absent"]) == ["in/a.jsonl", "outer/b.jsonl"]


def test_an_excluded_file_is_read_if_it_is_named_itself(tmp_path: Path) -> None:
    _lines(tmp_path / "out" / "a.jsonl", "one")
    assert texts(tmp_path / "out" / "a.jsonl", exclude=[tmp_path / "out"]) == ["one"]


def test_nothing_but_excluded_files_is_an_error(tmp_path: Path) -> None:
    _lines(tmp_path / "out" / "a.jsonl", "one")
    for path in (tmp_path / "out", tmp_path / "out" / "*.jsonl", tmp_path / "*" / "a.jsonl"):
        with pytest.raises(InputError, match="is this run's own output") as error:
            corpus_of(path, exclude=[tmp_path / "out"])
        assert "prepared_path" in (error.value.hint or "")


def test_a_glob_finds_nothing_in_work_folders(tmp_path: Path) -> None:
    _lines(tmp_path / ".out.krill" / "scan" / "a.jsonl", "one")
    _lines(tmp_path / ".hidden" / "scan" / "a.jsonl", "two")
    assert texts(tmp_path / ".*" / "scan" / "*.jsonl") == ["two"]
    assert texts(tmp_path / ".out.krill" / "scan" / "*.jsonl") == ["one"]


def test_metadata_of_a_hub_folder_is_not_data_but_a_readme_among_texts_is(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("about")
    (tmp_path / "notes.txt").write_text("notes")
    assert texts(tmp_path) == ["about", "notes"]
    _lines(tmp_path / "a.jsonl", "one")
    (tmp_path / "dataset_infos.json").write_text("{}")
    assert texts(tmp_path) == ["one", "notes"]


def test_paths_are_shown_as_they_were_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _lines(tmp_path / "data" / "a.jsonl", "one")
    _lines(tmp_path / "data" / "b.jsonl", "two")
    monkeypatch.chdir(tmp_path)
    assert _paths("data") == _paths("data/") == _paths("data/*.jsonl") == ["data/a.jsonl", "data/b.jsonl"]
    assert _paths("data/b.jsonl") == ["data/b.jsonl"]
    monkeypatch.setenv("HOME", str(tmp_path))
    assert _paths("~/data/b.jsonl") == ["~/data/b.jsonl"]


def test_a_glob_reads_unknown_extensions_as_text_one_document_a_file(tmp_path: Path) -> None:
    for name in ("lib/test/test_os.py", "lib/os.py", "lib/a.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"# {name}")
    assert texts(f"{tmp_path}/lib/**/*.py") == ["# lib/os.py", "# lib/test/test_os.py"]
    assert texts(tmp_path / "lib" / "os.py") == ["# lib/os.py"]


def test_a_file_with_the_name_of_a_pattern_is_that_file(tmp_path: Path) -> None:
    _lines(tmp_path / "a[1].jsonl", "bracket")
    _lines(tmp_path / "a1.jsonl", "other")
    assert texts(tmp_path / "a[1].jsonl") == ["bracket"]


@pytest.mark.parametrize("protocol", ["file://", "local://"])
def test_an_address_of_this_machine_is_a_path(tmp_path: Path, protocol: str) -> None:
    _lines(tmp_path / "a.jsonl", "one")
    _lines(tmp_path / "b.jsonl", "two")
    assert texts(f"{protocol}{tmp_path}/*.jsonl") == ["one", "two"]
    corpus = corpus_of(f"{protocol}{tmp_path}/a.jsonl")
    assert not corpus.sequential and [file.path for file in corpus.files] == [f"{tmp_path}/a.jsonl"]


def test_a_saved_hugging_face_dataset_is_read_in_its_own_order(tmp_path: Path) -> None:
    for name, text in (("z.arrow", "first"), ("a.arrow", "second")):
        write_arrow(tmp_path / name, table([text]), stream=True)
    state = {"_data_files": [{"filename": "z.arrow"}, {"filename": "a.arrow"}], "_split": "validation"}
    (tmp_path / "state.json").write_text(json.dumps(state))
    corpus = corpus_of(tmp_path)
    assert column(batches(corpus), "text") == ["first", "second"]
    assert not corpus.sequential
    assert texts(DatasetSource(str(tmp_path), split="validation")) == ["first", "second"]


def test_what_save_to_disk_writes_is_read(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    documents = [f"document {i}" for i in range(50)]
    dataset = datasets.Dataset.from_dict({"text": documents})
    dataset.save_to_disk(tmp_path / "one", num_shards=3)
    assert texts(tmp_path / "one") == documents
    both = datasets.DatasetDict({"train": dataset.select(range(40)), "test": dataset.select(range(40, 50))})
    both.save_to_disk(tmp_path / "two")
    assert texts(tmp_path / "two") == documents[:40]
    assert texts(DatasetSource(str(tmp_path / "two"), split="test[:50%]")) == documents[40:45]
    with pytest.raises(InputError, match=r"no split `validation`.*there are: `train`, `test`"):
        corpus_of(DatasetSource(str(tmp_path / "two"), split="validation"))


def test_a_krill_output_folder_gives_its_kept_documents(tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    write_parquet(tmp_path / "text" / "b.parquet", ["first"])
    write_parquet(tmp_path / "text" / "a.parquet", ["second"])
    shards = [{"file": "text/b.parquet"}, {"file": "text/a.parquet"}]
    (tmp_path / "krill-run.json").write_text(json.dumps({"text": {"shards": shards}}))
    assert texts(tmp_path) == ["first", "second"]
    (tmp_path / "krill-run.json").write_text(json.dumps({"dataset": {}}))
    with pytest.raises(InputError, match="holds only tokens, no text") as error:
        corpus_of(tmp_path)
    assert "output: text" in (error.value.hint or "")


def test_a_manifest_can_not_name_files_outside_its_folder(tmp_path: Path) -> None:
    _lines(tmp_path / "secret.jsonl", "secret")
    (tmp_path / "in").mkdir()
    for name in ("../secret.jsonl", str(tmp_path / "secret.jsonl"), 7):
        (tmp_path / "in" / "krill-run.json").write_text(json.dumps({"text": {"shards": [{"file": name}]}}))
        with pytest.raises(InputError, match="not inside it"):
            corpus_of(tmp_path / "in")


def test_a_damaged_manifest_is_an_error(tmp_path: Path) -> None:
    for text in ("{", "[]", "[" * 100_000, '{"_data_files": 5}', '{"_data_files": [5]}'):
        (tmp_path / "state.json").write_text(text)
        with pytest.raises(InputError, match=r"state\.json") as caught:
            corpus_of(tmp_path)
        assert caught.value.hint is not None


@pytest.mark.parametrize(
    ("manifest", "fact"),
    [
        ({"text": [1]}, "`text` of `krill-run.json`"),
        ({"text": {"shards": 7}}, "`text.shards` of `krill-run.json`"),
        ({"text": {"shards": ["a"]}}, "`text.shards` of `krill-run.json`"),
        ({"text": {"shards": [{"file": "a\0b"}]}}, "not inside it"),
        ({"text": {"shards": [{"file": "."}]}}, "not inside it"),
        ({"text": {"shards": [{"file": "a\ud800"}]}}, "names `a\\ud800`, which is not UTF-8"),
    ],
)
def test_a_manifest_that_names_no_files_is_an_error(tmp_path: Path, manifest: object, fact: str) -> None:
    (tmp_path / "krill-run.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError) as caught:
        corpus_of(tmp_path)
    assert fact in caught.value.message and caught.value.hint is not None


@pytest.mark.parametrize("splits", [5, "train", [["train"]], ["train", ".."], ["train", "/etc"]])
def test_splits_are_folders_inside_the_dataset(tmp_path: Path, splits: object) -> None:
    (tmp_path / "dataset_dict.json").write_text(json.dumps({"splits": splits}))
    with pytest.raises(InputError, match=r"not inside it|`splits` of `dataset_dict.json`"):
        corpus_of(tmp_path)


def test_files_that_all_speak_of_splits_are_chosen_by_it(tmp_path: Path) -> None:
    for name in ("train-0.jsonl", "train-1.jsonl", "dev.jsonl"):
        _lines(tmp_path / name, name)
    for path in (str(tmp_path), f"{tmp_path}/*.jsonl"):
        assert texts(path) == ["train-0.jsonl", "train-1.jsonl"]
        assert texts(DatasetSource(path, split="validation")) == ["dev.jsonl"]
        assert texts(DatasetSource(path, split="dev")) == ["dev.jsonl"]
        with pytest.raises(InputError, match=r"no split `test`.*there are: `validation`, `train`"):
            corpus_of(DatasetSource(path, split="test"))
    assert texts(f"{tmp_path}/dev*.jsonl") == ["dev.jsonl"]


def test_if_one_file_speaks_of_no_split_all_are_train(tmp_path: Path) -> None:
    for name in ("train.jsonl", "test.jsonl", "more.jsonl"):
        _lines(tmp_path / name, name)
    assert texts(tmp_path) == ["more.jsonl", "test.jsonl", "train.jsonl"]
    with pytest.raises(InputError, match=r"no split `test`.*there are: `train`"):
        corpus_of(DatasetSource(str(tmp_path), split="test"))
    with pytest.raises(InputError, match=r"no split `test`.*there are: `train`"):
        corpus_of(DatasetSource(str(tmp_path / "test.jsonl"), split="test"))


@pytest.mark.parametrize(
    ("path", "hub"),
    [
        ("org/name", True),
        ("org/name:config", True),
        ("HuggingFaceFW/fineweb-edu", True),
        ("data/corpus.jsonl", False),
        ("data/corpus.jsonl.zst", False),
        ("corpus", False),
        ("a/b/c", False),
        ("./missing", False),
        ("here/missing", False),
    ],
)
def test_what_may_be_a_hub_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, hub: bool) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path)
    assert is_hub_id(path) is hub


def test_what_is_not_there_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in ("missing.jsonl", "data/missing.jsonl", str(tmp_path / "missing")):
        with pytest.raises(InputError, match="no such file: `") as error:
            corpus_of(path)
        assert error.value.exit_code == 3
        assert path in str(error.value)
    with pytest.raises(InputError, match=r"no file matches `\*\.jsonl`"):
        corpus_of("*.jsonl")


def test_a_folder_without_readable_files_names_the_extensions(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("pass")
    with pytest.raises(InputError, match=r"nothing to read in the folder.*\.jsonl.*\.parquet.*\.gz") as error:
        corpus_of(tmp_path)
    assert "**/*.py" in (error.value.hint or "")


def test_empty_files_are_an_error_if_there_are_no_others(tmp_path: Path) -> None:
    for name in ("a.txt", "b.jsonl", "c.jsonl.xz", "d.json", "e.csv"):
        (tmp_path / name).write_bytes(b"")
    for path in (tmp_path, tmp_path / "a.txt"):
        with pytest.raises(InputError, match="is empty"):
            corpus_of(path)
    _lines(tmp_path / "f.jsonl", "one")
    assert texts(tmp_path) == ["one"]


def test_a_whole_compressed_parquet_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.parquet.gz").write_bytes(b"x")
    with pytest.raises(InputError, match="compressed as a whole"):
        corpus_of(tmp_path / "a.parquet.gz")


def test_a_pipe_is_not_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="not a regular file"):
        corpus_of(tmp_path / "pipe")


def test_files_too_large_or_too_many_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "sparse.txt").open("wb") as file:
        file.truncate((1 << 40) + 1)
    with pytest.raises(InputError, match=r"larger than 1,099,511,627,776 bytes"):
        corpus_of(tmp_path / "sparse.txt")
    monkeypatch.setattr("krill.corpus.corpus.MAX_FILES", 2)
    for i in range(3):
        _lines(tmp_path / f"{i}.jsonl", "x")
    with pytest.raises(InputError, match="3 files are too many"):
        corpus_of(f"{tmp_path}/*.jsonl")


@pytest.mark.parametrize("columns", [("text",), ("position",), ("id", "id")])
def test_columns_that_can_not_be_carried_are_config_errors(tmp_path: Path, columns: tuple[str, ...]) -> None:
    _lines(tmp_path / "a.jsonl", "x")
    with pytest.raises(ConfigError, match="column"):
        corpus_of(DatasetSource(str(tmp_path / "a.jsonl"), columns=columns))
