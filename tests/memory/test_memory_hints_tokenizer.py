"""A refusal names a budget that does: for tokenizers, block lists and questions of hostile sizes."""

from __future__ import annotations

import json
import random
import re
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers.pre_tokenizers import ByteLevel

from fasttext_files import ModelFile

MB = 10**6
Run = Callable[..., Any]
BASE: dict[str, Any] = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [],
    "normalizer": None,
    "pre_tokenizer": None,
    "post_processor": None,
    "decoder": None,
}
BYTES = {letter: number for number, letter in enumerate(sorted(ByteLevel.alphabet()))}
BYTE_BPE = {"type": "BPE", "vocab": BYTES, "merges": []}
METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}


def words(count: int, seed: int = 1) -> list[str]:
    chance = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        found["".join(chance.choices(string.ascii_lowercase, k=chance.randint(2, 12)))] = None
    return list(found)


def unigram(folder: Path) -> None:
    pieces = [["<unk>", 0.0], ["▁", -3.0], *([letter, -5.0] for letter in string.printable)]
    pieces += [["▁" + word, -9.0] for word in words(60_000)]
    model = {"type": "Unigram", "unk_id": 0, "vocab": pieces, "byte_fallback": False}
    write(folder, {**BASE, "pre_tokenizer": METASPACE, "model": model})


def added(folder: Path, native: bool) -> None:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    tokens = [{"id": 256 + n, "content": f"<{word}>", **flags} for n, word in enumerate(words(60_000))]
    cut = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {**BYTE_BPE, "dropout": None if native else 0.1}
    write(folder, {**BASE, "added_tokens": tokens, "pre_tokenizer": cut, "model": model})


def write(folder: Path, tokenizer: dict[str, Any]) -> None:
    folder.mkdir()
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False))


def hinted(run: Callable[[str], Any], tiny: str) -> None:
    """Refused with a figure, inside the budget; done with the figure, inside that."""
    refused = run(tiny)
    assert refused.code == 4, refused.err
    assert refused.peak <= int(tiny.removesuffix("MB")) * MB
    (figure,) = re.findall(r"--memory (\d+)MB would do", refused.err)
    done = run(f"{figure}MB")
    assert done.code == 0, done.err
    assert done.peak <= int(figure) * MB


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    chance = random.Random(2)
    many = words(5000, 3)
    path = tmp_path / "documents.jsonl"
    with path.open("w") as file:
        for _ in range(3):
            file.write(json.dumps({"text": " ".join(chance.choices(many, k=60_000))}) + "\n")
    return path


def preprocessed(fresh_krill: Run, tmp_path: Path, documents: Path, **settings: Any) -> Callable[[str], Any]:
    config = {
        "datasets": [{"path": str(documents)}],
        "tokenizer": settings.pop("tokenizer", {"builtin": "bytes"}),
        "preprocess": {"sequence_len": 1024, "prepared_path": str(tmp_path / "out"), **settings},
    }
    (tmp_path / "config.yaml").write_text(json.dumps(config))
    return lambda memory: fresh_krill(
        "preprocess", tmp_path / "config.yaml", "--memory", memory, "--threads", "2", "--quiet"
    )


def test_a_unigram_of_many_pieces(fresh_krill: Run, tmp_path: Path, documents: Path) -> None:
    unigram(tmp_path / "tokenizer")
    tokenizer = {"path": str(tmp_path / "tokenizer")}
    run = preprocessed(fresh_krill, tmp_path, documents, tokenizer=tokenizer, max_document_bytes="1MB")
    hinted(run, "110MB")


@pytest.mark.parametrize("native", [True, False])
def test_a_tokenizer_with_many_added_tokens(
    fresh_krill: Run, tmp_path: Path, documents: Path, native: bool
) -> None:
    added(tmp_path / "tokenizer", native)
    tokenizer = {"path": str(tmp_path / "tokenizer")}
    run = preprocessed(fresh_krill, tmp_path, documents, tokenizer=tokenizer, max_document_bytes="1MB")
    hinted(run, "120MB")


def test_a_block_list_of_many_patterns(fresh_krill: Run, tmp_path: Path, documents: Path) -> None:
    (tmp_path / "block.txt").write_text("".join(f"bad{word} phrase\n" for word in words(300_000)))
    filters = [{"name": "blocklist", "file": str(tmp_path / "block.txt")}]
    hinted(preprocessed(fresh_krill, tmp_path, documents, filters=filters), "120MB")


def test_a_list_of_two_million_domains(fresh_krill: Run, tmp_path: Path) -> None:
    with (tmp_path / "domains.txt").open("w") as file:
        file.writelines(f"{number:x}-shop-{number % 977}.example.com\n" for number in range(2_000_000))
    rows = ({"text": "word " * 200, "url": f"https://{number:x}.org/"} for number in range(2000))
    (tmp_path / "pages.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = {
        "datasets": [{"path": str(tmp_path / "pages.jsonl"), "columns": ["url"]}],
        "preprocess": {
            "prepared_path": str(tmp_path / "out"),
            "output": "text",
            "filters": [{"url": {"domains": str(tmp_path / "domains.txt")}}],
        },
    }
    (tmp_path / "config.yaml").write_text(json.dumps(config))
    hinted(
        lambda memory: fresh_krill(
            *("preprocess", tmp_path / "config.yaml", "--memory", memory, "--threads", "1", "--quiet")
        ),
        "130MB",
    )


def test_a_fasttext_model_of_fifty_megabytes(fresh_krill: Run, tmp_path: Path, documents: Path) -> None:
    file = ModelFile(words=words(100_000), dim=32, bucket=300_000, word_ngrams=2)
    (tmp_path / "model.bin").write_bytes(file.bytes())
    filters = [{"fasttext": {"model": str(tmp_path / "model.bin"), "keep": {"hq": 0.0}}}]
    hinted(preprocessed(fresh_krill, tmp_path, documents, filters=filters), "150MB")


@pytest.mark.parametrize("form", ["lines", "squad"])
def test_a_question_with_many_answers(fresh_krill: Run, tmp_path: Path, form: str) -> None:
    context = "The answer is forty two, as everybody knows. " * 20
    asked = {"id": "one", "question": "What is it?"}
    answers = [{"text": "forty two", "answer_start": 14}] * 200_000
    if form == "lines":
        source = tmp_path / "questions.jsonl"
        columns = {"text": ["forty two"] * 200_000, "answer_start": [14] * 200_000}
        source.write_text(json.dumps({**asked, "context": context, "answers": columns}) + "\n")
    else:
        source = tmp_path / "questions.json"
        paragraph = {"context": context, "qas": [{**asked, "answers": answers}]}
        source.write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
    write(tmp_path / "tokenizer", {**BASE, "pre_tokenizer": METASPACE, "model": BYTE_BPE})
    hinted(
        lambda memory: fresh_krill(
            *("qa", "prepare", source, "--tokenizer", tmp_path / "tokenizer", "--output", tmp_path / "out"),
            *("--memory", memory, "--threads", "1", "--quiet"),
        ),
        "170MB",
    )


def test_questions_with_a_unigram_of_many_pieces(fresh_krill: Run, tmp_path: Path) -> None:
    unigram(tmp_path / "tokenizer")
    row = {"id": "1", "question": "Who?", "context": "It was she. " * 50, "answers": []}
    (tmp_path / "questions.jsonl").write_text(json.dumps(row) + "\n")
    given = ["qa", "prepare", tmp_path / "questions.jsonl", "--tokenizer", tmp_path / "tokenizer"]
    hinted(
        lambda memory: fresh_krill(*given, "--output", tmp_path / "out", "--memory", memory, "--quiet"),
        "120MB",
    )
