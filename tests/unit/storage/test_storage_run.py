"""What a run says of another one: what differs, and that files of another layout are not continued."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fsspec
import pytest
from runs_to_kill import describe, opened

from krill.errors import ConfigError
from krill.storage import CommitLog
from krill.storage.object_storage import ObjectStorage
from krill.storage.outputs import OutputKind
from krill.storage.run import LAYOUT, Run, RunSummary, changed_inputs, differences, identity_of
from krill.training.folder import BEGUN, TrainFolder

OLDER = [(None, "1"), (1, "1"), ({"max_seq_length": 4}, "1"), (LAYOUT + 1, str(LAYOUT + 1))]


def with_layout(recorded: bytes, layout: Any) -> bytes:
    """`run.json` as a version that writes another layout would have left it."""
    begun = json.loads(recorded)
    assert begun.pop("layout") == LAYOUT
    return json.dumps(begun if layout is None else {**begun, "layout": layout}).encode()


def refused(run: Run, description: dict[str, Any], stated: str) -> None:
    with run, pytest.raises(ConfigError) as caught:
        run.begin(description, overwrite=False)
    assert f"have the layout `{stated}`, and this version continues only" in caught.value.message
    assert caught.value.hint == "finish it with the version that began it, or start anew with --overwrite"


@pytest.mark.parametrize(("layout", "stated"), OLDER)
def test_an_unfinished_run_of_another_layout_in_a_folder_is_refused(tmp_path: Path, layout: Any, stated: str):
    output = tmp_path / "out"
    with opened(output) as run:
        run.begin(describe("same"), overwrite=False)
        CommitLog(run.stages / "scan").commit(0, {})
    recorded = tmp_path / ".out.krill" / "run.json"
    recorded.write_bytes(with_layout(recorded.read_bytes(), layout))
    refused(opened(output), describe("same"), stated)
    refused(opened(output), describe("other"), stated)
    with opened(output) as run:
        assert run.begin(describe("same"), overwrite=True) == "start"
        assert len(CommitLog(run.stages / "scan")) == 0


def test_a_run_of_another_layout_that_has_committed_nothing_is_begun_again(tmp_path: Path):
    work = tmp_path / ".out.krill"
    (work / "dataset").mkdir(parents=True)
    (work / "lock").write_text("1")
    (work / "run.json").write_text(json.dumps(describe("same")))
    with opened(tmp_path / "out") as run:
        assert run.begin(describe("same"), overwrite=False) == "start"
        assert json.loads((work / "run.json").read_bytes())["layout"] == LAYOUT


def test_an_unfinished_run_of_another_layout_in_an_object_store_is_refused(tmp_path: Path):
    files = fsspec.filesystem("memory")
    url, kind = "memory://layouts/out", OutputKind("test", lambda manifest: ())
    with Run(ObjectStorage(url, tmp_path, setting="output", kind=kind)) as run:
        run.begin(describe("same"), overwrite=False)
        CommitLog(run.stages / "scan", run.paths.files).commit(0, {})
    recorded = "/layouts/.out.krill/run.json"
    files.pipe(recorded, with_layout(files.cat(recorded), None))
    refused(Run(ObjectStorage(url, tmp_path, setting="output", kind=kind)), describe("same"), "1")
    files.store.clear()


def test_a_training_of_another_layout_is_refused(tmp_path: Path):
    folder = TrainFolder(tmp_path / "model")
    with Run(folder) as run:
        run.begin(describe("same"), overwrite=False)
        folder.start(describe("same"))
        (folder.checkpoints / "10").mkdir(parents=True)
    recorded = tmp_path / "model" / BEGUN
    recorded.write_bytes(with_layout(recorded.read_bytes(), None))
    refused(Run(TrainFolder(tmp_path / "model")), describe("same"), "1")


def test_everything_that_differs_is_named():
    before = {
        "krill": "1",
        "config": {"a": 1, "b": {"c": [2, 3]}},
        "inputs": [{"path": "x", "fingerprint": "0"}, {"path": "y", "fingerprint": "1"}],
        "against": [],
        "steps": [],
        "tokenizer": {"vocab_size": 300},
        "tokenizer_fingerprint": "f",
    }
    now = {
        "krill": "2",
        "config": {"a": 1, "b": {"c": [2, 4]}},
        "inputs": [{"path": "x", "fingerprint": "0"}, {"path": "z", "fingerprint": "1"}],
        "against": [{"path": "w", "fingerprint": "2"}],
        "steps": ["s"],
        "tokenizer": "g",
    }
    assert differences(before, now) == [
        "b.c.1: `3` -> `4`",
        "input `y`",
        "input `z`",
        "input `w`",
        "the code of a step of your own",
        "the tokenizer's content",
        "Krill's version, 1 then and 2 now",
    ]
    same = {**now, "tokenizer_fingerprint": "g", "tokenizer": {"vocab_size": 300}}
    assert differences(same, now) == []


def test_what_a_model_was_trained_on_is_named():
    before = {"krill": "1", "config": {}, "inputs": {"rows": "a", "tokenizer": "b"}}
    now = {"krill": "1", "config": {}, "inputs": {"features": "a", "tokenizer": "c"}}
    expected = ["the dataset's rows", "the tokenizer's content", "the features"]
    assert differences(before, now) == expected


def test_inputs_that_came_and_went_are_named_once():
    a, b = {"path": "a"}, {"path": "b"}
    assert changed_inputs([a, b], [b]) == ["a", "b"]
    assert changed_inputs([a], [a, b]) == ["b"]
    assert changed_inputs([a], [a]) == []


def test_an_identity_depends_on_values_alone_and_not_on_their_order():
    assert identity_of({"a": 1, "b": (2, 3)}) == identity_of({"b": [2, 3], "a": 1})
    assert identity_of({"a": 1}) != identity_of({"a": 2})


def test_a_summary_of_what_was_not_kept_has_no_output():
    assert RunSummary("done", None, {}, {"steps": 3}).to_json() == {
        "status": "done",
        "output": None,
        "steps": 3,
    }
