"""The run's folder, killed between any two of its steps on disk.

A child does the whole run and is killed at its n-th change of the file system, for every n there is. What it
leaves must hold the old output or the new one, whole, and the same command must end it.
"""

from __future__ import annotations

import json
import os
from itertools import count
from pathlib import Path

import pytest
from runs_to_kill import KILLED, describe, opened, run

import preloaded
from krill.errors import ConfigError, StorageError
from krill.storage.outputs import OutputKind

RUN = Path(__file__).with_name("runs_to_kill.py").read_text()


def content_of(output: Path) -> str:
    """The one content of a finished output, all of which must be there."""
    assert {path.name for path in output.iterdir()} == {"shard-0", "shard-1", "krill-run.json"}
    contents = {(output / f"shard-{unit}").read_text() for unit in ("0", "1")}
    contents.add(json.loads((output / "krill-run.json").read_text())["identity"])
    (content,) = contents
    return content


def killed_at(change: int, output: Path, spill_dir: Path | None, *, overwrite: bool = False) -> bool:
    """Run in a child that is killed before its change number `change`; whether it got so far.

    A warm one: to fork pytest, which has grown large by now, takes longer than the run.
    """
    arguments = [change, output, "new", spill_dir or "", "overwrite" if overwrite else ""]
    outcome = preloaded.run(arguments, script=RUN)
    assert outcome.code in (0, KILLED), outcome.err
    return outcome.code == KILLED


@pytest.mark.parametrize("spilling", [False, True])
def test_a_first_run_killed_at_any_step_is_ended_by_the_same_command(tmp_path, spilling):
    spill_dir = tmp_path / "spill" if spilling else None
    for change in count():
        output = tmp_path / f"{change}" / "deep" / "out"
        killed = killed_at(change, output, spill_dir)
        state = run(output, "new", spill_dir=spill_dir)
        assert content_of(output) == "new"
        assert [path.name for path in output.parent.iterdir()] == ["out"]
        assert spill_dir is None or not any(spill_dir.iterdir())
        if not killed:
            assert state == "finished"
            break
    assert change > 10


@pytest.mark.parametrize("spilling", [False, True])
def test_an_overwriting_run_killed_at_any_step_keeps_the_old_output_or_has_the_new_one(tmp_path, spilling):
    spill_dir = tmp_path / "spill" if spilling else None
    gone = 0
    for change in count():
        output = tmp_path / f"{change}" / "out"
        run(output, "old")
        killed = killed_at(change, output, spill_dir, overwrite=True)
        if not output.exists():  # between the two renames
            assert content_of(output.parent / ".out.krill" / "old") == "old"
            gone += 1
        try:
            run(output, "new", spill_dir=spill_dir)
        except ConfigError as refusal:  # killed before anything was done: then the old output stands
            assert refusal.message.endswith("was made differently: key: `old` -> `new`")
            assert content_of(output) == "old"
            run(output, "new", overwrite=True, spill_dir=spill_dir)
        assert content_of(output) == "new"
        assert [path.name for path in output.parent.iterdir()] == ["out"]
        assert spill_dir is None or not any(spill_dir.iterdir())
        if not killed:
            break
    assert change > 15
    assert gone <= 1


def test_another_config_is_refused_only_if_something_was_done(tmp_path):
    output = tmp_path / "out"
    with opened(output) as folder:
        assert folder.begin(describe("first"), overwrite=False) == "start"
    assert not Path(folder.storage.address).exists()  # nothing was committed, so nothing is kept

    with opened(output) as folder:
        assert folder.begin(describe("first"), overwrite=False) == "start"
        (folder.stages / "scan").mkdir()
        (folder.stages / "scan" / "0.json").write_text("{}")
    with opened(output) as folder:
        with pytest.raises(ConfigError, match=r"unfinished run for .* was made differently: key: `first`"):
            folder.begin(describe("second"), overwrite=False)
        assert folder.begin(describe("first"), overwrite=False) == "continue"
        assert folder.begin(describe("second"), overwrite=True) == "start"
        assert not list(folder.stages.iterdir())


def test_a_run_whose_spill_folder_moved_starts_there(tmp_path):
    output = tmp_path / "out"
    with opened(output, tmp_path / "a") as folder:
        folder.begin(describe("same"), overwrite=False)
        (folder.stages / "scan").mkdir()
        (folder.stages / "scan" / "0.json").write_text("{}")
    assert run(output, "same", spill_dir=tmp_path / "b") == "start"
    assert content_of(output) == "same"
    assert not any((tmp_path / "a").iterdir()) and not any((tmp_path / "b").iterdir())


def test_leftovers_of_a_killed_write_are_swept(tmp_path):
    output = tmp_path / "out"
    with opened(output) as folder:
        folder.begin(describe("same"), overwrite=False)
        (folder.stages / "scan").mkdir()
        (folder.stages / "scan" / "0.json").write_text("{}")
    for place in (folder.dataset, folder.stages / "scan"):
        (place / ".shard-1.0a1b2c3d.krill-tmp").write_text("half")
    assert run(output, "same") == "continue"
    assert [path.name for path in sorted(output.iterdir())] == ["krill-run.json", "shard-1"]


def test_a_publication_that_fails_puts_the_old_output_back(tmp_path, monkeypatch):
    output = tmp_path / "out"
    run(output, "old")
    rename = Path.rename

    def fail(self, target):
        if self.name == "dataset":
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(StorageError, match="no space left on the device"):
        run(output, "new", overwrite=True)
    assert content_of(output) == "old"
    monkeypatch.undo()
    assert run(output, "new") == "published"
    assert content_of(output) == "new"


def test_the_lock_names_its_holder(tmp_path):
    with opened(tmp_path / "out"), pytest.raises(StorageError) as refused:
        opened(tmp_path / "out").__enter__()
    assert f"(process {os.getpid()})" in refused.value.message


@pytest.mark.parametrize("name", ["lock", "run.json", "begin.lock", "dataset", "stages", "replaced"])
@pytest.mark.parametrize("shared", [False, True])
def test_a_link_in_the_work_folder_is_not_followed(tmp_path, name, shared):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("years of work")
    (tmp_path / ".out.krill").mkdir()
    if name != "lock":
        (tmp_path / ".out.krill" / "lock").write_text("1")
    is_folder = name in ("dataset", "stages", "replaced")
    (tmp_path / ".out.krill" / name).symlink_to(precious if is_folder else precious / "file")
    run = opened(tmp_path / "out", shared=shared)
    with pytest.raises(StorageError, match="is not a Krill output"):
        run.__enter__()
    assert (precious / "file").read_text() == "years of work"


def test_somebodys_file_that_is_called_as_the_lock_is_kept(tmp_path):
    (tmp_path / ".out.krill").mkdir()
    (tmp_path / ".out.krill" / "lock").write_text("the key is under the mat, as always")
    with pytest.raises(StorageError, match="is not a Krill output"):
        opened(tmp_path / "out").__enter__()
    assert (tmp_path / ".out.krill" / "lock").read_text() == "the key is under the mat, as always"


@pytest.mark.parametrize("said", ['{"spill_dir": 5}', '{"spill_dir": "a\\u0000b"}', "[1]", "noise", ""])
def test_what_is_no_record_of_a_run_is_litter(tmp_path, said):
    work = tmp_path / ".out.krill"
    (work / "dataset").mkdir(parents=True)
    (work / "lock").write_text("1")
    (work / "run.json").write_text(said)
    assert run(tmp_path / "out", "new") == "start"
    assert content_of(tmp_path / "out") == "new"


def test_a_pipe_in_the_place_of_a_record_or_a_manifest_is_not_waited_for(tmp_path):
    work = tmp_path / ".out.krill"
    (work / "dataset").mkdir(parents=True)
    (work / "lock").write_text("1")
    os.mkfifo(work / "run.json")
    with pytest.raises(StorageError, match="is not a Krill output"):
        run(tmp_path / "out", "new")
    assert (work / "run.json").is_fifo()
    (tmp_path / "other").mkdir()
    os.mkfifo(tmp_path / "other" / "krill-run.json")
    with pytest.raises(StorageError, match="is not a Krill output"):
        run(tmp_path / "other", "new")


def test_a_link_leads_to_the_folder_that_is_written(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "dataset")
    assert opened(tmp_path / "link").output == tmp_path / "disk" / "dataset"


def test_a_mount_point_is_refused_before_any_work():
    with pytest.raises(StorageError, match="is a mount point") as caught:
        opened(Path("/"))
    assert "/output" in (caught.value.hint or "")


def test_a_file_that_comes_in_the_very_last_moment_is_not_removed_with_the_old_output(tmp_path, monkeypatch):
    output = tmp_path / "out"
    run(output, "old")
    rename = Path.rename

    def late(self, target):
        if self.name == "dataset":  # the old output has been looked through, and is out of the way
            (self.parent / "old" / "NOTES.md").write_text("mine")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", late)
    with pytest.raises(StorageError, match="files that came into the one before it in the last moment"):
        run(output, "new", overwrite=True)
    monkeypatch.undo()
    assert content_of(output) == "new"
    kept = tmp_path / ".out.krill" / "replaced"
    assert [path.name for path in kept.iterdir()] == ["NOTES.md"]
    assert run(output, "new") == "finished"
    assert (kept / "NOTES.md").read_text() == "mine"


def test_a_folder_that_comes_between_the_two_renames_stays_and_the_old_output_comes_back_later(
    tmp_path, monkeypatch
):
    output = tmp_path / "out"
    run(output, "old")
    rename = Path.rename

    def late(self, target):
        if self.name == "dataset":
            output.mkdir()
            (output / "precious.txt").write_text("mine")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", late)
    with pytest.raises(StorageError, match="was made by somebody else while this run worked"):
        run(output, "new", overwrite=True)
    monkeypatch.undo()
    assert (output / "precious.txt").read_text() == "mine"
    with pytest.raises(StorageError, match="is not a Krill output"):
        run(output, "new")
    assert content_of(tmp_path / ".out.krill" / "old") == "old"
    output.rename(tmp_path / "mine")
    assert run(output, "new") == "published"
    assert content_of(output) == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "out"]


def test_a_manifest_that_names_files_elsewhere_removes_nothing_there(tmp_path):
    output, outside = tmp_path / "out", tmp_path / "outside.txt"
    outside.write_text("mine")
    kind = OutputKind("test", lambda manifest: ("shard-0", "shard-1", "../outside.txt", str(outside)))
    run(output, "old")
    with opened(output, kind=kind) as folder:
        folder.begin(describe("new"), overwrite=True)
        (folder.dataset / "krill-run.json").write_text('{"identity": "new", "command": "test"}')
        folder.publish()
    assert outside.read_text() == "mine"
    assert [path.name for path in output.iterdir()] == ["krill-run.json"]
