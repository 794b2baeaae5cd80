"""A document larger than the budget is read in pieces. The file is a hole: it takes no disk."""

import os

import pytest

from jobs import Job

pytest_plugins = ["job_fixtures"]

MB = 10**6
PIECE = 4 * MB  # `max_document_bytes`


@pytest.mark.parametrize("size", [180 * MB, pytest.param(1000 * MB, marks=pytest.mark.soak)])
def test_a_giant_document_is_split_inside_the_budget(job: Job, size: int) -> None:
    with (job.folder / "giant.txt").open("wb") as file:
        os.truncate(file.fileno(), size)
    job.read_from("giant.txt")
    outcome = job.preprocess("--memory", "160MB", "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.peak <= 160 * MB
    # All pieces are alike, so that one is left.
    assert outcome.result["documents"] == {
        "read": size // PIECE,
        "kept": 1,
        "dropped": {"duplicate": size // PIECE - 1},
        "notes": {"oversize_split": 1},
    }
    assert outcome.result["tokens"]["kept"] == PIECE
