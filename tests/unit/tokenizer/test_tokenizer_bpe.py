"""COMPAT, BPE training: `MemoryEfficientBPE`, its attributes and its files."""

import json
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from krill.compat.bpe import (
    BPE,
    MemoryEfficientBPE,
    merges_of,
    save_prefixed,
    trained_from,
    vocabulary_of,
)
from krill.errors import ConfigError, InputError
from krill.tokenizer.options import TrainOptions
from oracles.tokenizer import count_words, encode, train
from real_text import real_texts

END = "<|endoftext|>"
TEXTS = [text[:3000] for text in islice(real_texts(), 6)]
BYTES = [bytes([byte]) for byte in range(256)]


@pytest.fixture(scope="module")
def trained():
    options = TrainOptions(vocab_size=330, special_tokens=(END, "<|startoftext|>"), tie_break="greatest")
    return train(count_words(TEXTS, "gpt2", options.special_tokens), options)


@pytest.fixture
def tokenizer(trained):
    made = MemoryEfficientBPE()
    made._take(vocabulary_of(trained), merges_of(trained))
    return made


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text(END.join(TEXTS), encoding="utf-8", newline="")
    return path


def test_bpe_is_another_name_for_it():
    assert BPE is MemoryEfficientBPE


def test_training_gives_what_the_readable_trainer_gives(corpus, trained):
    tokenizer = MemoryEfficientBPE()
    special = [END, "<|startoftext|>"]
    assert tokenizer.train(
        input_path=str(corpus), vocab_size=330, special_tokens=special, num_processes=2, memory="300MB"
    )
    assert tokenizer.vocabulary == vocabulary_of(trained)
    assert tokenizer.merges == merges_of(trained)


def test_special_tokens_and_bytes_in_order_come_first_and_each_merge_adds_one(tokenizer):
    tokens = list(tokenizer.vocabulary.values())
    assert list(tokenizer.vocabulary) == list(range(330))
    assert tokens[:258] == [END.encode(), b"<|startoftext|>", *BYTES]
    assert tokens[258:] == [left + right for left, right in tokenizer.merges]


@pytest.mark.parametrize("path", ["whole.json", "whole_tokenizer.pkl", "efficient_model", "elsewhere/v1.5"])
def test_what_was_saved_is_loaded(tokenizer, tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    tokenizer.save(path)
    loaded = MemoryEfficientBPE()
    loaded.load(path)
    assert loaded.vocabulary == tokenizer.vocabulary
    assert loaded.merges == tokenizer.merges
    assert loaded.encode(TEXTS[0]) == tokenizer.encode(TEXTS[0])


def test_a_prefix_writes_both_files_and_a_folder_for_hugging_face(tokenizer, trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tokenizer.save("efficient_model")
    folder = tmp_path / "trainings"
    assert sorted(path.name for path in folder.iterdir()) == [
        "efficient_model",
        "efficient_model_merges.txt",
        "efficient_model_vocabulary.json",
    ]
    peer = Tokenizer.from_file(str(folder / "efficient_model" / "tokenizer.json"))
    assert peer.encode(TEXTS[0] + END).ids == encode(trained, TEXTS[0] + END)


def test_prefixed_files_of_a_training_are_written_where_asked(trained, tmp_path):
    files = save_prefixed(trained, "X", tmp_path / "made")
    assert files == [tmp_path / "made" / "X_vocabulary.json", tmp_path / "made" / "X_merges.txt"]
    assert json.loads(files[0].read_text(encoding="utf-8"))["258"] == trained.tokens[258].decode("latin-1")


def test_vocabulary_and_merges_are_saved_and_loaded_each_for_itself(tokenizer, tmp_path):
    tokenizer.save_vocabulary(tmp_path / "v.json")
    tokenizer.save_merges(str(tmp_path / "m.txt"))
    loaded = MemoryEfficientBPE()
    loaded.load_vocabulary(str(tmp_path / "v.json"))
    with pytest.raises(ConfigError, match="no merges yet"):
        loaded.encode("a")
    loaded.load_merges(tmp_path / "m.txt")
    assert (loaded.vocabulary, loaded.merges) == (tokenizer.vocabulary, tokenizer.merges)
    assert loaded.decode(loaded.encode(TEXTS[1])) == TEXTS[1]


@given(st.lists(st.binary(min_size=1, max_size=3), unique=True, max_size=8))
def test_files_survive_any_bytes(tmp_path_factory, tokens):
    folder = tmp_path_factory.mktemp("files")
    tokenizer = MemoryEfficientBPE()
    vocabulary = dict(enumerate([*BYTES, *tokens, b" \n", b"\r\n", b"\xff\x00"]))
    merges = [(b" ", b"\n"), (b"\r", b"\n"), (b"#", b"#"), *((token, b" ") for token in tokens)]
    tokenizer._take(vocabulary, merges)
    tokenizer.save_vocabulary(folder / "v.json")
    tokenizer.save_merges(folder / "m.txt")
    loaded = BPE()
    loaded.load_vocabulary(folder / "v.json")
    loaded.load_merges(folder / "m.txt")
    assert (loaded.vocabulary, loaded.merges) == (vocabulary, merges)


def test_text_comes_back_special_tokens_included(tokenizer, trained):
    text = f"{TEXTS[2]}{END}  \r\n\ttab é 日本 \U0001f990 \x00"
    ids = tokenizer.encode(text)
    assert ids == encode(trained, text)
    assert 0 in ids
    assert tokenizer.decode(ids) == text
    assert tokenizer.decode([0, 2 + 0xFF]) == END + "\ufffd"


def test_an_unknown_id_is_refused(tokenizer):
    with pytest.raises(InputError, match="the id 330 is not in the vocabulary of 330 tokens"):
        tokenizer.decode([0, 330])


def test_an_untrained_tokenizer_says_so(tmp_path):
    with pytest.raises(ConfigError, match="no vocabulary yet"):
        _ = BPE().vocabulary
    with pytest.raises(ConfigError, match="no vocabulary yet"):
        BPE().save(tmp_path / "x.json")


def test_a_pickle_is_never_loaded(tmp_path):
    (tmp_path / "old_tokenizer.pkl").write_bytes(b"\x80\x04\x95\x00")
    with pytest.raises(InputError, match="it is a pickle, and these are never loaded"):
        BPE().load(tmp_path / "old_tokenizer.pkl")


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("{", "not a JSON object"),
        ("[1]", "not a JSON object"),
        ('{"a": "b"}', "not a JSON object"),
        ('{"0": 5}', "not a JSON object"),
        ('{"0": "日"}', "not a JSON object"),
        ('{"0": "a", "2": "b"}', "2 tokens don't run from 0 on"),
    ],
)
def test_a_damaged_vocabulary_is_refused(tmp_path, content, fault):
    (tmp_path / "v.json").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=fault):
        BPE().load_vocabulary(tmp_path / "v.json")


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"#version: 0.2\na b\nabc\n", "line 3 is not two tokens"),
        (b"a b\n  t\n", "line 2 is not two tokens"),
        ("a b\n日 b\n".encode(), "line 2 is not two tokens"),
        (b"a b\na", "its last line has no end"),
        (b"", "its last line has no end"),
        (b"\xff\n", "not UTF-8"),
    ],
)
def test_damaged_merges_are_refused(tmp_path, content, fault):
    (tmp_path / "m.txt").write_bytes(content)
    with pytest.raises(InputError, match=fault):
        BPE().load_merges(tmp_path / "m.txt")


def test_files_that_are_not_there_are_named(tmp_path):
    with pytest.raises(InputError, match=r"X_vocabulary.json`: No such file"):
        BPE().load(tmp_path / "X")


@pytest.mark.parametrize(
    ("vocabulary", "merges", "fault"),
    [
        (BYTES, [(b"a", b"b")], "don't belong together"),
        ([*BYTES[1:], b"ab", b"b"], [(b"a", b"b")], "don't belong together"),
        ([*BYTES, b"ab"], [(b"a", b"c")], "names the token b'ac'"),
        ([b"\xff\xff", *BYTES], [], "special token b'\\\\xff\\\\xff' is not UTF-8"),
    ],
)
def test_a_vocabulary_and_merges_of_different_trainings_are_refused(vocabulary, merges, fault):
    with pytest.raises(InputError, match=fault):
        trained_from(dict(enumerate(vocabulary)), merges)
