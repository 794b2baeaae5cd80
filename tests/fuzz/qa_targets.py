"""Questions: files of them, and the caches of features that are made from those."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

import numpy as np

from fuzzing import Target
from krill.qa.cache import prepare
from krill.qa.dataset import QaDataset
from krill.qa.features import Shape
from krill.qa.sources import open_source
from krill.qa.tables import check_unit
from mutations import mutate_bytes, mutate_json

CONTEXT = "the krill swims in the sea, and the whale éats it 漢字 all day long " * 3


def _questions() -> list[dict]:
    answers = [{"text": "the sea", "answer_start": CONTEXT.index("the sea")}]
    return [
        {"id": f"q{number}", "question": f"where does it swim {number}?", "answers": answers * (number % 3)}
        for number in range(6)
    ]


def _write_source(folder: Path) -> None:
    paragraph = {"context": CONTEXT, "qas": [{**each, "is_impossible": False} for each in _questions()]}
    squad = {"version": "v2.0", "data": [{"title": "a", "paragraphs": [paragraph, paragraph | {"qas": []}]}]}
    (folder / "train.json").write_text(json.dumps(squad))


def _make_questions(folder: Path) -> Mapping[str, Sequence[str]]:
    for case in ("squad", "lines"):
        (folder / case).mkdir()
    _write_source(folder / "squad")
    rows = [{**each, "context": CONTEXT, "answers": _columns(each["answers"])} for each in _questions()]
    (folder / "lines" / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {"squad": ["train.json"], "lines": ["train.jsonl"]}


def _columns(answers: list[dict]) -> dict:
    return {
        "text": [each["text"] for each in answers],
        "answer_start": [each["answer_start"] for each in answers],
    }


def check_questions(folder: Path, random: Random) -> None:
    (file,) = folder.iterdir()
    for paragraph in open_source(file).paragraphs():
        assert isinstance(paragraph.context, str)
        for question in paragraph.questions:
            question.text.encode()


def _make_cache(folder: Path) -> Mapping[str, Sequence[str]]:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    _write_source(folder)
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[UNK]", "[CLS]", "[SEP]", "[PAD]"]
    tokenizer.train_from_iterator(
        [CONTEXT], trainers.WordPieceTrainer(vocab_size=120, special_tokens=special)
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    shape = Shape(max_seq_length=32, doc_stride=8)
    prepare(
        folder / "train.json",
        folder / "tokenizer.json",
        output=folder / "cache",
        shape=shape,
        memory="1GB",
        threads=1,
    )
    names = [path.name for path in sorted((folder / "cache").iterdir()) if path.is_file()]
    return {"cache": names}


def check_cache(folder: Path, random: Random) -> None:
    dataset = QaDataset(folder, memory="1GB")
    kind = random.randrange(5)
    if kind == 0:
        for feature in range(len(dataset)):
            assert dataset[feature]["input_ids"].shape == (dataset.stored.width,)
    elif kind == 1:
        for document in range(dataset.documents):
            dataset.document(document)
            dataset.answers(document)
        dataset.get_all_documents()
    elif kind == 2:
        list(dataset.inexact())
    elif kind == 3:
        dataset.stored.rows(np.arange(len(dataset)))
        dataset.find("q1")
    else:
        for number in range(len(dataset.stored.first_example) - 1):
            check_unit(folder, number)


def _mutate(data: bytes, random: Random, others: Sequence[bytes]) -> bytes:
    return mutate_json(data, random, others) if data[:1] == b"{" else mutate_bytes(data, random, others)


QA_TARGETS = [
    Target("questions", _make_questions, check_questions, mutate_json),
    Target("question-cache", _make_cache, check_cache, _mutate),
]
