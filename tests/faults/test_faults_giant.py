"""A document of a gigabyte is read in pieces, whatever the budget. The file is a hole: it takes no disk."""

import os

from jobs import Job

pytest_plugins = ["job_fixtures"]

GIGABYTE = 10**9
PIECE = 4_000_000  # `max_document_bytes`


def test_a_document_of_a_gigabyte_is_split_inside_the_budget(job: Job) -> None:
    with (job.folder / "giant.txt").open("wb") as file:
        os.truncate(file.fileno(), GIGABYTE)
    job.read_from("giant.txt")
    outcome = job.preprocess("--memory", "160MB", "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.peak <= 160_000_000
    # All pieces are alike, so that one is left.
    assert outcome.result["documents"] == {
        "read": GIGABYTE // PIECE,
        "kept": 1,
        "dropped": {"duplicate": GIGABYTE // PIECE - 1},
        "notes": {"oversize_split": 1},
    }
    assert outcome.result["tokens"]["kept"] == PIECE
