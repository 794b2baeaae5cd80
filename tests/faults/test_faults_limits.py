"""Limits of the shell (`ulimit`): refused with a remedy, never a traceback or a signal."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from conftest import KRILL
from jobs import document, json_lines

pytest_plugins = ["job_fixtures"]


@pytest.fixture
def ready(job):
    job.write("input.jsonl", json_lines(map(document, range(100, 120))))
    job.save()
    return job


def limited(folder: Path, limit: str, command: str) -> subprocess.CompletedProcess[str]:
    line = f"ulimit {limit}; exec {KRILL} {command}"
    return subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("limit", ["-v 20000", "-v 150000", "-v 250000", "-d 30000", "-d 100000"])
def test_what_the_libraries_need_is_refused_before_they_are_loaded(ready, limit):
    ended = limited(ready.folder, limit, "preprocess config.yaml")
    assert ended.returncode == 4, ended.stderr
    assert ended.stderr.startswith("error: Krill")
    assert f"hint: ulimit {limit.split()[0]} unlimited" in ended.stderr
    assert not ready.output.exists()


def test_a_budget_above_the_address_space_is_refused_with_one_that_fits(ready):
    ended = limited(ready.folder, "-v 700000", "preprocess config.yaml --memory 400MB")
    assert ended.returncode == 4, ended.stderr
    assert "a budget of 400 MB takes 800 MB of address space" in ended.stderr
    assert "or --memory 316MB" in ended.stderr
    again = limited(ready.folder, "-v 700000", "preprocess config.yaml --memory 316MB")
    assert again.returncode == 0, again.stderr


def test_auto_is_half_of_what_the_address_space_leaves(ready):
    ended = limited(ready.folder, "-v 1000000", "preprocess config.yaml --memory auto")
    assert ended.returncode == 0, ended.stderr
    assert ready.manifest()["budget"]["limit"] == (1_024_000_000 - 400_000_000) // 2


@pytest.mark.parametrize("limit", ["-v 700000", "-v 1200000", "-d 200000"])
def test_jax_is_refused_where_its_compiler_would_be_ended_by_a_signal(ready, limit):
    pytest.importorskip("jax")
    ended = limited(ready.folder, limit, "generate model --prompt x --memory 200MB")
    assert ended.returncode == 4, ended.stderr
    assert f"hint: ulimit {limit.split()[0]} unlimited" in ended.stderr


@pytest.mark.parametrize("count", [6, 8, 12])
def test_few_open_files_are_enough_or_told(ready, count):
    ended = limited(ready.folder, f"-n {count}", "preprocess config.yaml")
    assert "Traceback" not in ended.stderr
    assert ended.returncode in (0, 4), ended.stderr
    if ended.returncode == 4:
        assert "hint: raise the limit of this shell: ulimit -n 1024" in ended.stderr
    assert (ended.returncode == 0) == (ready.output / "krill-run.json").is_file()
