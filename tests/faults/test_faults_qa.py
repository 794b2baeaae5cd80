"""Preparing questions that is killed and continued ends with the same bytes, and makes no unit twice."""

from __future__ import annotations

import json
import random
import shutil
import signal
from pathlib import Path

import pytest
from hostile_beside import READER, whole_features
from hostile_models import save_model
from hostile_questions import GOOD
from hostile_tokenizer_files import plain

from conftest import dataset_bytes
from krill.errors import BudgetError, InputError, StorageError
from krill.qa import Shape, prepare
from krill.qa import units as making
from krill.qa.dataset import QaDataset
from krill.qa.examples import SeenIds
from krill_process import KrillProcess
from questions import SQUAD, grown_squad, question, story, story_file, tokenizer_of, write_squad

UNIT = 3000
# Each unit takes a moment, so that there is a middle to be killed in.
SCRIPT = f"""
import sys, time
from krill.qa import Shape, prepare, units

units.UNIT_CHARACTERS = {UNIT}
make_unit = units.make_unit

def slowly(*arguments):
    time.sleep(0.03)
    return make_unit(*arguments)

units.make_unit = slowly
made = prepare("questions.json", "tokenizer", output="out", shape=Shape(64, 16), threads=int(sys.argv[1]))
print(made.status)
"""


@pytest.fixture
def folder(tmp_path) -> Path:
    story_file(tmp_path / "questions.json", contexts=40, words=400)
    tokenizer_of("byte_bpe").save_pretrained(tmp_path / "tokenizer")
    return tmp_path


def inodes(folder: Path) -> dict[str, int]:
    """Which file each table is: one that is written again is another."""
    return {path.name: path.stat().st_ino for path in folder.glob("*.arrow")}


def test_a_run_that_is_killed_twice_goes_on_behind_what_it_has_done(folder, monkeypatch) -> None:
    monkeypatch.setattr(making, "UNIT_CHARACTERS", UNIT)
    expected = prepare(
        folder / "questions.json", folder / "tokenizer", output=folder / "whole", shape=Shape(64, 16)
    )
    units = len(expected.manifest["units"])
    assert units > 12
    records = folder / ".out.krill" / "stages" / "features"
    tables = folder / ".out.krill" / "dataset"
    kept: dict[str, int] = {}
    for threads, wanted in ((1, 3), (2, 6)):
        running = KrillProcess(folder, threads, script=SCRIPT)
        running.wait_until(lambda wanted=wanted: len(list(records.glob("*.json"))) >= wanted)
        running.process.send_signal(signal.SIGKILL)
        assert running.process.wait(30) == -signal.SIGKILL
        committed = {f"{int(path.stem):05d}" for path in records.glob("*.json")}
        now = {name: number for name, number in inodes(tables).items() if name[-11:-6] in committed}
        assert kept.items() <= now.items()
        kept = now
    assert 3 * 6 <= len(kept) < 3 * units
    last = KrillProcess(folder, 2, script=SCRIPT)
    assert last.process.wait(60) == 0
    assert dataset_bytes(folder / "out") == dataset_bytes(folder / "whole")
    assert kept.items() <= inodes(folder / "out").items()
    assert not (folder / ".out.krill").exists()


@pytest.mark.soak
@pytest.mark.skipif(not SQUAD.exists(), reason="the shared questions are not here")
def test_the_command_killed_at_random_moments_ends_with_the_same_bytes_and_makes_no_unit_twice(
    tmp_path,
) -> None:
    grown_squad(tmp_path / "questions.json", 20)
    tokenizer_of("byte_bpe").save_pretrained(tmp_path / "tokenizer")
    command = ("qa", "prepare", "questions.json", "--tokenizer", "tokenizer", "--quiet", "--output")
    assert KrillProcess(tmp_path, *command, "whole", "--threads", 1).wait() == 0
    records = tmp_path / ".out.krill" / "stages" / "features"
    chance = random.Random(0)
    kept: dict[str, int] = {}
    kills = 0
    while kills < 12:
        budget = ("--memory", chance.choice(["300MB", "1GB"]), "--threads", chance.choice([1, 2]))
        if not KrillProcess(tmp_path, *command, "out", *budget).kill_after(chance.uniform(0, 0.6)):
            break
        kills += 1
        committed = {f"{int(path.stem):05d}" for path in records.glob("*.json")}
        found = inodes(tmp_path / ".out.krill" / "dataset")
        now = {name: number for name, number in found.items() if name[-11:-6] in committed}
        assert kept.items() <= now.items()
        kept = now
    assert kills > 4
    assert kept
    assert KrillProcess(tmp_path, *command, "out").wait() == 0
    assert dataset_bytes(tmp_path / "out") == dataset_bytes(tmp_path / "whole")
    assert kept.items() <= inodes(tmp_path / "out").items()


def test_a_run_on_a_folder_that_another_one_writes_is_refused(folder) -> None:
    running = KrillProcess(folder, 1, script=SCRIPT)
    running.wait_until_begun()
    with pytest.raises(StorageError, match="another run is writing"):
        prepare(folder / "questions.json", folder / "tokenizer", output=folder / "out", shape=Shape(64, 16))
    assert running.process.wait(60) == 0


@pytest.mark.parametrize(
    ("memory", "message"),
    [
        ("300MB", "has up to 10,888,990 bytes, which take"),
        ("400MB", "a context of 10,888,889 characters takes 774 MB"),
    ],
)
def test_a_context_that_the_budget_can_t_hold_is_refused_before_it_is_tokenised(
    tmp_path, memory, message
) -> None:
    source = write_squad(tmp_path / "a.json", (story(1_000_000), [question(1, "which?")]))
    with pytest.raises(BudgetError, match=message) as refused:
        prepare(source, tokenizer_of("byte_bpe"), output=tmp_path / "out", memory=memory)
    assert "MB would do" in str(refused.value.hint)


def test_ids_that_the_budget_can_t_hold_are_an_error_and_not_a_crash() -> None:
    seen = SeenIds(SeenIds.bytes_for(1000))
    assert seen.add([str(number) for number in range(1000)]).all()
    assert not seen.add(["7"]).any()
    with pytest.raises(BudgetError, match="ids of"):
        for first in range(0, 10**6, 10_000):
            seen.add([str(number) for number in range(first, first + 10_000)])


def test_ids_are_told_apart_also_when_the_table_grows() -> None:
    seen = SeenIds(10**9)
    for first in range(0, 200_000, 20_000):
        assert seen.add([str(number) for number in range(first, first + 20_000)]).all()
    again = seen.add([str(number) for number in range(100_000, 300_000)])
    assert again.tolist() == [False] * 100_000 + [True] * 100_000


@pytest.mark.parametrize("files", [[], [{"file": "../../other.arrow", "bytes": 1, "sha256": "0" * 64}], 5])
def test_features_whose_manifest_states_not_every_checksum_are_refused(tmp_path, files):
    shutil.copytree(whole_features(), tmp_path / "features")
    manifest = json.loads((tmp_path / "features" / "krill-run.json").read_bytes())
    (tmp_path / "features" / "krill-run.json").write_text(json.dumps({**manifest, "files": files}))
    with pytest.raises(InputError, match=r"states no checksum of `paragraphs-00000\.arrow`"):
        QaDataset(tmp_path / "features", verify=True)
    assert len(QaDataset(tmp_path / "features", verify=False)) == 100


@pytest.mark.parametrize(
    "name",
    [
        "questions.json",
        "tokenizer.json",
        "features/krill-run.json",
        "model/config.json",
        "notes.txt",
        "features",
    ],
)
def test_predictions_replace_nothing_but_predictions(tmp_path, krill, name):
    shutil.copytree(whole_features(), tmp_path / "features")
    save_model(tmp_path / "model", READER)
    (tmp_path / "questions.json").write_text(json.dumps(GOOD))
    (tmp_path / "tokenizer.json").write_text(json.dumps(plain()))
    (tmp_path / "notes.txt").write_text("mine")
    before = dataset_bytes(tmp_path)
    words = ("qa", "evaluate", "model", "features", "--predictions")
    done = krill(*words, name, "--memory", "1GB", cwd=tmp_path)
    assert done.code == 5, done.err
    assert f"`{name}` holds something else than predictions: nothing was written" in done.err
    assert dataset_bytes(tmp_path) == before
    (tmp_path / "earlier.json").write_text('{"q0": "Alba"}')
    done = krill(*words, "earlier.json", "--memory", "1GB", cwd=tmp_path)
    assert done.code == 3, done.err  # the features were made with another tokenizer than the model's
