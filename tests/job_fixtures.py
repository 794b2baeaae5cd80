"""Fixtures for tests that run whole jobs; a plugin: `pytest_plugins = ["job_fixtures"]`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import preloaded
from jobs import Job, document, json_lines


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> Path:
    """A finished output, to be copied."""
    job = Job(tmp_path_factory.mktemp("finished"), krill=None)
    job.write("input.jsonl", json_lines(map(document, range(100, 120))))
    job.save()
    assert preloaded.run(["preprocess", "config.yaml", "--quiet"], cwd=job.folder).code == 0
    return job.output


@pytest.fixture
def job(tmp_path, krill) -> Job:
    """A folder with a config and nothing else yet."""
    return Job(tmp_path, krill)


@pytest.fixture
def rerun(job, finished) -> Job:
    """The same beside an earlier finished output: `--overwrite` is to replace it, and a fault is not."""
    shutil.copytree(finished, job.output)
    return job
