import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from krill.budget import Kind, make_plan
from krill.config import TokenizerConfig
from krill.errors import InputError
from krill.tokenizer import ByteEncoder, open_encoder
from krill.tokenizer.huggingface import GROUP_BYTES, HuggingFaceEncoder
from krill.tokenizer.native import LEAST_CACHE, USEFUL_CACHE
from krill.tokenizer.open import encoder_needs, fallback_notice, tokenizer_fingerprint
from real_text import real_texts


def column(texts):
    return pa.array(texts, pa.large_string())


def documents_of(encoder, texts):
    ids, lengths = encoder.encode(column(texts))
    assert len(ids) == lengths.sum()
    ends = np.cumsum(lengths)
    return [ids[end - length : end].tolist() for end, length in zip(ends, lengths, strict=True)]


@pytest.fixture(scope="module")
def tokenizer_folder(tmp_path_factory):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1000,
        special_tokens=["<|endoftext|>", "<s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = [text for text, _ in zip(real_texts(), range(50), strict=False)]
    tokenizer.train_from_iterator(texts, trainer)
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@given(st.lists(st.text(), max_size=8))
def test_bytes_are_ids_and_256_ends_a_document(texts):
    assert documents_of(ByteEncoder(), texts) == [[*text.encode(), 256] for text in texts]


def test_bytes_decode_with_the_end_of_a_document_shown():
    ids, _ = ByteEncoder().encode(column(["héllo", "you"]))
    assert ByteEncoder().decode(ids) == "héllo<|endoftext|>you<|endoftext|>"
    assert ByteEncoder().decode(ids[:2]) == "h�"


def test_ids_are_hugging_faces_own_and_then_eos(tokenizer_folder):
    encoder = HuggingFaceEncoder(tokenizer_folder / "tokenizer.json", share=10**9)
    oracle = Tokenizer.from_file(str(tokenizer_folder / "tokenizer.json"))
    texts = [text for text, _ in zip(real_texts(), range(100), strict=False)]
    texts += ["", " ", "<|endoftext|> in the text", "x" * 3 * GROUP_BYTES]
    assert documents_of(encoder, texts) == [
        [*oracle.encode(text, add_special_tokens=True).ids, 0] for text in texts
    ]
    assert encoder.eos_token == "<|endoftext|>"
    assert encoder.vocab_size == 1000


def test_a_post_processors_special_tokens_are_added(tokenizer_folder, tmp_path):
    tokenizer = Tokenizer.from_file(str(tokenizer_folder / "tokenizer.json"))
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=500)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    encoder = HuggingFaceEncoder(tmp_path / "tokenizer.json", share=10**9)
    (ids,) = documents_of(encoder, ["a b c d e f"])
    assert ids[0] == 1 and ids[-1] == 0
    assert encoder.decode(np.array(ids)) == "<s>a b c d e f<|endoftext|>"


@pytest.mark.parametrize(
    ("declared", "eos"),
    [
        ({"tokenizer_config.json": {"eos_token": "<s>"}}, "<s>"),
        ({"tokenizer_config.json": {"eos_token": {"content": "<s>"}}}, "<s>"),
        ({"special_tokens_map.json": {"eos_token": "<s>"}}, "<s>"),
        ({"tokenizer_config.json": {"eos_token": "not in the vocabulary"}}, "<|endoftext|>"),
        ({"tokenizer_config.json": []}, "<|endoftext|>"),
        ({}, "<|endoftext|>"),
    ],
)
def test_eos_is_the_declared_one_else_a_well_known_name(tokenizer_folder, tmp_path, declared, eos):
    (tmp_path / "tokenizer.json").write_bytes((tokenizer_folder / "tokenizer.json").read_bytes())
    for name, content in declared.items():
        (tmp_path / name).write_text(json.dumps(content))
    assert HuggingFaceEncoder(tmp_path / "tokenizer.json", share=10**9).eos_token == eos


def test_a_tokenizer_without_any_known_end_adds_none(tmp_path):
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 1, "[UNK]": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    config = TokenizerConfig(path=str(tmp_path))
    encoder = open_encoder(config, make_plan(10**9, 0, encoder_needs(config, 10**6)))
    assert encoder.eos_id is None
    assert documents_of(encoder, ["a b a", "", "b"]) == [[0, 1, 0], [], [1]]


def test_a_missing_or_broken_tokenizer_is_an_input_error_that_names_it(tmp_path):
    with pytest.raises(InputError, match="no tokenizer at"):
        open_encoder(TokenizerConfig(path=str(tmp_path / "nowhere")))
    (tmp_path / "tokenizer.json").write_text('{"model": {}}')
    with pytest.raises(InputError, match=r"tokenizer\.json` is not a tokenizer"):
        open_encoder(TokenizerConfig(path=str(tmp_path)))


def test_the_plan_sets_aside_tables_a_cache_and_the_longest_word(tokenizer_folder):
    assert encoder_needs(TokenizerConfig(builtin="bytes"), 10**6) == []
    config = TokenizerConfig(path=str(tokenizer_folder))
    needs = {need.name: need for need in encoder_needs(config, 10**6, threads=2)}
    size = (tokenizer_folder / "tokenizer.json").stat().st_size
    assert size < needs["tokenizer"].minimum < 10 * size + 1_000_000
    assert needs["word cache"].minimum == 2 * LEAST_CACHE
    assert needs["word cache"].useful == 2 * USEFUL_CACHE
    assert needs["a document that is one word"].minimum == 13 * 10**6
    assert "max_document_bytes" in needs["a document that is one word"].remedy
    assert all(need.kind is Kind.CAPPED for need in needs.values() if need.during != "start")
    assert fallback_notice(config) is None


def test_the_plan_sets_aside_what_the_library_takes_and_says_why_it_is_used(tokenizer_folder, tmp_path):
    tokenizer = Tokenizer.from_file(str(tokenizer_folder / "tokenizer.json"))
    tokenizer.post_processor = processors.TemplateProcessing(single="$A $A")
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    config = TokenizerConfig(path=str(tmp_path))
    loaded, reading, encoding = encoder_needs(config, 10**6)
    assert loaded.minimum > (tmp_path / "tokenizer.json").stat().st_size
    assert reading.during == "start"
    assert (encoding.name, encoding.minimum) == ("encoding by Hugging Face", 180 * 10**6)
    assert encoding.useful == 320 * 10**6
    assert "max_document_bytes" in encoding.remedy
    why = "its template holds the text more than once"
    notice = fallback_notice(config)
    assert notice is not None and notice.endswith(f"because {why}")
    described = open_encoder(config, make_plan(10**9, 0, [loaded, reading, encoding])).describe()
    assert (described["encoder"], described["why"]) == ("huggingface", why)


def test_the_native_encoder_and_the_library_describe_one_tokenizer_and_give_the_same_ids(tokenizer_folder):
    config = TokenizerConfig(path=str(tokenizer_folder))
    ours = open_encoder(config, make_plan(10**8, 0, encoder_needs(config, 10**6, threads=2)), threads=2)
    library = HuggingFaceEncoder(tokenizer_folder / "tokenizer.json", share=10**9)
    assert ours.describe()["encoder"] == "native"
    for key in ("name", "vocab_size", "eos_id", "eos_token", "fingerprint"):
        assert ours.describe()[key] == library.describe()[key]
    texts = [text for text, _ in zip(real_texts(), range(40), strict=False)] + ["", "a<s>b<|endoftext|>"]
    assert documents_of(ours, texts) == documents_of(library, texts)


def test_the_fingerprint_is_of_the_content_and_the_declared_eos(tokenizer_folder, tmp_path):
    copy = tmp_path / "tokenizer.json"
    copy.write_bytes((tokenizer_folder / "tokenizer.json").read_bytes())
    same = tokenizer_fingerprint(TokenizerConfig(path=str(tokenizer_folder)))
    assert tokenizer_fingerprint(TokenizerConfig(path=str(copy))) == same
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": "<s>"}')
    assert tokenizer_fingerprint(TokenizerConfig(path=str(copy))) != same
    (tmp_path / "tokenizer_config.json").unlink()
    copy.write_bytes(copy.read_bytes() + b"\n")
    assert tokenizer_fingerprint(TokenizerConfig(path=str(copy))) != same


def test_a_tokenizer_from_the_hub_is_found_in_its_cache(tokenizer_folder, tmp_path, monkeypatch):
    snapshot = tmp_path / "models--org--name" / "snapshots" / "a" / "tokenizer.json"
    snapshot.parent.mkdir(parents=True)
    snapshot.write_bytes((tokenizer_folder / "tokenizer.json").read_bytes())
    (tmp_path / "models--org--name" / "refs").mkdir()
    (tmp_path / "models--org--name" / "refs" / "main").write_text("a")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    encoder = open_encoder(TokenizerConfig(hub_id="org/name"))
    assert encoder.vocab_size == 1000
    with pytest.raises(InputError, match="`org/other` from the hub"):
        open_encoder(TokenizerConfig(hub_id="org/other"))


@pytest.mark.parametrize("native", [True, False])
def test_ids_outside_of_the_vocabulary_are_refused(tokenizer_folder, tmp_path, native):
    parsed = json.loads((tokenizer_folder / "tokenizer.json").read_text())
    template = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "[N]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"[N]": {"id": "[N]", "ids": [2**32 - 1], "tokens": ["[N]"]}},
    }
    model = {**parsed["model"], "dropout": None if native else 0.5}
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps({**parsed, "post_processor": template, "model": model}))
    assert (fallback_notice(TokenizerConfig(path=str(file))) is None) == native
    fact = "gives the id `4294967295`, and its vocabulary has 1,000 ids"
    with pytest.raises(InputError, match=fact):
        open_encoder(TokenizerConfig(path=str(file))).encode(column(["some"]))
    with pytest.raises(InputError, match=fact):
        open_encoder(TokenizerConfig(path=str(file))).encode_offsets("some")


def test_declarations_that_can_not_be_read_are_an_error(tokenizer_folder, tmp_path):
    file = tmp_path / "tokenizer.json"
    file.write_bytes((tokenizer_folder / "tokenizer.json").read_bytes())
    for content in (b"{", b'{"eos_token": "\xff"}'):
        (tmp_path / "tokenizer_config.json").write_bytes(content)
        with pytest.raises(InputError, match=r"can't read `.*tokenizer_config.json`, which declares"):
            open_encoder(TokenizerConfig(path=str(file)))
    (tmp_path / "tokenizer_config.json").write_bytes(b"[1]")
    assert open_encoder(TokenizerConfig(path=str(file))).eos_token == "<|endoftext|>"
