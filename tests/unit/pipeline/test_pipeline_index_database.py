"""`dedup: database`: runs keep their index in SQLite or DuckDB, and drop what they drop with files."""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from test_pipeline_dedup import article, kept, run, write

import krill as package
from conftest import dataset_bytes
from jobs import check_error
from krill.config import KrillConfig, identity_dict, load_config
from krill.errors import ConfigError, MissingExtra

WORDS = {"database": "sqlite", "sqlite": "sqlite", "duckdb": "duckdb"}


@pytest.mark.parametrize("word", WORDS)
def test_the_seeds_database_backend_is_exact_with_an_index_in_a_database(word: str) -> None:
    config = load_config({"preprocess": {"dedup": word, "dedup_cache_dir": "./cache"}}, environ={})
    assert (config.preprocess.dedup.method, config.preprocess.dedup.index) == ("exact", WORDS[word])
    nested = {"dedup": {"method": word, "level": "line"}, "dedup_cache_dir": "./cache"}
    assert load_config({"preprocess": nested}, environ={}).preprocess.dedup.index == WORDS[word]
    again = load_config(config.model_dump(mode="json"), environ={})
    assert again.preprocess.dedup == config.preprocess.dedup


@pytest.mark.parametrize(
    ("preprocess", "fact"),
    [
        ({"dedup": "database"}, "`dedup.index` is `sqlite`, and there is no folder for it"),
        (
            {"dedup": {"method": "duckdb", "index": "sqlite"}, "dedup_cache_dir": "c"},
            "`method: duckdb` is an index in `duckdb`: drop `index: sqlite`",
        ),
        ({"dedup": {"index": "lmdb"}}, "must be `files`, `sqlite` or `duckdb`"),
    ],
)
def test_a_database_without_a_place_or_with_two_names_is_refused(
    preprocess: dict[str, Any], fact: str
) -> None:
    with pytest.raises(ConfigError, match=fact):
        load_config({"preprocess": preprocess}, environ={})


def test_an_index_of_files_leaves_the_identity_of_a_run_as_it_was() -> None:
    assert "index" not in identity_dict(KrillConfig())["preprocess"]["dedup"]


METHODS = [
    {"method": "exact"},
    {"method": "bloom", "expected_documents": 1000},
    {"method": "minhash"},
    {"method": "exact", "level": "line"},
]


@pytest.mark.parametrize("storage", ["sqlite", "duckdb"])
@pytest.mark.parametrize("dedup", METHODS, ids=lambda dedup: "-".join(map(str, dedup.values())))
def test_every_method_drops_what_it_drops_with_files(
    tmp_path: Path, storage: str, dedup: dict[str, Any]
) -> None:
    sources = {
        "first": write(tmp_path / "first.jsonl", [article(1), article(2) + "\n" + article(5), article(1)]),
        "second": write(tmp_path / "second.jsonl", [article(2) + "\n" + article(6), article(3)]),
        "third": write(tmp_path / "third.jsonl", [article(1), article(6), article(4)]),
    }
    found: dict[str, dict[str, dict[str, bytes]]] = {}
    for form in ("files", storage):
        (tmp_path / form).mkdir()
        cache = {"dedup_cache_dir": str(tmp_path / form / "cache"), "dedup": {**dedup, "index": form}}
        for name, source in sources.items():
            run(tmp_path / form, source, name, **cache)
        found[form] = {name: dataset_bytes(tmp_path / form / name) for name in sources}
    assert found["files"] == found[storage]
    assert article(4) in kept(tmp_path / storage, "third")
    assert article(1) not in kept(tmp_path / storage, "third")


@pytest.mark.parametrize("storage", ["sqlite", "duckdb"])
def test_the_same_config_gives_its_output_again_and_adds_nothing(tmp_path: Path, storage: str) -> None:
    cache = {"dedup_cache_dir": str(tmp_path / "cache"), "dedup": storage}
    source = write(tmp_path / "in.jsonl", [article(1), article(2), article(1)])
    run(tmp_path, source, "once", **cache)
    run(tmp_path, source, "again", **cache)
    assert kept(tmp_path, "once") == kept(tmp_path, "again") == [article(1), article(2)]
    library = sqlite3 if storage == "sqlite" else duckdb
    with closing(library.connect(str(tmp_path / "cache" / f"index.{storage}"))) as connection:
        (row,) = connection.execute("SELECT position, source FROM seen WHERE position > 0").fetchall()
        assert connection.execute("SELECT count(*) FROM seen").fetchone() == (2,)
    first_line = len(json.dumps({"text": article(1)})) + 1
    assert row == (first_line, str(source))


@pytest.mark.parametrize("storage", ["sqlite", "duckdb"])
def test_a_database_may_be_among_what_is_compared_with(tmp_path: Path, storage: str) -> None:
    cache = tmp_path / "cache"
    first = write(tmp_path / "first.jsonl", [article(1), article(2)])
    run(tmp_path, first, "first", dedup=storage, dedup_cache_dir=str(cache))
    second = write(tmp_path / "second.jsonl", [article(2), article(3)])
    run(tmp_path, second, "second", dedup={"method": "exact", "against": [str(cache)]})
    assert kept(tmp_path, "second") == [article(3)]


@pytest.mark.parametrize("storage", ["sqlite", "duckdb"])
def test_a_run_that_died_before_it_counted_is_helped_by_the_same_command(
    tmp_path: Path, storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = {"dedup_cache_dir": str(tmp_path / "cache"), "dedup": storage}
    source = write(tmp_path / "in.jsonl", [article(1), article(2)])
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("krill.dedup.index.Pending.commit", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        run(tmp_path, source, "first", **cache)
    other = write(tmp_path / "other.jsonl", [article(1), article(3)])
    run(tmp_path, other, "early", **cache)
    assert kept(tmp_path, "early") == [article(1), article(3)]
    assert run(tmp_path, source, "first", **cache)["status"] == "finished"
    third = write(tmp_path / "third.jsonl", [article(2), article(4)])
    run(tmp_path, third, "late", **cache)
    assert kept(tmp_path, "late") == [article(4)]


def test_duckdb_that_is_not_installed_is_told_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    source = write(tmp_path / "in.jsonl", [article(1)])
    with pytest.raises(MissingExtra, match="an index in DuckDB needs the extra `duckdb`") as caught:
        run(tmp_path, source, dedup="duckdb", dedup_cache_dir=str(tmp_path / "cache"))
    assert caught.value.exit_code == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl"]


@pytest.mark.parametrize("storage", ["sqlite", "duckdb"])
def test_a_damaged_database_ends_with_5_and_says_what_to_do(tmp_path: Path, storage: str, krill: Any) -> None:
    write(tmp_path / "in.jsonl", [article(1), article(2)])
    config = {
        "memory": "300MB",
        "datasets": [{"path": "in.jsonl"}],
        "preprocess": {
            "output": "text",
            "prepared_path": "out",
            "dedup": storage,
            "dedup_cache_dir": "./cache",
        },
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    assert krill("preprocess", "config.yaml", "--quiet", cwd=tmp_path).code == 0
    database = tmp_path / "cache" / f"index.{storage}"
    database.write_bytes(b"\xff" * 10_000)
    outcome = krill("preprocess", "config.yaml", "--set", "preprocess.prepared_path=b", cwd=tmp_path)
    check_error(
        outcome,
        5,
        f"the index of duplicates `cache/index.{storage}` is damaged: ",
        hint="put back a copy of it, or remove its folder",
    )
    assert database.read_bytes() == b"\xff" * 10_000


def test_a_budget_that_duckdb_does_not_fit_is_refused_with_another_form(tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", [article(1)])
    settings = {"dedup": "duckdb", "dedup_cache_dir": str(tmp_path / "cache"), "output": "text"}
    config = {"datasets": [{"path": str(source)}], "preprocess": settings}
    with pytest.raises(package.errors.BudgetError, match=r"DuckDB 36(\.0)? MB") as caught:
        package.preprocess(config, memory="90MB")
    assert "MB would do" in str(caught.value.hint)
