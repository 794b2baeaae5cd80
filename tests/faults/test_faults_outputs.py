"""Outputs that were edited with their checksums, and manifests that would take more than the budget."""

from __future__ import annotations

import os
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hostile_damage import _exported, _sign, _small_lists
from hostile_outputs import SHARD, TEXT, VERBS, _say, _whole


@pytest.fixture
def out(tmp_path):
    shutil.copytree(_whole(), tmp_path / "out")
    return tmp_path / "out"


@pytest.mark.parametrize("verb", ["validate", "inspect", "export-text"])
def test_documents_with_two_columns_of_a_name_are_refused(out, krill, verb):
    pq.write_table(pa.table([["a"], ["b"]], names=["text", "text"]), out / TEXT)
    _sign(out, "text", TEXT, 1)
    done = krill(*VERBS[verb], cwd=out.parent)
    assert done.code == 3, done.err
    assert f"`out/{TEXT}` has more than one column `text`" in done.err


@pytest.mark.parametrize("value", ["many", [1], -1, True])
def test_an_export_whose_counts_are_none_is_refused(tmp_path, krill, value):
    shutil.copytree(_exported("megatron"), tmp_path / "out")
    _say(("files", 0, "documents"), value)(tmp_path / "out")
    done = krill("validate", "out", cwd=tmp_path)
    assert done.code == 3, done.err
    assert "`files[0].documents` must be" in done.err


def test_an_export_that_lists_no_files_is_not_called_whole(tmp_path, krill):
    shutil.copytree(_exported("bin"), tmp_path / "out")
    _say(("files",), [])(tmp_path / "out")
    done = krill("validate", "out", cwd=tmp_path)
    assert done.code == 3, done.err
    assert "`files` is empty" in done.err


@pytest.mark.parametrize("verb", ["validate", "inspect", "duplicates", "export-jsonl"])
def test_a_manifest_that_does_not_fit_is_refused_with_what_would_do(out, krill, verb):
    _small_lists(out)
    done = krill(*VERBS[verb], cwd=out.parent)
    assert done.code == 4, done.err
    assert done.peak <= 256e6
    assert "error: the budget is too small: `out/krill-run.json` takes " in done.err
    given = f"{int(done.err.split('hint: --memory ')[1].split('MB would do')[0])}MB"
    words = [given if word == "256MB" else word for word in VERBS[verb]]
    read = krill(*words, cwd=out.parent)
    assert read.code == 3, read.err  # now it is read, and is no manifest
    assert read.peak <= int(given[:-2]) * 10**6


@pytest.mark.parametrize("verb", ["validate", "inspect", "export-jsonl"])
@pytest.mark.parametrize("name", ["krill-run.json", SHARD])
def test_a_pipe_in_an_output_is_not_waited_for(out, krill, verb, name):
    (out / name).unlink()
    os.mkfifo(out / name)
    done = krill(*VERBS[verb], cwd=out.parent, timeout=60)
    assert done.code == 3, done.err
    assert "it is not a regular file" in done.err
