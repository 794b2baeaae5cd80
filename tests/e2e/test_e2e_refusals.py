"""What a refusal names would do, of commands that only look at the input or only encode it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from measured import Outcome

pytest_plugins = ["job_fixtures"]

Krill = Callable[..., Outcome]


def write_huge_page(path: Path) -> None:
    """One page of 50 MB, which is read whole."""
    texts = [f"{number:016x} " * 1500 for number in range(2000)]
    pages = {"data_page_size": 2**30, "write_batch_size": 10**6}
    pq.write_table(pa.table({"text": texts}), path, compression="none", use_dictionary=False, **pages)


def named_budget(outcome: Outcome) -> int:
    """Of a refusal, in megabytes."""
    assert outcome.code == 4, outcome.err
    found = re.search(r"--memory (\d+)MB would do", outcome.err)
    assert found is not None, outcome.err
    return int(found[1])


@pytest.fixture
def page(tmp_path: Path) -> Path:
    write_huge_page(tmp_path / "page.parquet")
    return tmp_path


@pytest.mark.parametrize("output", ["tokens", "text"])
def test_estimate_names_the_budget_that_the_run_names_and_that_does(
    page: Path, fresh_krill: Krill, output: str
) -> None:
    config = {
        "datasets": [{"path": "page.parquet"}],
        "tokenizer": {"builtin": "bytes"},
        "preprocess": {"prepared_path": "out", "sequence_len": 1024, "output": output},
    }
    (page / "config.yaml").write_text(yaml.safe_dump(config))
    arguments = ("config.yaml", "--threads", "2", "--memory")
    named = named_budget(fresh_krill("estimate", *arguments, "100MB", cwd=page))
    of_the_run = named_budget(fresh_krill("preprocess", *arguments, "100MB", cwd=page))
    assert abs(named - of_the_run) <= 3  # pages of libraries, from one process to the next
    done = fresh_krill("estimate", *arguments, f"{named}MB", cwd=page)
    assert done.code == 0, done.err


def test_encode_names_a_budget_that_does(page: Path, fresh_krill: Krill) -> None:
    made = fresh_krill(
        *("tokenizer", "train", "--input", "page.parquet", "--vocab-size", "300", "--output", "tokenizer"),
        cwd=page,
    )
    assert made.code == 0, made.err
    command = ("tokenizer", "encode", "--tokenizer", "tokenizer", "--input", "page.parquet")
    options = ("--output", "ids.npy", "--threads", "2", "--memory")
    named = named_budget(fresh_krill(*command, *options, "100MB", cwd=page))
    done = fresh_krill(*command, *options, f"{named}MB", cwd=page)
    assert done.code == 0, done.err
    assert done.peak <= named * 10**6
