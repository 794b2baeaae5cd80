"""Any feature and any document of a cache by number, with everything that is known of it."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest

from krill.errors import InputError
from krill.qa import QaDataset, Shape, prepare
from krill.qa import units as making
from questions import KINDS, question, story, story_file, tokenizer_of, write_squad

KEYS = {
    "input_ids",
    "attention_mask",
    "token_type_ids",
    "start_positions",
    "end_positions",
    "offset_mapping",
    "context",
    "question",
    "cls_index",
    "has_answer",
    "chosen_answer_text",
    "chosen_answer_char_span",
    "example_id",
    "segment_index",
    "total_segments",
}


@pytest.fixture
def dataset(tmp_path, monkeypatch) -> QaDataset:
    monkeypatch.setattr(making, "UNIT_CHARACTERS", 700)
    source = story_file(tmp_path / "train.json")
    made = prepare(source, tokenizer_of("wordpiece"), output=tmp_path / "out", shape=Shape(48, 12))
    assert len(made.manifest["units"]) > 2
    return QaDataset(made.folder, memory="100MB")


def test_a_feature_has_every_key_and_its_answer_reads_as_given(dataset) -> None:
    answered = 0
    for feature in dataset:
        assert set(feature) == KEYS
        span = feature["chosen_answer_char_span"]
        assert feature["context"][span[0] : span[1]] == feature["chosen_answer_text"]
        if feature["has_answer"]:
            answered += 1
            begin = feature["offset_mapping"][feature["start_positions"]][0]
            end = feature["offset_mapping"][feature["end_positions"]][1]
            assert feature["context"][begin:end] == feature["chosen_answer_text"]
        else:
            assert feature["start_positions"] == feature["end_positions"] == feature["cls_index"] == 0
    assert answered > 10


def test_documents_are_runs_of_features_in_order(dataset) -> None:
    ids = dataset.get_all_documents()
    assert len(ids) == dataset.documents == 24
    seen = []
    for number, example_id in enumerate(ids):
        features = dataset.document(number)
        segments = dataset.get_document_segments(example_id)
        assert dataset.find(example_id) == number
        assert [feature["segment_index"] for feature in features] == list(range(len(features)))
        assert {feature["total_segments"] for feature in features} == {len(features)} == {len(segments)}
        assert {feature["example_id"] for feature in features} == {example_id}
        assert (dataset[segments[0]]["input_ids"] == features[0]["input_ids"]).all()
        seen += segments
    assert seen == list(range(len(dataset)))
    assert any(len(dataset.get_document_segments(example_id)) > 3 for example_id in ids)


def test_windows_overlap_and_together_hold_the_whole_context(dataset) -> None:
    last = dataset.document(dataset.documents - 1)
    assert len(last) > 3
    ends = []
    for feature in last:
        spans = feature["offset_mapping"][feature["offset_mapping"][:, 1] > 0]
        ends.append((spans[0, 0], spans[-1, 1]))
    assert ends[0][0] == 0
    assert ends[-1][1] == len(last[0]["context"])
    assert all(later < end for (_, end), (later, _) in itertools.pairwise(ends))


def test_negative_numbers_count_from_the_end_and_others_are_out_of_range(dataset) -> None:
    assert (dataset[-1]["input_ids"] == dataset[len(dataset) - 1]["input_ids"]).all()
    for number in (len(dataset), -len(dataset) - 1):
        with pytest.raises(IndexError, match="is out of range"):
            dataset[number]
    with pytest.raises(IndexError, match="document 24 is out of range: there are 24"):
        dataset.document(24)
    for read in (dataset.answers, dataset.document_id):
        with pytest.raises(IndexError, match="document 24 is out of range: there are 24"):
            read(24)
    with pytest.raises(IndexError, match="feature -1 is out of range"):
        dataset.metadata(-1)
    with pytest.raises(InputError, match="no document with the id `nobody`"):
        dataset.find("nobody")


def test_few_units_are_held_and_the_answers_stay_the_same(dataset) -> None:
    expected = [feature["input_ids"].tolist() for feature in dataset]
    order = np.random.default_rng(0).permutation(len(dataset)).tolist()
    for idle in (0, 1, 100):
        stored = dataset.stored.__class__(dataset.stored.folder, 0)
        stored._most_in_use, stored._most_idle = 1, idle
        small = pickle.loads(pickle.dumps(dataset))
        small.stored = stored
        assert all(small[number]["input_ids"].tolist() == expected[number] for number in order)
        assert len(stored._in_use) == 1
        assert len(stored._idle) == min(idle, len(dataset.manifest["units"]) - 1)


def test_a_copy_in_another_process_reads_the_same(dataset) -> None:
    copy = pickle.loads(pickle.dumps(dataset))
    assert (copy[5]["input_ids"] == dataset[5]["input_ids"]).all()


def test_all_valid_answers_are_kept_for_evaluation(tmp_path) -> None:
    asked = question("a", "which?", ("word1", 6), ("word1 word2", 6))
    source = write_squad(tmp_path / "train.json", (story(9), [asked, question("b", "none?")]))
    made = prepare(source, tokenizer_of("wordpiece"), output=tmp_path / "out", shape=Shape(48, 12))
    dataset = QaDataset(made.folder)
    assert dataset.answers(0) == {"text": ["word1", "word1 word2"], "answer_start": [6, 6]}
    assert dataset.answers(1) == {"text": [], "answer_start": []}


@pytest.mark.parametrize("kind", KINDS)
def test_the_classification_token_is_where_the_tokenizer_puts_it(tmp_path, kind) -> None:
    tokenizer = tokenizer_of(kind)
    made = prepare(
        story_file(tmp_path / "train.json"), tokenizer, output=tmp_path / "out", shape=Shape(64, 12)
    )
    for feature in QaDataset(made.folder):
        assert feature["input_ids"][feature["cls_index"]] == tokenizer.cls_token_id
        assert feature["cls_index"] == (63 if kind == "unigram" else 0)
        padding = feature["input_ids"][feature["attention_mask"] == 0]
        assert (padding == tokenizer.pad_token_id).all()


@pytest.mark.parametrize("damage", ["missing", "cut", "no manifest", "other"])
def test_a_damaged_cache_is_refused_by_name(dataset, damage) -> None:
    folder = dataset.stored.folder
    table = folder / "paragraphs-00001.arrow"
    if damage == "missing":
        table.unlink()
    elif damage == "cut":
        table.write_bytes(table.read_bytes()[:-100])
    elif damage == "no manifest":
        (folder / "krill-run.json").unlink()
    else:
        (folder / "krill-run.json").write_text('{"command": "export", "format": 1, "units": []}')
    with pytest.raises(InputError) as refused:
        list(QaDataset(folder))
    expected = table.name if damage in ("missing", "cut") else folder.name
    assert expected in refused.value.message
    assert "krill qa prepare" in str(refused.value.hint) or "prepare it again" in str(refused.value.hint)


def test_a_folder_that_is_not_there_is_refused_with_the_command_that_makes_it(tmp_path) -> None:
    with pytest.raises(InputError, match="none` is not a folder") as refused:
        QaDataset(tmp_path / "none")
    assert f"--output {tmp_path / 'none'}" in str(refused.value.hint)
