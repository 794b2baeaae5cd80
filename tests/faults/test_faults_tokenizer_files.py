"""`krill tokenizer encode` and `decode`: what a tokenizer makes of text, and where ids are written."""

from __future__ import annotations

import json
import os

import pytest
from hostile_tokenizer_files import added, bpe, plain

TEXT = b"some words\nand others\n"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "tokenizer.json").write_text(json.dumps(plain()))
    (tmp_path / "input.txt").write_bytes(TEXT)
    return tmp_path


def growing(times: int) -> dict:
    step = {"type": "Replace", "pattern": {"String": "s"}, "content": "ss"}
    return plain(normalizer={"type": "Sequence", "normalizers": [step] * times})


def test_a_text_that_a_normalizer_makes_huge_ends_within_the_budget(files, krill):
    (files / "tokenizer.json").write_text(json.dumps(growing(30)))
    given = ("--tokenizer", "tokenizer.json", "--memory", "256MB", "--threads", "1")
    done = krill("tokenizer", "encode", *given, "sss", cwd=files)
    assert done.code == 4, done.err
    assert done.peak <= 256e6
    assert "error: memory reached the budget in spite of the plan: 256 MB given\nhint: " in done.err


def test_a_text_that_a_decoder_makes_huge_ends_within_the_budget(files, krill):
    step = {"type": "Replace", "pattern": {"String": "s"}, "content": "ss"}
    decoder = {"type": "Sequence", "decoders": [step] * 30}
    (files / "tokenizer.json").write_text(json.dumps(plain(decoder=decoder)))
    given = ("--tokenizer", "tokenizer.json", "--memory", "256MB", "--threads", "1")
    done = krill("tokenizer", "decode", *given, "82 82", cwd=files)
    assert done.code == 4, done.err
    assert done.peak <= 256e6


def test_ids_may_come_in_one_word_with_spaces_or_commas(files, krill):
    for words in (["82 82,81"], ["82", "82", "81"], ["82,82", " 81 "]):
        done = krill("tokenizer", "decode", "--tokenizer", "tokenizer.json", *words, cwd=files)
        assert (done.code, done.out) == (0, "s s r\n"), done.err


def test_a_budget_is_of_the_whole_process_and_the_refusal_says_so(files, krill):
    given = ("--tokenizer", "tokenizer.json", "--memory", "40MB", "--threads", "1")
    for words in (("encode", "some"), ("decode", "1")):
        done = krill("tokenizer", *words, *given, cwd=files)
        assert done.code == 4, done.err
        assert "the budget is too small" in done.err
        assert "the program itself" in done.err


@pytest.mark.parametrize(
    "tokenizer", [bpe({}), plain(model={"type": "Unigram", "vocab": [], "unk_id": None})]
)
@pytest.mark.parametrize(
    "words", [["encode", "some"], ["decode", "--input", "input.txt"]], ids=lambda it: it[0]
)
def test_a_tokenizer_of_no_tokens_is_refused(files, krill, tokenizer, words):
    (files / "tokenizer.json").write_text(json.dumps(tokenizer))
    done = krill("tokenizer", *words, "--tokenizer", "tokenizer.json", cwd=files)
    assert done.code == 3, done.err
    assert "tokenizer.json` has no tokens" in done.err


def test_a_tokenizer_of_added_tokens_alone_is_taken(files, krill):
    tokenizer = {**added("some", first=0), "model": bpe({})["model"]}
    (files / "tokenizer.json").write_text(json.dumps(tokenizer))
    done = krill("tokenizer", "encode", "some", "--tokenizer", "tokenizer.json", cwd=files)
    assert (done.code, done.out) == (0, "0\n"), done.err


@pytest.mark.parametrize("name", ["input.txt", "tokenizer.json", "./beside/../input.txt", "linked.txt"])
def test_ids_never_replace_what_is_read(files, krill, name):
    (files / "beside").mkdir()
    os.link(files / "input.txt", files / "linked.txt")
    before = {path: path.read_bytes() for path in files.iterdir() if path.is_file()}
    given = ("--tokenizer", "tokenizer.json", "--input", "input.txt", "--output", name, "--overwrite")
    done = krill("tokenizer", "encode", *given, "--memory", "256MB", cwd=files)
    assert done.code == 5, done.err
    assert f"`{name.removeprefix('./')}` is one of the files that are read: nothing was written" in done.err
    assert {path: path.read_bytes() for path in files.iterdir() if path.is_file()} == before


def test_what_can_not_become_the_output_is_told_before_anything_is_read(files, krill):
    (files / "folder").mkdir()
    (files / "loop").symlink_to("loop")
    os.mkfifo(files / "pipe")
    for name, fact in {"folder": "is a folder", "loop": "links lead from one", "pipe": "a pipe"}.items():
        given = ("--tokenizer", "absent.json", "--input", "absent.txt", "--output", name, "--overwrite")
        done = krill("tokenizer", "encode", *given, cwd=files)
        assert done.code == 5, done.err
        assert fact in done.err


def test_a_small_file_is_encoded_by_the_library_within_a_small_budget(files, krill):
    given = (
        "--tokenizer",
        "tokenizer.json",
        "--input",
        "input.txt",
        "--output",
        "out.bin",
        "--memory",
        "200MB",
    )
    done = krill("tokenizer", "encode", *given, "--threads", "1", cwd=files)
    assert done.code == 0, done.err
    assert done.peak <= 200e6
