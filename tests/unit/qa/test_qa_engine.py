"""Features that an engine's workers make are those of this process, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import preloaded
from conftest import dataset_bytes
from in_process_engine import InProcessRunner, opening
from krill.budget.meter import resident_bytes
from krill.errors import BudgetError, StorageError
from krill.qa import QaDataset, Shape, feature_stage, prepare
from krill.qa import units as making
from krill.qa.encoding import open_tokenizer, tokenizer_from
from krill.qa.examples import Paragraph, Question
from krill.qa.feature_stage import paragraphs_json, read_paragraphs
from peers import peer
from questions import question, story, story_file, tokenizer_of, write_squad

peer("ray")  # the engine in name, which a driver loads

pytest_plugins = ["ray_fixtures"]

SHAPE = Shape(48, 12)

# Ray's threads and the forks of other tests don't mix.
SCRIPT = """
import sys
from krill.qa import Shape, prepare, units
units.UNIT_CHARACTERS = 700
source, tokenizer, output, address = sys.argv[1:]
engine = {"name": "ray", "address": address}
prepare(source, tokenizer, output=output, shape=Shape(48, 12), memory="500MB", threads=1, engine=engine)
"""


@pytest.fixture(autouse=True)
def small_units(monkeypatch):
    monkeypatch.setattr(making, "UNIT_CHARACTERS", 700)


@pytest.fixture
def with_engine(monkeypatch):
    """Preparations on `ray` are done by `engine`."""

    def use(engine):
        monkeypatch.setattr("krill.engines.engine.open_engine", opening(engine))
        return engine

    return use


def made(source, tokenizer, output, **chosen):
    memory = resident_bytes() + 10**9  # this process holds whatever other tests have loaded
    prepared = prepare(source, tokenizer, output=output, shape=SHAPE, **{"memory": memory, **chosen})
    return prepared.manifest, dataset_bytes(output)


SAME = ("identity", "paragraphs", "examples", "features", "bytes", "counts", "inexact", "units")


def assert_same(found, expected):
    assert found[1] == expected[1]
    for fact in SAME:
        assert found[0][fact] == expected[0][fact]


@pytest.mark.parametrize("kind", ["byte_bpe", "wordpiece", "unigram"])
def test_the_files_are_the_local_ones_with_every_tokenizer(tmp_path, with_engine, kind):
    source, tokenizer = story_file(tmp_path / "train.json"), tokenizer_of(kind)
    local = made(source, tokenizer, tmp_path / "local")
    runner = with_engine(InProcessRunner())
    found = made(source, tokenizer, tmp_path / "out", engine="ray")
    assert_same(found, local)
    assert len(runner.tasks) == len(local[0]["units"]) > 2
    assert found[0]["engine"]["tasks"] == len(runner.tasks)
    assert len(QaDataset(tmp_path / "out", memory="200MB")) == local[0]["features"]


def test_an_id_that_comes_again_in_a_later_unit_is_left_out(tmp_path, with_engine):
    paragraphs = [(story(60), [question(at % 7, "which one?")]) for at in range(12)]
    source = write_squad(tmp_path / "train.json", *paragraphs)
    local = made(source, tokenizer_of("wordpiece"), tmp_path / "local")
    assert local[0]["counts"]["duplicate_ids"] == 5
    with_engine(InProcessRunner())
    assert_same(made(source, tokenizer_of("wordpiece"), tmp_path / "out", engine="ray"), local)


@pytest.mark.parametrize("most", [1, 3])
def test_a_driver_that_was_killed_goes_on_behind_what_was_committed(tmp_path, with_engine, most):
    source, tokenizer = story_file(tmp_path / "train.json"), tokenizer_of("byte_bpe")
    local = made(source, tokenizer, tmp_path / "local")
    with_engine(InProcessRunner(most))
    with pytest.raises(KeyboardInterrupt):
        made(source, tokenizer, tmp_path / "out", engine="ray")
    second = with_engine(InProcessRunner())
    assert_same(made(source, tokenizer, tmp_path / "out", engine="ray"), local)
    assert len(second.tasks) == len(local[0]["units"]) - most


def test_a_life_on_an_engine_and_a_local_one_share_what_was_committed(tmp_path, with_engine, monkeypatch):
    source, tokenizer = story_file(tmp_path / "train.json"), tokenizer_of("byte_bpe")
    local = made(source, tokenizer, tmp_path / "local")
    with_engine(InProcessRunner(2))
    with pytest.raises(KeyboardInterrupt):
        made(source, tokenizer, tmp_path / "out", engine="ray")
    units = []
    make_unit = making.make_unit
    monkeypatch.setattr(making, "make_unit", lambda *given: units.append(1) or make_unit(*given))
    assert_same(made(source, tokenizer, tmp_path / "out"), local)
    assert len(units) == len(local[0]["units"]) - 2


def test_a_task_that_is_run_twice_changes_nothing(tmp_path, with_engine):
    source, tokenizer = story_file(tmp_path / "train.json"), tokenizer_of("byte_bpe")
    local = made(source, tokenizer, tmp_path / "local")
    with_engine(InProcessRunner(times=2))
    assert_same(made(source, tokenizer, tmp_path / "out", engine="ray"), local)


def test_what_waited_for_workers_is_gone_in_the_end(tmp_path, with_engine):
    source = story_file(tmp_path / "train.json")
    with_engine(InProcessRunner())
    made(source, tokenizer_of("byte_bpe"), tmp_path / "out", engine="ray")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "train.json"]


def test_a_context_that_is_too_long_for_a_worker_is_refused_by_it(tmp_path, with_engine, monkeypatch):
    source = write_squad(tmp_path / "train.json", ("long " * 300_000, [question(1, "which one?")]))
    with_engine(InProcessRunner())
    fits = feature_stage.check_fits
    monkeypatch.setattr(
        feature_stage, "check_fits", lambda one, share, tokenizer: fits(one, 10**6, tokenizer)
    )
    with pytest.raises(BudgetError, match="a context of 1,500,000 characters takes 136 MB"):
        made(source, tokenizer_of("byte_bpe"), tmp_path / "out", engine="ray")


@pytest.mark.parametrize("name", ["tokenizer", "waiting/*.paragraphs"])
def test_files_that_are_damaged_on_their_way_are_refused(tmp_path, with_engine, name):
    class Spoils(InProcessRunner):
        def run(self, spec, tasks, resources):
            def spoilt():
                for task in tasks:
                    stages = json.loads((Path(spec.address) / "worker.json").read_text())["stages"]
                    for path in Path(stages).glob(name):
                        with path.open("r+b") as file:
                            file.truncate(file.seek(0, 2) // 2)
                    yield task

            yield from super().run(spec, spoilt(), resources)

    with_engine(Spoils())
    with pytest.raises(StorageError, match="is not as it was written"):
        made(story_file(tmp_path / "train.json"), tokenizer_of("byte_bpe"), tmp_path / "out", engine="ray")


def test_paragraphs_travel_whole(tmp_path):
    paragraphs = [
        Paragraph("Ein Satz, \u2028 und 語\ufffd", [Question("1", "was?", (("Satz", 4), ("", -1)))]),
        Paragraph("", []),
    ]
    path = tmp_path / "some"
    path.write_bytes(paragraphs_json(paragraphs))
    assert read_paragraphs(path) == paragraphs


@pytest.mark.parametrize("kind", ["byte_bpe", "wordpiece", "unigram"])
def test_a_tokenizer_is_the_same_elsewhere(kind):
    here = open_tokenizer(tokenizer_of(kind))
    there = tokenizer_from(here.content, here.layout)
    assert (there.fingerprint, there.native) == (here.fingerprint, here.native)
    texts = [story(40), "", "é\u0301 x"]
    assert there.encoder.encode(texts).values.tolist() == here.encoder.encode(texts).values.tolist()


def test_two_nodes_of_a_ray_cluster_make_the_local_features(tmp_path, ray_cluster):
    source = story_file(tmp_path / "train.json", contexts=20)
    tokenizer_of("byte_bpe").save_pretrained(tmp_path / "tokenizer")
    local = made(source, tmp_path / "tokenizer", tmp_path / "local")
    arguments = (source, tmp_path / "tokenizer", tmp_path / "ray", ray_cluster.address)
    outcome = preloaded.run(arguments, script=SCRIPT, server=ray_cluster.server)
    assert outcome.code == 0, outcome.err
    assert dataset_bytes(tmp_path / "ray") == local[1]
