"""What is measured is 0.88 to 1.00 of what was predicted, over the grid of `benchmarks/predictions.py`."""

from __future__ import annotations

import pytest

from measured import read_libraries
from predictions import (
    BOUNDS,
    LONG,
    LONG_SETTINGS,
    SETTINGS,
    Cell,
    measure,
    preprocess_cells,
    tokenizer_cells,
)

USUAL = [
    Cell("preprocess", "jsonl", 7, 1, "tokens"),
    Cell("preprocess", "jsonl", 50, 1, "both", config=SETTINGS["both"]),
    # A document that no sample of blocks has.
    *(
        Cell("preprocess", f"jsonl{LONG}20 MB", 24, threads, name, config=setting)
        for threads, (name, setting) in enumerate(list(LONG_SETTINGS.items())[2:], start=1)
    ),
    *(Cell("preprocess", f"{format}{LONG}20 MB", 24, 2, "tokens") for format in ("jsonl.gz", "arrow")),
    # Neither, where only reading finds it.
    Cell("preprocess", f"jsonl.gz{LONG}20 MB", 24, 2, "language", config=LONG_SETTINGS["language"]),
    Cell("preprocess", "parquet", 7, 1, "tokens"),
    Cell("preprocess", "csv", 7, 2, "tokens"),
    Cell("preprocess", "jsonl", 1, 1, "MinHash, filters", config=SETTINGS["MinHash, filters"]),
    Cell("tokenizer train", "txt", 7, 2, "vocabulary 32,000"),
]
ALL = [*preprocess_cells(300), *tokenizer_cells(300)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    read_libraries()
    return tmp_path_factory.mktemp("predictions")


@pytest.mark.parametrize(
    "cell",
    [
        *(pytest.param(cell, id=str(cell)) for cell in USUAL),
        *(pytest.param(cell, id=f"all: {cell}", marks=pytest.mark.soak) for cell in ALL),
    ],
)
def test_the_peak_is_what_was_predicted(cell, folder):
    assert BOUNDS[0] <= measure(cell, folder) <= BOUNDS[1]
