"""A training whose words are counted by an engine's workers ends with the bytes of one that counts itself."""

from __future__ import annotations

import gzip
import json
from itertools import islice
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import krill.tokenizer.count as counting
from conftest import dataset_bytes
from in_process_engine import InProcessRunner, opening
from jobs import json_lines
from krill.budget import Meter
from krill.budget.meter import peak_bytes, resident_bytes
from krill.corpus import CorpusFile, DatasetSource
from krill.corpus.formats import Format
from krill.engines import engine as engines_engine
from krill.engines import worker_part
from krill.errors import BudgetError, ConfigError, InputError, StorageError
from krill.storage import CommitLog
from krill.threads.progress import Silent
from krill.tokenizer import distributed, train
from krill.tokenizer.count import corpus_of, open_sources
from krill.tokenizer.count_tasks import COUNTED, MOST_FILES, MOST_TASKS, split_input
from krill.tokenizer.options import TrainOptions
from krill.tokenizer.word_counter import BlockCounter
from properties import tried
from real_text import real_texts

pytest_plugins = ["ray_fixtures"]

END = "<|endoftext|>"
TEXTS = [text[:4000] for text in islice(real_texts(), 60)]
VOCAB_SIZE = 700


def kinds(runner):
    return [task.stage for task in runner.tasks]


@pytest.fixture
def with_engine(monkeypatch):
    """Trainings on `ray` are done by `engine`, in units of 20 kB."""

    def use(engine, unit_bytes=20_000):
        monkeypatch.setattr("krill.engines.engine.open_engine", opening(engine))
        monkeypatch.setattr(counting, "UNIT_BYTES", unit_bytes)
        return engine

    return use


def write(folder, name, texts=TEXTS):
    path = folder / name
    plain = END.join(texts).encode()
    if name.endswith(".parquet"):
        pq.write_table(pa.table({"text": texts}), path, row_group_size=7)
    elif ".jsonl" in name:
        path.write_bytes(gzip.compress(json_lines(texts)) if name.endswith("gz") else json_lines(texts))
    else:
        path.write_bytes(gzip.compress(plain) if name.endswith("gz") else plain)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A corpus of all kinds of files, among them one that no text is in."""
    place = tmp_path_factory.mktemp("corpus")
    names = ("a.txt", "b.txt.gz", "c.jsonl", "d.jsonl.gz", "e.parquet", "f.txt")
    for at, name in enumerate(names):
        write(place, name, TEXTS[at * 10 : at * 10 + 10])
    (place / "g.txt").write_bytes(b"")
    return place


def opened(*paths):
    return open_sources([DatasetSource(str(path)) for path in paths], TrainOptions(), None)


def room(beside=10**9):
    """A budget for work in this process, which holds whatever other tests have loaded."""
    return resident_bytes() + beside


def trained(corpus, output, **chosen):
    summary = train(corpus, output=output, **{"vocab_size": VOCAB_SIZE, "memory": room(), **chosen})
    return summary, dataset_bytes(output)


@pytest.fixture(scope="module")
def expected(folder, tmp_path_factory):
    return trained(folder, tmp_path_factory.mktemp("local") / "out")


# ---- the same bytes


@pytest.mark.parametrize("unit_bytes", [3_000, 20_000, 10**7])
def test_the_tokenizer_is_the_local_one_however_the_input_is_cut(
    tmp_path, folder, expected, with_engine, unit_bytes
):
    runner = with_engine(InProcessRunner(), unit_bytes)
    held_before = peak_bytes()
    summary, files = trained(folder, tmp_path / "out", engine="ray", threads=1)
    assert files == expected[1]
    assert kinds(runner).count("parts") == distributed.PARTS
    assert kinds(runner).count("counts") >= {3_000: 20, 20_000: 5, 10**7: 1}[unit_bytes]
    local, found = expected[0].to_json(), summary.to_json()
    assert found["engine"]["tasks"] == len(runner.tasks)
    assert held_before <= found["engine"]["worker_peak"] <= peak_bytes(), "the runner works in this process"
    for fact in ("words", "unique_words", "input_bytes", "merges"):
        assert found[fact] == local[fact]


@pytest.mark.parametrize("cap", [0, 3_000, 60_000])
def test_workers_with_little_memory_spill_and_count_the_same(
    tmp_path, folder, expected, with_engine, monkeypatch, cap
):
    monkeypatch.setattr(
        distributed, "BlockCounter", lambda *given, **more: BlockCounter(*given, **{**more, "cap_bytes": cap})
    )
    with_engine(InProcessRunner())
    assert trained(folder, tmp_path / "out", engine="ray", threads=2)[1] == expected[1]


def test_the_counts_of_many_tasks_are_merged_in_more_parts(
    tmp_path, folder, expected, with_engine, monkeypatch
):
    monkeypatch.setattr(distributed, "_MANY_TASKS", 3)
    runner = with_engine(InProcessRunner())
    assert trained(folder, tmp_path / "out", engine="ray")[1] == expected[1]
    assert kinds(runner).count("parts") == 64


@pytest.mark.parametrize(
    "chosen",
    [
        {"pattern": r"\w+|[^\w]"},
        {"boundaries": "lines", "pattern": "o200k"},
        {"tie_break": "greatest", "special_tokens": ["<s>", "the "]},
        {"initial_alphabet": "seen", "min_frequency": 3},
    ],
)
def test_options_shape_both_alike(tmp_path, folder, with_engine, chosen):
    local = trained(folder, tmp_path / "local", **chosen)[1]
    with_engine(InProcessRunner(), 5_000)
    assert trained(folder, tmp_path / "out", engine="ray", **chosen)[1] == local


@tried(15)
@given(
    texts=st.lists(st.text("ab \n.'é語", max_size=80), min_size=1, max_size=8),
    unit_bytes=st.integers(1, 60),
    lines=st.booleans(),
)
def test_no_word_is_cut_or_counted_twice_at_the_border_of_tasks(texts, unit_bytes, lines, tmp_path_factory):
    place = tmp_path_factory.mktemp("texts")
    (place / "a.txt").write_text("".join(texts) + "x")
    (place / "b.jsonl").write_bytes(json_lines(texts))
    options = TrainOptions(boundaries="lines" if lines else "documents")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "UNIT_BYTES", unit_bytes)
        found = [counted(place, options, portions) for portions in (True, False)]
    assert found[0] == found[1]


def counted(place, options, in_portions):
    """The words of the folder, counted in portions, each on its own, or as one."""
    corpus = open_sources([DatasetSource(str(place / "*"))], options, None)
    portions = list(split_input(corpus, counting.UNIT_BYTES if in_portions else 10**9))
    words = {}
    for number, portion in enumerate(portions):
        output = place / f"counted-{number}"
        read = orjson.loads(orjson.dumps(portion))
        prints = [corpus.fingerprints()[ordinal] for ordinal in portion.ordinals]
        spec = {"options": options_json(options), "boundaries": [END], "verify": True, "stages": str(place)}
        with Meter(room()) as meter:
            stage = distributed.CountWords(spec, meter, Silent())
            stage.count_portion({"portion": read, "fingerprints": prints}, output)
        for word, count in segment_words(output):
            words[word] = words.get(word, 0) + count
        output.unlink()
    return words


def options_json(options):
    return {
        "vocab_size": options.vocab_size,
        "boundaries": options.boundaries,
        "special_tokens": list(options.special_tokens),
    }


def segment_words(path):
    """The records of a counted file, read as plainly as can be."""
    from word_count_files import _read_number

    content = path.read_bytes()
    size = int.from_bytes(content[-16:-8], "little")
    at = 0
    while at < size:
        count, at = _read_number(content, at)
        length, at = _read_number(content, at)
        yield content[at : at + length], count
        at += length


# ---- lives


@pytest.mark.parametrize("most", [1, 7, -3, -1])
def test_a_driver_that_was_killed_goes_on_behind_what_was_committed(
    tmp_path, folder, expected, with_engine, most
):
    with_engine(None)
    tasks = distributed.PARTS + len(list(split_input(opened(folder), 20_000)))
    first = with_engine(InProcessRunner(most % tasks))
    with pytest.raises(KeyboardInterrupt):
        trained(folder, tmp_path / "out", engine="ray")
    second = with_engine(InProcessRunner())
    assert (
        trained(folder, tmp_path / "out", engine="ray", memory=room(8 * 10**8), threads=1)[1] == expected[1]
    )
    assert len({task.name for task in first.tasks + second.tasks}) == tasks
    assert len(first.tasks + second.tasks) == tasks


def test_a_task_that_is_run_twice_changes_nothing(tmp_path, folder, expected, with_engine):
    with_engine(InProcessRunner(times=2))
    assert trained(folder, tmp_path / "out", engine="ray")[1] == expected[1]


def test_a_life_on_an_engine_and_a_local_one_can_follow_each_other(tmp_path, folder, expected, with_engine):
    with_engine(InProcessRunner(5))
    with pytest.raises(KeyboardInterrupt):
        trained(folder, tmp_path / "out", engine="ray")
    assert trained(folder, tmp_path / "out")[1] == expected[1]


def test_a_finished_training_needs_no_engine(tmp_path, folder, with_engine):
    with_engine(InProcessRunner())
    trained(folder, tmp_path / "out", engine="ray")
    with_engine(None)
    assert trained(folder, tmp_path / "out", engine="ray")[0].status == "finished"


def test_nothing_is_left_beside_the_output(tmp_path, folder, with_engine):
    with_engine(InProcessRunner())
    trained(folder, tmp_path / "out", engine="ray")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


# ---- faults


class Spoils(InProcessRunner):
    """Does something to the files of the first counting task before counts are merged."""

    def __init__(self, spoil):
        super().__init__()
        self.spoil = spoil

    def run(self, spec, tasks, resources):
        if self.tasks:
            stages = json.loads((Path(spec.address) / "worker.json").read_text())["stages"]
            self.spoil(CommitLog(Path(stages) / "counts").path(0, COUNTED))
        yield from super().run(spec, tasks, resources)


@pytest.mark.parametrize("kept", [0, 10, -1])
def test_counts_that_were_damaged_are_refused(tmp_path, folder, with_engine, kept):
    def cut_off(path):
        with open(path, "r+b") as file:
            file.truncate(kept if kept >= 0 else file.seek(0, 2) + kept)

    with_engine(Spoils(cut_off))
    with pytest.raises(StorageError, match="does not end as it was written") as caught:
        trained(folder, tmp_path / "out", engine="ray")
    assert caught.value.hint == "start anew with --overwrite"


def test_a_worker_that_sees_another_file_says_so(tmp_path, with_engine):
    path = write(tmp_path, "a.txt")

    class Changes(InProcessRunner):
        def run(self, spec, tasks, resources):
            with path.open("r+b") as file:
                file.write(b"!")
            yield from super().run(spec, tasks, resources)

    with_engine(Changes())
    with pytest.raises(InputError, match=r"on `.*` sees another `.*a\.txt` than the run was begun with"):
        trained(path, tmp_path / "out", engine="ray")


def test_text_that_fits_no_worker_is_refused_as_it_is_locally(tmp_path, with_engine, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_bytes(b"word " + b"x" * 300_000)
    with_engine(InProcessRunner())
    split_points = distributed.split_points
    monkeypatch.setattr(
        distributed, "split_points", lambda options, tokens, longest: split_points(options, tokens, 10_000)
    )
    with pytest.raises(BudgetError, match=r"has no place to cut it in 10\.0 kB"):
        trained(path, tmp_path / "out", engine="ray")


def test_an_engine_needs_an_output(folder):
    with pytest.raises(ConfigError, match="the engine `ray` needs an `output`"):
        train(folder, engine="ray")


def test_an_engine_that_does_not_exist_is_refused(folder, tmp_path):
    with pytest.raises(ConfigError, match=r"`engine\.name` is `rai`"):
        train(folder, engine="rai", output=tmp_path / "out")


def test_a_flag_of_an_engine_is_refused_without_one(krill, tmp_path):
    outcome = krill("tokenizer", "train", "--input", "a.txt", "--output", tmp_path / "out", "--workers", "2")
    assert outcome.code == 2
    assert "error: --workers is given, and no engine that has one" in outcome.err


# ---- tasks


def test_there_are_not_many_more_tasks_for_more_text():
    source = DatasetSource("a.txt")
    file = CorpusFile(0, "a.txt", "a.txt", Format.TEXT, None, 10**12, source, 0)
    portions = sum(1 for _ in split_input(corpus_of([file], TrainOptions()), 32 * 10**6))
    assert MOST_TASKS <= portions <= 2 * MOST_TASKS


def test_small_files_share_a_task_and_its_payload_stays_small(tmp_path):
    for at in range(MOST_FILES + 10):
        (tmp_path / f"{at:04}.txt").write_text("text")
    portions = list(split_input(opened(tmp_path), 10**6))
    assert [len(portion.files) for portion in portions] == [MOST_FILES, 10]
    assert len(orjson.dumps(portions[0])) < 200_000
    assert portions[0].name.endswith(f"0000.txt` from 0 and {MOST_FILES - 1} more files")


def test_auto_is_a_part_for_each_worker_on_this_machine(monkeypatch):
    from krill.config import load_config

    def part(engine, memory, threads):
        return worker_part(load_config({"engine": engine}, environ={}).engine, memory, threads)

    monkeypatch.setattr(
        engines_engine, "resolve_threads", lambda threads: 8 if threads == "auto" else threads
    )
    monkeypatch.setattr(engines_engine, "resolve_limit", lambda memory: 8000 if memory == "auto" else memory)
    assert part("ray", "auto", "auto") == (8000, 8)
    assert part({"name": "ray", "workers": 4}, "auto", "auto") == (2000, 2)
    assert part({"name": "ray", "workers": 4}, 500, 3) == (500, 3)
    assert part({"name": "ray", "workers": 4, "address": "auto"}, "auto", "auto") == (8000, 8)


def test_a_task_says_which_part_of_the_input_it_counts(tmp_path, with_engine):
    path = write(tmp_path, "a.txt")
    runner = with_engine(InProcessRunner())
    trained(path, tmp_path / "out", engine="ray")
    assert runner.tasks[1].name == f"count 2, `{path}` from 20,000"
    assert runner.tasks[-1].name == "merge the counts of shards 60 to 63"


# ---- a real cluster


def test_two_nodes_of_a_ray_cluster_make_the_local_tokenizer(krill, tmp_path, ray_cluster):
    path = write(tmp_path, "corpus.jsonl")
    local, ray = tmp_path / "local", tmp_path / "ray"
    common = ("tokenizer", "train", "--input", path, "--vocab-size", VOCAB_SIZE, "--threads", "1", "--json")
    assert krill(*common, "--output", local).code == 0
    place = ("--engine", "ray", "--address", ray_cluster.address, "--memory", "400MB")
    outcome = krill(*common, *place, "--output", ray, server=ray_cluster.server)
    assert outcome.code == 0, outcome.err
    assert outcome.result["engine"]["worker_peak"] < 400 * 10**6
    assert dataset_bytes(ray) == dataset_bytes(local)
