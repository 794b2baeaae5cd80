"""A document larger than the budget is read in pieces. The file is a hole: it takes no disk.

A hole that no text can have is refused.
"""

import os
from pathlib import Path

import pytest

from jobs import Job
from krill.corpus import sources
from krill.corpus.formats import CorpusFile, DatasetSource, Format
from krill.errors import InputError
from measured import Outcome

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


def write_hole(job: Job, name: str) -> None:
    """A terabyte with a line at its begin and one at its end."""
    with (job.folder / name).open("wb") as file:
        file.write(b'{"text": "what there is of it"}\n')
        file.flush()
        os.truncate(file.fileno(), 10**12)
        os.pwrite(file.fileno(), b"and the end\n", 10**12 - 12)
    job.read_from(name)
    job.save()


def check_hole_is_told(outcome: Outcome, name: str) -> None:
    assert outcome.code == 3, outcome.err
    assert f"`{name}` has 1.00 TB" in outcome.err
    assert "were never written" in outcome.err
    assert "cp --sparse=never" in outcome.err


@pytest.mark.parametrize("name", ["hole.txt", "hole.jsonl", "hole.json", "hole.csv", "hole.tsv"])
def test_a_terabyte_that_was_never_written_is_refused_by_name(job: Job, name: str) -> None:
    write_hole(job, name)
    check_hole_is_told(job.preprocess("--memory", "256MB"), name)


@pytest.mark.parametrize(
    "command",
    [
        ("estimate", "config.yaml"),
        ("tokenizer", "train", "--input", "hole.txt", "--output", "made"),
    ],
)
def test_other_commands_refuse_it_too(job: Job, command: tuple[str, ...]) -> None:
    write_hole(job, "hole.txt")
    check_hole_is_told(job.run(*command, "--memory", "256MB"), "hole.txt")


def test_a_hole_of_less_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "holes.txt"
    with path.open("wb") as file:
        for place in (10**6, 3 * 10**6):
            os.pwrite(file.fileno(), b"data", place)
        os.truncate(file.fileno(), 4 * 10**6)
    source = DatasetSource(str(path))
    found = CorpusFile(0, "holes.txt", str(path), Format.TEXT, None, 4 * 10**6, source, 0)
    monkeypatch.setattr(sources, "LARGEST_HOLE", 2 * 10**6)
    sources.refuse_sparse(found)
    monkeypatch.setattr(sources, "LARGEST_HOLE", 10**6 + 10**5)
    with pytest.raises(InputError, match=r"from byte 1,0\d\d,\d\d\d on"):
        sources.refuse_sparse(found)
