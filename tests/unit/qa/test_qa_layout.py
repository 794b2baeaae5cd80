"""How question and context are laid out is found by asking the tokenizer, and what is declared of it."""

from __future__ import annotations

import json

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from krill.errors import ConfigError, InputError
from krill.qa.encoding import open_tokenizer
from krill.qa.layout import FeatureLayout, LayoutPiece
from questions import KINDS, library_of, tokenizer_of


def fixed(type_id: int, *ids: int) -> LayoutPiece:
    return LayoutPiece("fixed", type_id, ids)


EXPECTED = {
    "byte_bpe": FeatureLayout(
        (fixed(0, 0), LayoutPiece("question", 0), fixed(0, 1, 1), LayoutPiece("context", 0), fixed(0, 1)),
        pad_left=False,
        pad_id=2,
        pad_type=0,
        cls=(0, 0),
    ),
    "wordpiece": FeatureLayout(
        (fixed(0, 2), LayoutPiece("question", 0), fixed(0, 3), LayoutPiece("context", 1), fixed(1, 3)),
        pad_left=False,
        pad_id=0,
        pad_type=0,
        cls=(0, 0),
    ),
    "unigram": FeatureLayout(
        (LayoutPiece("context", 0), fixed(0, 4), LayoutPiece("question", 1), fixed(1, 4), fixed(2, 3)),
        pad_left=True,
        pad_id=5,
        pad_type=3,
        cls=(4, 0),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_layout_of_each_kind_is_what_the_tokenizer_does(kind) -> None:
    opened = open_tokenizer(tokenizer_of(kind))
    assert opened.layout == EXPECTED[kind]
    assert opened.native
    assert FeatureLayout.from_json(json.loads(json.dumps(opened.layout.to_json()))) == opened.layout


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_tokenizer_has_the_layout_of_the_one_that_was_saved(kind, tmp_path) -> None:
    tokenizer_of(kind).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({**config, "pad_token_type_id": EXPECTED[kind].pad_type})
    )
    assert open_tokenizer(tmp_path).layout == EXPECTED[kind]


def test_a_classification_token_at_the_end_means_left_padding_where_nothing_is_declared(tmp_path) -> None:
    library_of(tokenizer_of("unigram")).save(str(tmp_path / "tokenizer.json"))
    layout = open_tokenizer(tmp_path / "tokenizer.json").layout
    assert layout.pieces == EXPECTED["unigram"].pieces
    assert (layout.pad_left, layout.pad_id, layout.cls) == (True, 5, (4, 0))
    assert open_tokenizer(library_of(tokenizer_of("unigram"))).layout == layout


def test_a_library_s_own_padding_is_a_declaration() -> None:
    library = library_of(tokenizer_of("wordpiece"))
    library.enable_padding(direction="left", pad_id=1, pad_type_id=7)
    layout = open_tokenizer(library).layout
    assert (layout.pad_left, layout.pad_id, layout.pad_type) == (True, 1, 7)
    assert [piece.kind for piece in layout.pieces] == ["fixed", "context", "fixed", "question", "fixed"]


def test_a_tokenizer_without_special_tokens_just_joins_the_two() -> None:
    library = library_of(tokenizer_of("byte_bpe"))
    library.post_processor = None  # type: ignore[assignment]
    layout = open_tokenizer(library).layout
    assert [piece.kind for piece in layout.pieces] == ["question", "context"]
    assert (layout.fixed, layout.cls, layout.pad_id) == (0, None, 2)


def test_what_the_tokenizer_was_called_with_before_changes_nothing() -> None:
    tokenizer = tokenizer_of("wordpiece")
    before = open_tokenizer(tokenizer)
    tokenizer("a question", "and a context", padding="max_length", truncation=True, max_length=8)
    after = open_tokenizer(tokenizer)
    assert (after.layout, after.fingerprint) == (before.layout, before.fingerprint)


def test_memory_tokens_and_vocabulary_are_in_the_fingerprint() -> None:
    prints = {
        open_tokenizer(tokenizer_of(kind, tokens)).fingerprint for kind in KINDS for tokens in (0, 1, 2)
    }
    assert len(prints) == 9


@pytest.mark.parametrize("tokenizer", [object(), 7, None])
def test_what_is_no_fast_tokenizer_is_refused(tokenizer) -> None:
    with pytest.raises(ConfigError, match="is not a fast tokenizer, which offsets need"):
        open_tokenizer(tokenizer)


def test_a_path_without_a_tokenizer_and_a_tokenizer_without_letters_are_refused(tmp_path) -> None:
    with pytest.raises(InputError, match="no tokenizer at"):
        open_tokenizer(tmp_path)
    empty = Tokenizer(models.BPE())
    empty.pre_tokenizer = pre_tokenizers.Whitespace()
    with pytest.raises(ConfigError, match="no tokens for plain letters and digits"):
        open_tokenizer(empty)
