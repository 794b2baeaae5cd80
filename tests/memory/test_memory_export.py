"""`krill export` holds its budget, and ten times the dataset takes hardly more memory."""

from __future__ import annotations

import pytest
import yaml

import preloaded

MB = 10**6
BUDGET = 200 * MB

EXPORTS = {
    "parquet": ["--to", "parquet"],
    "megatron": ["--to", "megatron"],
    "bin": ["--to", "bin"],
    "mds": ["--to", "mds"],
    "litdata": ["--to", "litdata"],
    "rows": ["--to", "jsonl"],
    "documents": ["--to", "jsonl", "--text"],
    "records": ["--to", "jsonl", "--what", "text"],
}


@pytest.fixture(scope="module")
def datasets(tmp_path_factory, grown):
    """Tokens and documents of 3 and of 30 MB of text."""
    folder = tmp_path_factory.mktemp("datasets")
    made = []
    for size in (3, 30):
        config = {
            "datasets": [{"path": str(grown(size))}],
            "tokenizer": {"builtin": "bytes"},
            "preprocess": {"prepared_path": str(folder / str(size)), "output": "both", "dedup": "none"},
        }
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        outcome = preloaded.run(["preprocess", folder / "config.yaml", "--quiet"])
        assert outcome.code == 0, outcome.err
        made.append(folder / str(size))
    return made


@pytest.mark.parametrize("name", EXPORTS)
def test_the_budget_holds_and_ten_times_the_dataset_takes_hardly_more(fresh_krill, datasets, tmp_path, name):
    small, large = (
        fresh_krill(
            *("export", dataset, *EXPORTS[name], "--output", tmp_path / dataset.name),
            *("--memory", "200MB", "--threads", 2, "--json", "--quiet"),
        )
        for dataset in datasets
    )
    for outcome in (small, large):
        assert outcome.code == 0, outcome.err
        assert outcome.peak <= BUDGET
        assert abs(outcome.result["budget"]["measured_peak"] - outcome.peak) <= 2 * MB
    assert large.peak <= 1.3 * small.peak
    assert 0.7 <= large.peak / large.result["budget"]["predicted_peak"] <= 1.0


@pytest.fixture(scope="module")
def short_rows(tmp_path_factory):
    """Two megabytes of tokens in rows of sixteen, of documents that are shorter still, with the documents."""
    folder = tmp_path_factory.mktemp("short")
    lines = (f'{{"text": "x {number}"}}\n' for number in range(200_000))
    (folder / "short.jsonl").write_text("".join(lines))
    settings = {"sequence_len": 16, "min_length": 1, "min_chars": 0, "dedup": "none", "output": "both"}
    config = {
        "datasets": [{"path": str(folder / "short.jsonl")}],
        "tokenizer": {"builtin": "bytes"},
        "preprocess": {"prepared_path": str(folder / "out"), **settings},
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    outcome = preloaded.run(["preprocess", folder / "config.yaml", "--quiet"])
    assert outcome.code == 0, outcome.err
    return folder / "out"


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["rows", "documents", "records"])
def test_very_short_rows_hold_no_more_than_was_predicted(fresh_krill, short_rows, tmp_path, name, threads):
    """A line of one takes more than its tokens."""
    outcome = fresh_krill(
        *("export", short_rows, *EXPORTS[name], "--output", tmp_path / "out"),
        *("--memory", "200MB", "--threads", threads, "--json", "--quiet"),
    )
    assert outcome.code == 0, outcome.err
    assert outcome.peak <= outcome.result["budget"]["predicted_peak"]


def test_it_runs_where_the_system_refuses_more_than_the_budget(fresh_krill, datasets, tmp_path):
    """RLIMIT_DATA counts stacks and reservations that are never touched: hence 128 MB above the budget."""
    for name in ("parquet", "documents"):
        outcome = fresh_krill(
            *("export", datasets[1], *EXPORTS[name], "--output", tmp_path / name, "--memory", "200MB", "-q"),
            data_limit=BUDGET + 128 * MB,
        )
        assert outcome.code == 0, outcome.err
