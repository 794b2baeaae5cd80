"""A cache is found by what it is, is the same however it was made, and says what it left out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import dataset_bytes
from krill.errors import ConfigError, InputError
from krill.qa import QaDataset, Shape, prepare
from krill.qa import units as making
from questions import question, squad, story, story_file, tokenizer_of, write_squad

SHAPE = Shape(48, 12)


@pytest.fixture
def small_units(monkeypatch) -> None:
    monkeypatch.setattr(making, "UNIT_CHARACTERS", 700)


def test_neither_threads_nor_memory_nor_the_tokenizer_s_form_change_a_byte(tmp_path, small_units) -> None:
    source = story_file(tmp_path / "train.json")
    tokenizer = tokenizer_of("byte_bpe")
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    made = [
        prepare(source, tokenizer, output=tmp_path / "a", shape=SHAPE, memory="200MB"),
        prepare(source, tokenizer, output=tmp_path / "b", shape=SHAPE, memory="1GB", threads=2),
        prepare(source, tmp_path / "tokenizer", output=tmp_path / "c", shape=SHAPE, memory="300MB"),
    ]
    assert [one.status for one in made] == ["done"] * 3
    assert len(made[0].manifest["units"]) > 2
    contents = [dataset_bytes(one.folder) for one in made]
    assert contents[0] == contents[1] == contents[2]
    assert len(contents[0]) == 3 * len(made[0].manifest["units"])
    assert made[0].manifest["identity"] == made[1].manifest["identity"]


def test_the_same_questions_as_squad_lines_folder_and_saved_dataset_make_the_same_features(tmp_path) -> None:
    datasets = pytest.importorskip("datasets")
    source = story_file(tmp_path / "story.json")
    rows = [
        {
            "id": asked["id"],
            "question": asked["question"],
            "context": paragraph["context"],
            "answers": {
                "text": [answer["text"] for answer in asked["answers"]],
                "answer_start": [answer["answer_start"] for answer in asked["answers"]],
            },
        }
        for paragraph in json.loads(source.read_text())["data"][0]["paragraphs"]
        for asked in paragraph["qas"]
    ]
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "other.json").write_text("{}")
    (folder / "dev-v2.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    saved = datasets.DatasetDict({"validation": datasets.Dataset.from_list(rows)})
    saved.save_to_disk(tmp_path / "saved")
    contents = []
    for number, name in enumerate((source, folder / "dev-v2.jsonl", folder, tmp_path / "saved")):
        made = prepare(
            name, tokenizer_of("wordpiece"), output=tmp_path / f"o{number}", split="validation", shape=SHAPE
        )
        contents.append(dataset_bytes(made.folder))
    assert contents[0] == contents[1] == contents[2] == contents[3]


def test_a_finished_cache_is_left_alone_and_a_different_one_refused_with_what_differs(tmp_path) -> None:
    source = story_file(tmp_path / "train.json")
    made = prepare(source, tokenizer_of("wordpiece"), output=tmp_path / "out", shape=SHAPE)
    again = prepare(source, tokenizer_of("wordpiece"), output=tmp_path / "out", shape=SHAPE)
    assert (again.status, again.features) == ("finished", made.features)
    with pytest.raises(ConfigError, match="doc_stride: `12` -> `13`; the tokenizer's content"):
        prepare(source, tokenizer_of("unigram"), output=tmp_path / "out", shape=Shape(48, 13))
    story_file(source, contexts=7)
    with pytest.raises(ConfigError, match="input `"):
        prepare(source, tokenizer_of("wordpiece"), output=tmp_path / "out", shape=SHAPE)
    anew = prepare(source, tokenizer_of("wordpiece"), output=tmp_path / "out", shape=SHAPE, overwrite=True)
    assert anew.features > made.features


def test_everything_that_shapes_a_feature_is_in_the_identity(tmp_path) -> None:
    source = story_file(tmp_path / "story.json")
    copied = tmp_path / "moved.json"
    copied.write_bytes(source.read_bytes())

    def identity(number: int, name: Path = source, kind: tuple = ("wordpiece", 0), **more: object) -> str:
        options = {"shape": SHAPE, **more}
        made = prepare(name, tokenizer_of(*kind), output=tmp_path / str(number), **options)
        return str(made.manifest["identity"])

    different = [
        identity(0),
        identity(1, shape=Shape(49, 12)),
        identity(2, shape=Shape(48, 11)),
        identity(3, shape=Shape(48, 12, 1)),
        identity(4, shape=Shape(48, 12, None, "drop")),
        identity(5, kind=("unigram", 0)),
        identity(6, kind=("wordpiece", 2)),
        identity(7, max_examples=3),
        identity(8, split="validation"),
        identity(9, story_file(tmp_path / "other.json", contexts=5)),
    ]
    assert len(set(different)) == len(different)
    assert identity(10, copied) == different[0]


def test_questions_with_an_id_that_came_before_are_dropped_and_counted(tmp_path, small_units) -> None:
    source = write_squad(
        tmp_path / "train.json",
        (story(100), [question(1, "which?"), question(2, "which?"), question(1, "who?")]),
        (story(100, 500), [question(2, "what?"), question(3, "what?")]),
    )
    made = prepare(source, tokenizer_of("wordpiece"), output=tmp_path / "out", shape=SHAPE)
    assert made.manifest["counts"] == {"duplicate_ids": 2}
    assert QaDataset(made.folder).get_all_documents() == ["1", "2", "3"]


def test_so_many_examples_and_no_more(tmp_path) -> None:
    source = story_file(tmp_path / "train.json")
    made = prepare(source, tokenizer_of("wordpiece"), output=tmp_path / "out", shape=SHAPE, max_examples=6)
    assert made.manifest["examples"] == 6
    assert made.manifest["paragraphs"] == 2


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("none.json", None, "there is no file or folder `"),
        ("a.csv", "x", "is not in a supported format"),
        ("a.json", json.dumps(squad()), "has a feature: it has none"),
        ("a.json", '{"data": [', "is cut short"),
    ],
)
def test_a_source_that_can_t_be_read_is_refused(tmp_path, name, content, said, monkeypatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(InputError) as refused:
        prepare(tmp_path / name, tokenizer_of("wordpiece"), output=tmp_path / "out", shape=SHAPE)
    assert said in refused.value.message
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / ".out.krill").exists()


def test_a_hub_id_that_can_t_be_had_is_said_and_a_path_is_never_asked_for(tmp_path, monkeypatch) -> None:
    datasets = pytest.importorskip("datasets")
    asked = []

    def unreachable(name: str, split: str) -> None:
        asked.append(name)
        raise ConnectionError(f"no way to {name}\nand more of it")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    monkeypatch.chdir(tmp_path)
    for name in ("squad_v2", "user/squad"):
        with pytest.raises(
            InputError, match=f"`{name}` is not a file or folder, and can't be downloaded from the hub: no"
        ):
            prepare(name, tokenizer_of("wordpiece"), output=tmp_path / "out", shape=SHAPE)
    for name in ("./squad", "~/squad", "/data/squad", "data/my/squad", "squad.json", "a/squad.jsonl.gz"):
        with pytest.raises(InputError, match=f"there is no file or folder `{name}`"):
            prepare(name, tokenizer_of("wordpiece"), output=tmp_path / "out", shape=SHAPE)
    assert asked == ["squad_v2", "user/squad"]


def test_no_examples_and_a_tokenizer_that_is_not_there_are_refused_with_what_to_give(tmp_path) -> None:
    source = story_file(tmp_path / "train.json")
    with pytest.raises(ConfigError, match="`max_examples` is `0`"):
        prepare(source, tokenizer_of("wordpiece"), output=tmp_path / "out", shape=SHAPE, max_examples=0)
    with pytest.raises(InputError, match="no tokenizer at `bert-base-uncased`") as refused:
        prepare(source, "bert-base-uncased", output=tmp_path / "out", shape=SHAPE)
    assert "hf download" in str(refused.value.hint)


def test_questions_that_all_leave_no_room_are_an_error_that_says_so(tmp_path) -> None:
    source = write_squad(tmp_path / "train.json", (story(200), [question(1, story(40))]))
    with pytest.raises(InputError, match="has a feature: 1 questions too long"):
        prepare(source, tokenizer_of("wordpiece"), output=tmp_path / "out", shape=SHAPE)


def test_a_folder_without_the_split_is_refused_with_the_name_to_give(tmp_path) -> None:
    story_file(tmp_path / "train.json")
    with pytest.raises(InputError, match="has no file for the split `test`") as refused:
        prepare(tmp_path, tokenizer_of("wordpiece"), output=tmp_path / "out", split="test", shape=SHAPE)
    assert "test.json" in str(refused.value.hint)
