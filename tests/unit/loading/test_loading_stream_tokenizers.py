"""Any tokenizer serves a stream, and gives the ids that it gives by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from stream_samples import as_sequences, taken, write_lines
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

import krill
from krill.errors import ConfigError
from krill.loading.stream.loader import StreamingDataLoader
from krill.tokenizer import MemoryEfficientBPE
from oracles.streaming import reference_batches, reference_sequences

DOCUMENTS = [f"Document {number} tells of krill, whales and the sea. " * 3 for number in range(40)]
END = "<|endoftext|>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus and a tokenizer that was trained on it."""
    folder = tmp_path_factory.mktemp("tokenizers")
    write_lines(folder / "a.jsonl", DOCUMENTS)
    krill.tokenizer.train(
        [str(folder / "a.jsonl")], vocab_size=300, memory="256MB", output=folder / "tokenizer"
    )
    return folder


@pytest.fixture(scope="module")
def library(folder: Path) -> Tokenizer:
    return Tokenizer.from_file(str(folder / "tokenizer" / "tokenizer.json"))


def loader_of(folder: Path, tokenizer: Any, **options: Any) -> StreamingDataLoader:
    chosen = {"seq_len": 24, "batch_size": 4, "shuffle_buffer_size": 0, "memory": "400MB", **options}
    return StreamingDataLoader(str(folder / "a.jsonl"), tokenizer, max_document_bytes="64KB", **chosen)


def expected(tokenizer: Tokenizer, eos: int | None) -> list[list[list[int]]]:
    ends = [] if eos is None else [eos]
    ids = [tokenizer.encode(text).ids + ends for text in DOCUMENTS]
    return reference_batches(reference_sequences(ids, 24, 24), 4)


def test_a_path_and_every_kind_of_object_give_the_same_batches(folder: Path, library: Tokenizer) -> None:
    from transformers import PreTrainedTokenizerFast

    path = folder / "tokenizer"
    wanted = expected(library, library.token_to_id(END))
    of_transformers = PreTrainedTokenizerFast(tokenizer_object=library, eos_token=END)
    ours = krill.tokenizer.load(path, threads=1)
    for given in (path, str(path / "tokenizer.json"), library, of_transformers, ours):
        loader = loader_of(folder, given)
        assert taken(loader) == wanted
        assert loader.why_not_native is None
        assert (loader.vocab_size, loader.eos_id) == (300, library.token_to_id(END))


def test_the_trainer_class_is_a_tokenizer_as_well(folder: Path) -> None:
    trainer = MemoryEfficientBPE()
    trainer.train(input_path=folder / "a.jsonl", vocab_size=280, special_tokens=[END], memory="256MB")
    ids = [trainer.encode(text) for text in DOCUMENTS]
    batch = next(iter(loader_of(folder, trainer)))
    assert batch["input_ids"][0].tolist() == [int(number) for number in ids[0][:24]]


def test_the_eos_of_transformers_ends_documents(folder: Path, library: Tokenizer) -> None:
    from transformers import PreTrainedTokenizerFast

    other = PreTrainedTokenizerFast(tokenizer_object=library, eos_token="!")
    loader = loader_of(folder, other)
    assert loader.eos_id == library.token_to_id("!")
    assert taken(loader) == expected(library, loader.eos_id)


def test_truncation_and_padding_are_off(folder: Path, library: Tokenizer) -> None:
    short = Tokenizer.from_str(library.to_str())
    short.enable_truncation(5)
    short.enable_padding(length=100)
    assert taken(loader_of(folder, short)) == expected(library, library.token_to_id(END))


def test_what_a_post_processor_adds_is_there(folder: Path, library: Tokenizer) -> None:
    framed = Tokenizer.from_str(library.to_str())
    end = framed.token_to_id(END)
    framed.post_processor = processors.TemplateProcessing(single=f"{END} $A", special_tokens=[(END, end)])
    loader = loader_of(folder, framed)
    assert taken(loader) == expected(framed, end)
    assert as_sequences(next(iter(loader)))[0][0] == end


def test_a_tokenizer_of_word_pieces_is_run_natively(folder: Path) -> None:
    words = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.train_from_iterator(DOCUMENTS, trainers.WordPieceTrainer(vocab_size=80, special_tokens=["[UNK]"]))
    loader = loader_of(folder, words, threads=2)
    assert taken(loader) == expected(words, None)
    assert loader.eos_id is None  # so nothing stands between documents
    assert loader.why_not_native is None


def test_a_tokenizer_that_krill_cannot_run_is_run_by_its_library(folder: Path, library: Tokenizer) -> None:
    twice = Tokenizer.from_str(library.to_str())
    twice.post_processor = processors.TemplateProcessing(single="$A $A")
    loader = loader_of(folder, twice, threads=2)
    assert taken(loader) == expected(twice, twice.token_to_id(END))
    assert loader.why_not_native == "its template holds the text more than once"


def test_a_tokenizer_with_parts_in_python_is_refused(folder: Path, library: Tokenizer) -> None:
    class Mine:
        def pre_tokenize(self, pretok: Any) -> None: ...

    custom = Tokenizer.from_str(library.to_str())
    custom.pre_tokenizer = pre_tokenizers.PreTokenizer.custom(Mine())
    with pytest.raises(ConfigError, match="the tokenizer can't be saved"):
        loader_of(folder, custom)


def test_a_state_is_bound_to_the_tokenizer(folder: Path, library: Tokenizer) -> None:
    other = Tokenizer.from_str(library.to_str())
    other.add_special_tokens(["<other>"])
    state = loader_of(folder, library).state_dict()
    loader_of(folder, library).load_state_dict(state)
    with pytest.raises(ConfigError, match="`tokenizer` was `"):
        loader_of(folder, other).load_state_dict(state)
