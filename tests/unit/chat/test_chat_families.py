"""Tokens that share a byte with a span are trained, in every family of tokenizers."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, trainers

from chat_models import TEXT, make_model
from krill.chat import RenderedChat, encode_chat
from krill.chat.control import ControlTokens
from krill.tokenizer.native import NativeEncoder
from krill.tokenizer.open import open_file
from oracles.chat import reference_flags
from properties import tried

LETTERS = pre_tokenizers.ByteLevel.alphabet()


def byte_level(normalizer: normalizers.Normalizer | None) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=LETTERS, show_progress=False)
    tokenizer.train_from_iterator([TEXT], trainer)
    return tokenizer


def sentencepiece_bpe() -> Tokenizer:
    """As Llama 2: a mark for spaces, one before the text, and bytes for what is unknown."""
    pieces = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "b", "▁a", "ab", "é"]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(
        models.BPE(vocabulary, [("▁", "a"), ("a", "b")], unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    )
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return tokenizer


def unigram() -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=80, unk_token="<unk>", special_tokens=["<unk>"], show_progress=False
    )
    tokenizer.train_from_iterator([TEXT], trainer)
    return tokenizer


def word_piece() -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=120, special_tokens=["[UNK]"], show_progress=False)
    tokenizer.train_from_iterator([TEXT], trainer)
    return tokenizer


FAMILIES = {
    "byte-level": lambda: byte_level(None),
    "byte-level, NFC": lambda: byte_level(normalizers.NFC()),
    "byte-level, NFKD and lower case": lambda: byte_level(
        normalizers.Sequence([normalizers.NFKD(), normalizers.Lowercase()])
    ),
    "SentencePiece BPE": sentencepiece_bpe,
    "Unigram": unigram,
    "WordPiece": word_piece,
}


@cache
def library(family: str) -> Tokenizer:
    tokenizer = FAMILIES[family]()
    tokenizer.add_special_tokens([AddedToken("<|end|>", normalized=False)])
    tokenizer.add_tokens([AddedToken("<Mark>", normalized=True)])
    return tokenizer


@pytest.fixture(scope="module", params=FAMILIES)
def family(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Tokenizer, NativeEncoder]:
    made = library(request.param)
    model = make_model(tmp_path_factory.mktemp("model"), None, made.to_str())
    encoder = open_file(Path(model) / "tokenizer.json", None, 1)
    assert isinstance(encoder, NativeEncoder), encoder.why
    return made, encoder


PIECES = [
    "<|end|>",
    "<Mark>",
    "a",
    "ab",
    " ",
    "  ",
    "é",
    "e\u0301",
    "A\u030a",
    "ﬁ",
    "你好",
    "🦐",
    "\n",
    "B",
    "!",
]


@tried(60)
@given(st.lists(st.sampled_from(PIECES), max_size=10).map("".join), st.sets(st.integers(0, 30), max_size=6))
def test_tokens_that_share_a_byte_with_a_span_are_trained(
    family: tuple[Tokenizer, NativeEncoder], text: str, places: set[int]
) -> None:
    tokenizer, encoder = family
    cuts = sorted(place for place in places if place <= len(text))
    spans = list(zip(cuts[::2], cuts[1::2], strict=False))
    before = [len(text[:at].encode()) for at in range(len(text) + 1)]
    chat = RenderedChat(text.encode(), tuple((before[begin], before[end]) for begin, end in spans), ())
    encoded = encode_chat(encoder, [chat], ControlTokens({}, {}, ()))
    ids, flags = reference_flags(tokenizer, text, spans)
    assert encoded.ids.tolist() == ids
    assert encoded.trained.tolist() == (flags if ids else [])


@pytest.mark.parametrize("normalized", [False, True])
def test_a_header_that_takes_the_whitespace_of_an_answer_is_not_trained(
    normalized: bool, tmp_path: Path
) -> None:
    tokenizer = byte_level(normalizers.NFC() if normalized else None)
    header = AddedToken("<|assistant|>", rstrip=True, normalized=normalized)
    stop = AddedToken("<|end|>", lstrip=True, normalized=normalized)
    tokenizer.add_tokens([header, stop])
    model = make_model(tmp_path, None, tokenizer.to_str())
    encoder = open_file(model / "tokenizer.json", None, 1)
    assert isinstance(encoder, NativeEncoder)
    text = b"<|assistant|>\n  yes <|end|>\n"
    for begin, end, trained in ((14, 27, ["y", "e", "s", "<|end|>"]), (14, 20, ["y", "e", "s"])):
        chat = RenderedChat(b"x" + text, ((begin + 1, end + 1),), ())
        encoded = encode_chat(encoder, [chat], ControlTokens({}, {}, ()))
        flagged = [encoder.decode(encoded.ids[at : at + 1]) for at in encoded.trained.nonzero()[0]]
        assert "".join(flagged) == "".join(trained)
