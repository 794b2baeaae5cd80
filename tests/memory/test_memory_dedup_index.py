"""An index in a database: ten times the documents take hardly more, and the least budget told does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

MB = 10**6


def write_config(folder: Path, storage: str, documents: int, first: int = 0) -> Path:
    """Documents of a few words: what is kept of each is then much beside its text."""
    with (folder / f"{first}.jsonl").open("w") as file:
        for number in range(first, first + documents):
            file.write(f'{{"text": "a short document with the number {number} in it"}}\n')
    config = {
        "datasets": [{"path": f"{first}.jsonl"}],
        "tokenizer": {"builtin": "bytes"},
        "preprocess": {
            "prepared_path": f"out{first}",
            "sequence_len": 1024,
            "min_chars": 0,
            "min_length": 0,
            "unit_bytes": "4MB",
            "max_document_bytes": "1MB",
            "dedup": storage,
            "dedup_cache_dir": "./cache",
        },
    }
    (folder / f"{first}.yaml").write_text(yaml.safe_dump(config))
    return folder / f"{first}.yaml"


def peak_of_two_runs(fresh_krill: Any, folder: Path, storage: str, documents: int) -> int:
    """What the second of two runs held, which reads what the first one added; each with the least budget
    that a refusal has named."""
    folder.mkdir()
    first = write_config(folder, storage, documents)
    second = write_config(folder, storage, documents, documents // 2)
    small = "125MB" if storage == "duckdb" else "80MB"  # about what loading the program takes
    refused = fresh_krill("preprocess", first, "--memory", small, "--threads", 2, cwd=folder)
    assert refused.code == 4
    (least,) = re.findall(r"--memory (\d+MB) would do", refused.err)
    for config, kept in ((first, documents), (second, documents // 2)):
        outcome = fresh_krill("preprocess", config, "--memory", least, "--threads", 2, "--json", cwd=folder)
        assert outcome.code == 0, outcome.err
        assert outcome.result["documents"]["kept"] == kept
        assert outcome.peak <= int(least.removesuffix("MB")) * MB
        assert outcome.peak <= outcome.result["budget"]["predicted_peak"]
    return outcome.peak


@pytest.mark.parametrize("storage", ["sqlite", "duckdb"])
def test_the_least_budget_holds_while_an_index_is_read_and_written(
    fresh_krill: Any, tmp_path: Path, storage: str
) -> None:
    peak_of_two_runs(fresh_krill, tmp_path / "runs", storage, 100_000)


@pytest.mark.soak
@pytest.mark.parametrize("storage", ["sqlite", "duckdb"])
def test_ten_times_the_documents_take_hardly_more(fresh_krill: Any, tmp_path: Path, storage: str) -> None:
    small, large = (
        peak_of_two_runs(fresh_krill, tmp_path / str(documents), storage, documents)
        for documents in (400_000, 4_000_000)
    )
    assert large <= 1.1 * small
