"""The native encoder: what it takes and refuses, and that neither cache nor threads show in its ids."""

from __future__ import annotations

import json
import re
import threading
from itertools import islice, pairwise

import numpy as np
import pyarrow as pa
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

import krill.tokenizer
from krill import _native
from krill.errors import BudgetError, InputError
from krill.tokenizer.native import NativeEncoder
from krill.tokenizer.tokenizer_json import NativeSpec, NotNative, read_spec
from real_text import real_texts

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}

NO_REGEX = {**BYTE_LEVEL, "use_regex": False}
TEXT = {"Sequence": {"id": "A", "type_id": 0}}
TWICE = {"type": "TemplateProcessing", "single": [TEXT, TEXT], "pair": [TEXT], "special_tokens": {}}
METASPACE = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
PIECES = [
    ("<unk>", 0.0),
    ("\u2581", -2.0),
    ("a", -3.0),
    ("p", -3.5),
    ("\u2581ap", -4.0),
    ("ple", -4.5),
    ("e", -3.0),
]
UNIGRAM = {"type": "Unigram", "unk_id": 0, "vocab": PIECES, "byte_fallback": False}
WORD_PIECE = {
    "type": "WordPiece",
    "unk_token": "[UNK]",
    "continuing_subword_prefix": "##",
    "max_input_chars_per_word": 100,
    "vocab": {"[UNK]": 0, "a": 1, "##pp": 2, "##le": 3, "12": 4, "the": 5, "##n": 6},
}
WORD_LEVEL = {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "a": 1, "the": 2, "an": 3}}


def split(regex: str) -> dict[str, object]:
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return list(islice(real_texts(), 60))


@pytest.fixture(scope="module")
def content(texts) -> bytes:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1500,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer.to_str().encode()


@pytest.fixture
def folder(tmp_path, content):
    (tmp_path / "tokenizer.json").write_bytes(content)
    return tmp_path


def changed(content: bytes, **sections) -> bytes:
    """The tokenizer with other sections; those of the model by `model_<key>`."""
    written = json.loads(content)
    for name, section in sections.items():
        owner, key = (written["model"], name[6:]) if name.startswith("model_") else (written, name)
        owner[key] = section
    return json.dumps(written).encode()


# ---- what is native, and why not ----


def test_the_spec_is_flat_arrays_by_id(tmp_path, content) -> None:
    spec = read_spec(tmp_path / "tokenizer.json", content)
    assert isinstance(spec, NativeSpec)
    written = json.loads(content)["model"]
    assert len(spec.model.flags) == len(spec.model.offsets) - 1 == spec.vocab_size == 1500
    space_t = written["vocab"]["Ġt"]
    assert bytes(spec.model.tokens[spec.model.offsets[space_t] : spec.model.offsets[space_t + 1]]) == b" t"
    assert len(spec.model.merges) == 3 * len(written["merges"])
    assert (spec.eos_token, spec.eos_id) == ("<|endoftext|>", 0)
    assert (spec.model.kind, spec.model.byte_level, spec.joins_bytes) == ("BPE", True, True)
    assert spec.normalizer is None and spec.pre_tokenizer is not None


@pytest.mark.parametrize(
    ("sections", "reason"),
    [
        ({"model_dropout": 0.1}, "its model drops merges at random"),
        ({"post_processor": TWICE}, "its template holds the text more than once"),
        (
            {"model_vocab": {"a": 0}, "model_merges": [], "model_byte_fallback": True},
            "its model falls back to bytes where letters stand for bytes",
        ),
        (
            {"model_byte_fallback": True, "model_end_of_word_suffix": "</w>"},
            "its model falls back to bytes and marks the parts of words",
        ),
        ({"model": None}, "it has no model"),
        ({"model": {"type": "Other", "vocab": {}}}, "its model is Other"),
        ({"model": {"type": "WordPiece"}}, "its model has no vocabulary"),
        ({"model_merges": None}, "its model has no merges"),
        ({"model_unk_token": 5}, "its unk_token is `5`"),
        ({"model_vocab": {"a": 2**20}, "model_merges": []}, "its ids reach 1,048,576"),
        (
            {"model_vocab": {"a": 0, "b": 2}, "model_merges": []},
            "its added token `<|endoftext|>` gets an id that is taken",
        ),
        ({"normalizer": {"type": "Other"}}, "unknown normalizer `Other`"),
        ({"pre_tokenizer": {"type": "Other"}}, "unknown pre-tokenizer `Other`"),
        ({"decoder": {"type": "Other"}}, "unknown decoder `Other`"),
        ({"decoder": {"type": {}}}, "unknown decoder `{}`"),
        ({"normalizer": {"type": []}}, "unknown normalizer `[]`"),
        ({"pre_tokenizer": {"type": {}}}, "a pre-tokenizer has no `type`"),
        (
            {"pre_tokenizer": split("(a")},
            "the regular expression of pre-tokenizer `Split`: end of pattern with unmatched parenthesis: "
            "`(a`",
        ),
        ({"post_processor": {"type": "Other"}}, "its post-processor (Other) is not one that Krill knows"),
        (
            {"post_processor": {"type": "Sequence", "processors": [BYTE_LEVEL, BYTE_LEVEL]}},
            "its post-processors do the same thing twice",
        ),
        ({"version": "2.0"}, "its version is 2.0"),
    ],
)
def test_what_is_not_native_has_a_reason(tmp_path, content, sections, reason) -> None:
    assert read_spec(tmp_path / "tokenizer.json", changed(content, **sections)) == NotNative(reason)


@pytest.mark.parametrize(
    "sections",
    [
        {"normalizer": {"type": "NFC"}},
        {"normalizer": {"type": "Sequence", "normalizers": []}},
        {"pre_tokenizer": None},
        {"pre_tokenizer": {"type": "Whitespace"}, "model_unk_token": "<|endoftext|>"},
        {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [split(r"\d|[^\d\s]+|\s+"), NO_REGEX]}},
        {"pre_tokenizer": {**BYTE_LEVEL, "add_prefix_space": True}},
        {"model_end_of_word_suffix": "</w>"},
        {"model_merges": [], "model_continuing_subword_prefix": "##"},
        {
            "model_vocab": {"a": 0, "Ġ": 1, "?": 2},
            "model_merges": [],
            "model_unk_token": "?",
            "added_tokens": [],
        },
        {"model_vocab": {"a": 0, "Ġ": 1}, "model_merges": [], "added_tokens": []},
        {"model": UNIGRAM, "pre_tokenizer": METASPACE, "added_tokens": []},
        {"model": {**UNIGRAM, "byte_fallback": True}, "pre_tokenizer": None, "added_tokens": []},
        {"model": {**UNIGRAM, "byte_fallback": True}, "added_tokens": []},
        {
            "model": WORD_PIECE,
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "decoder": None,
            "added_tokens": [],
        },
        {"model": WORD_LEVEL, "pre_tokenizer": {"type": "WhitespaceSplit"}, "added_tokens": []},
    ],
)
def test_each_kind_of_section_gives_ids_offsets_and_text_of_the_library(folder, content, sections) -> None:
    written = changed(content, **sections)
    (folder / "tokenizer.json").write_bytes(written)
    library = Tokenizer.from_str(written.decode())
    ours = krill.tokenizer.load(folder, threads=1)
    assert ours.native
    for text in (
        "",
        "a",
        " an  apple, 12\n",
        "e\u0301 cafe\u0301 \u2581x 字\U0001f600",
        "the<|endoftext|> the",
    ):
        expected = library.encode(text)
        ids, offsets = ours.encode_offsets(text)
        assert ours.encode(text).tolist() == ids.tolist() == expected.ids
        assert [tuple(pair) for pair in offsets.tolist()] == expected.offsets
        assert ours.decode(ids) == library.decode(expected.ids, skip_special_tokens=False)


@pytest.mark.parametrize(
    "sections",
    [
        {"model_dropout": 0.0},
        {"model_continuing_subword_prefix": "", "model_end_of_word_suffix": ""},
        {"model_unk_token": "<|endoftext|>", "model_byte_fallback": True, "model_fuse_unk": True},
        {"model_ignore_merges": True},
        {"truncation": {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}},
    ],
)
def test_settings_that_change_nothing_don_t_make_it_slow(tmp_path, content, sections) -> None:
    assert isinstance(read_spec(tmp_path / "tokenizer.json", changed(content, **sections)), NativeSpec)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (b"{", "can't be read: its JSON ends too early"),
        (b"", "can't be read: Input is a zero-length, empty document"),
        (b"[1]", "is JSON, but not an object"),
        (
            {"model_merges": [["Ġ", "nowhere"]]},
            r"merge 0 is `Ġ nowhere`, but `nowhere` is not in the voc",
        ),
        (
            {"model_merges": [["Ġ", "Ġ"], ["Ġ", "Z"]]},
            r"merge 1 is `Ġ Z`, but `ĠZ` is not in the vocabulary",
        ),
        ({"model_merges": ["a b c"]}, "is not two tokens: `a b c`"),
        ({"model_vocab": {"a": 0, "b": 0}, "model_merges": []}, "have the id 0: `a` and `b`"),
        ({"model_vocab": {"a": -1}, "model_merges": []}, "has the id `-1`"),
        ({"model_vocab": {"a": True}, "model_merges": []}, "the token `a` has the id `true`"),
        ({"model_vocab": {"a": 2**22}, "model_merges": []}, "`a` has the id 4194304, which is too large"),
        ({"added_tokens": [{"id": 3}]}, "its added tokens are not as the library writes them"),
        ({"model_merges": [["a", "b", "c"]]}, "its merges are not pairs"),
        ({"model_continuing_subword_prefix": "##"}, "second token is shorter than continuing_subword_prefix"),
        (
            {"model": {**WORD_PIECE, "max_input_chars_per_word": 2**64}, "added_tokens": []},
            "its WordPiece model has a prefix or a limit of characters of the wrong kind",
        ),
        (
            {"model": {**UNIGRAM, "unk_id": 7}, "added_tokens": []},
            r"its unk_id is 7, and its vocabulary has 7 pieces",
        ),
    ],
)
def test_a_damaged_tokenizer_is_an_input_error_that_names_it(folder, content, written, message) -> None:
    damaged = written if isinstance(written, bytes) else changed(content, **written)
    (folder / "tokenizer.json").write_bytes(damaged)
    with pytest.raises(InputError, match=message) as caught:
        krill.tokenizer.load(folder)
    assert str(folder / "tokenizer.json") in caught.value.message


def test_a_tokenizer_of_another_kind_is_run_by_the_library_and_says_why(folder, content, texts) -> None:
    written = changed(content, post_processor=TWICE, normalizer={"type": "NFC"})
    (folder / "tokenizer.json").write_bytes(written)
    tokenizer = Tokenizer.from_str(written.decode())
    ours = krill.tokenizer.load(folder, memory="1GB", threads=2)
    why = "its template holds the text more than once"
    assert not ours.native and ours.why == why
    assert f"by Hugging Face, because {why}" in repr(ours)
    assert [ids.tolist() for ids in ours.encode_batch(texts[:5])] == [
        tokenizer.encode(t).ids for t in texts[:5]
    ]
    ids, offsets = ours.encode_offsets("e\u0301 b")
    assert ids.tolist() == tokenizer.encode("é b").ids and offsets.shape == (len(ids), 2)
    assert ours.decode(ids) == "é bé b"
    assert ours.statistics() == {}


# ---- the same ids, whatever the cache and the threads ----


def encode_all(
    spec: NativeSpec, texts: list[str], cache: int, threads: int = 1
) -> tuple[list[int], list[int]]:
    from pathlib import Path

    encoder = NativeEncoder(Path("tokenizer.json"), "", spec, cache, threads)
    ids, lengths = encoder.encode(pa.array(texts, pa.large_string()))
    return ids.tolist(), lengths.tolist()


def test_a_cache_of_any_size_gives_the_same_ids(tmp_path, content, texts) -> None:
    spec = read_spec(tmp_path / "tokenizer.json", content)
    expected = encode_all(spec, texts, cache=30_000_000)
    for cache in (0, 5000, 100_000):
        assert encode_all(spec, texts, cache) == expected


def test_many_threads_at_once_give_the_same_ids(folder, texts) -> None:
    ours = krill.tokenizer.load(folder, memory="100MB", threads=3)
    expected = krill.tokenizer.load(folder, memory="50MB", threads=1).encode_arrow(pa.array(texts))
    found: list[tuple[np.ndarray, np.ndarray]] = []

    def work() -> None:
        found.append(ours.encode_arrow(pa.array(texts)))

    workers = [threading.Thread(target=work) for _ in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == 6
    for offsets, ids in found:
        assert np.array_equal(offsets, expected[0]) and np.array_equal(ids, expected[1])


def test_statistics_count_words_hits_and_misses(folder, texts) -> None:
    ours = krill.tokenizer.load(folder, memory="100MB", threads=1)
    ours.encode("one two one two one")
    found = ours.statistics()
    assert (found["words"], found["misses"], found["hits"]) == (5, 3, 2)  # " one", " two" and "one" are new
    assert found["bytes"] == 19 and found["miss_bytes"] == 11
    ours.encode_batch(texts)
    found = ours.statistics()
    assert 0.5 < found["hit_rate"] < 1 and found["miss_seconds"] > 0


def test_a_cache_that_was_given_back_is_made_again(folder) -> None:
    ours = krill.tokenizer.load(folder, memory="100MB", threads=1)
    before = ours.encode("one two one").tolist()
    ours.encoder.release()
    assert ours.encode("one two one").tolist() == before
    assert ours.statistics()["misses"] == 6  # all three words again


# ---- the ways in ----


def test_columns_of_any_kind_of_string_give_offsets_and_ids(folder) -> None:
    ours = krill.tokenizer.load(folder, threads=1)
    texts = ["first", "", "second text", "<|endoftext|>"]
    expected = [ours.encode(text).tolist() for text in texts]
    assert expected[1] == [] and expected[3] == [0]
    for column in (
        pa.array(texts),
        pa.array(texts, pa.large_string()),
        pa.array(["x", *texts, "y"])[1:5],
        pa.array(["x", *texts, "y"], pa.large_string())[1:5],
        pa.chunked_array([texts[:1], [], texts[1:]]),
    ):
        offsets, ids = ours.encode_arrow(column)
        assert offsets.dtype == np.int64 and ids.dtype == np.uint16
        assert [ids[a:b].tolist() for a, b in pairwise(offsets)] == expected
    assert [ids.tolist() for ids in ours.encode_batch(texts)] == expected
    offsets, ids = ours.encode_arrow(pa.array([], pa.string()))
    assert offsets.tolist() == [0] and len(ids) == 0
    assert ours.encode_batch([]) == []


def test_a_column_in_many_pieces_is_put_together_in_order(folder, texts, monkeypatch) -> None:
    ours = krill.tokenizer.load(folder, threads=2)
    expected = ours.encode_arrow(pa.array(texts))
    monkeypatch.setattr("krill.tokenizer.tokenizer.PIECE_BYTES", 3000)
    offsets, ids = ours.encode_arrow(pa.array(texts))
    assert np.array_equal(offsets, expected[0]) and np.array_equal(ids, expected[1])


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array(["a", None]), "rows without text"),
        (pa.array([1, 2]), "holds `int64`, not text"),
    ],
)
def test_columns_that_are_not_text_are_refused(folder, column, message) -> None:
    with pytest.raises(InputError, match=message):
        krill.tokenizer.load(folder).encode_arrow(column)


def test_text_that_is_no_unicode_is_refused_by_its_place(folder) -> None:
    ours = krill.tokenizer.load(folder)
    with pytest.raises(InputError, match="text 1 has a lone surrogate at character 2"):
        ours.encode_batch(["fine", "no\ud800"])
    with pytest.raises(InputError, match="text 0 has a lone surrogate"):
        ours.encode_offsets("\udfff")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda ours: ours.encode(None), "encode() takes one text, not None"),
        (lambda ours: ours.encode(b""), "encode() takes one text, not `bytes`"),
        (lambda ours: ours.encode(["a"]), "encode() takes one text, not `list`"),
        (lambda ours: ours.encode_batch("abc"), "encode_batch() takes a list of texts, not `str`"),
        (lambda ours: ours.encode_batch(None), "encode_batch() takes a list of texts, not None"),
        (lambda ours: ours.encode_batch(["a", 3]), "text 1 of the list is `int`"),
        (lambda ours: ours.encode_batch(["a", None]), "text 1 of the list is None"),
        (lambda ours: ours.encode_offsets(None), "encode_offsets() takes one text, not None"),
        (lambda ours: ours.decode(5), "decode() takes ids, not `int`"),
        (lambda ours: ours.decode(None), "decode() takes ids, not None"),
        (lambda ours: ours.decode("12"), "decode() takes ids, not `str`"),
        (lambda ours: ours.decode([1.5]), "the id `1.5` is not a whole number"),
        (lambda ours: ours.decode([True]), "the id `true` is not a whole number"),
        (lambda ours: ours.decode([None]), "the id `null` is not a whole number"),
        (lambda ours: ours.decode([10**30]), "is not a whole number that an id can be"),
        (lambda ours: ours.decode([[1], [2, 3]]), "decode() takes the ids of one text"),
    ],
)
def test_what_is_neither_text_nor_ids_is_refused_with_a_message_that_fits_the_call(
    folder, call, said
) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        call(krill.tokenizer.load(folder))


def test_any_iterable_of_texts_or_ids_is_taken(folder) -> None:
    ours = krill.tokenizer.load(folder)
    (ids,) = ours.encode_batch(text for text in ["some text"])
    assert ours.decode(iter(ids.tolist())) == ours.decode(ids) == "some text"


@pytest.mark.parametrize("wrong", [1500, -1, 2**40])
def test_ids_out_of_range_are_named_with_the_size_of_the_vocabulary(folder, wrong) -> None:
    ours = krill.tokenizer.load(folder)
    with pytest.raises(InputError, match=f"`{wrong}` is not in the vocabulary, which has 1,500 ids"):
        ours.decode([1, wrong, 2])
    assert ours.decode([]) == ""


def test_special_tokens_are_left_out_of_the_text_on_request(folder) -> None:
    ours = krill.tokenizer.load(folder)
    ids = ours.encode("a<|endoftext|>b")
    assert ours.decode(ids) == "a<|endoftext|>b"
    assert ours.decode(ids, skip_special_tokens=True) == "ab"


def test_a_budget_that_can_t_hold_the_tokenizer_is_refused(folder) -> None:
    with pytest.raises(BudgetError, match="the budget is too small"):
        krill.tokenizer.load(folder, memory="1MB")


# ---- the native class itself ----


def native(*, merges=(0, 1, 2), **changes):
    """Two bytes and their merge."""
    texts = {
        "tokens": b"abab",
        "offsets": np.array([0, 1, 2, 4]),
        "flags": np.array([3, 3, 3], np.uint8),
    }
    texts |= {name: changes.pop(name) for name in texts if name in changes}
    model = _native.BpeModel(**texts, merges=np.array(merges, np.uint32), byte_level=True)
    arguments = {
        "byte_level": True,
        "normalizer": None,
        "added": [],
        "decoded": [],
        "pre_tokenizer": _native.PreTokenizer([_native.PreTokenizerStep.words("gpt2")]),
        "prefix": [],
        "suffix": [],
        "trims_offsets": False,
        "keeps_first_space": False,
        "cache_bytes": 0,
        "workers": 1,
    }
    return _native.Encoder(model, **texts, **{**arguments, **changes})


def test_the_native_class_encodes_what_its_arrays_say() -> None:
    encoder = native(prefix=[2], suffix=[1, 1])
    ids, lengths = encoder.encode(np.array([0, 4, 4, 6]), b"abaaXb", 0)
    assert ids.dtype == np.uint16
    assert ids.tolist() == [2, 2, 0, 0, 1, 1, 0, 2, 1, 1, 0, 2, 1, 1, 1, 0]
    assert lengths.tolist() == [7, 4, 5]
    assert encoder.decode(np.array([2, 0], np.uint32), False) == b"aba"
    assert len(encoder) == 3
    with pytest.raises(IndexError):
        encoder.decode(np.array([3], np.uint32), False)


def test_large_ids_make_the_array_wide() -> None:
    ids, _ = native(suffix=[70_000]).encode(np.array([0, 1]), b"a", -1)
    assert ids.dtype == np.uint32 and ids.tolist() == [0, 70_000]


@pytest.mark.parametrize(
    "changes",
    [
        {"offsets": np.array([0, 1, 2])},
        {"offsets": np.array([0, 1, 2, 5])},
        {"offsets": np.array([0, 3, 2, 4])},
        {"offsets": np.array([-1, 1, 2, 4])},
        {"offsets": np.array([0, 0, 2, 4])},
        {"flags": np.array([3, 3], np.uint8)},
        {"flags": np.array([3, 3, 1], np.uint8)},
        {"merges": np.array([0, 1], np.uint32)},
        {"merges": np.array([0, 1, 3], np.uint32)},
        {"merges": np.array([1, 0, 2], np.uint32)},
        {"tokens": b"aaaa"},
        {"added": [(b"", 1, False, False, False, False)]},
        {"workers": 0},
    ],
)
def test_arrays_that_contradict_each_other_are_refused(changes) -> None:
    with pytest.raises(ValueError):
        native(**changes)


def test_columns_with_hostile_offsets_are_refused() -> None:
    with pytest.raises(ValueError):
        native().encode(np.array([0, 9]), b"abc", -1)
    with pytest.raises(ValueError):
        native().encode(np.array([0, 1]), b"a", 2**16)
