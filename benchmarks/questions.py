"""Questions: a few made up, the shared file as often as wanted, and tokenizers of three kinds for them.

Tests use them as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from krill.qa.layout import configure_memory_tokens
from real_text import SHARED_DATA, real_texts

SQUAD = SHARED_DATA / "squad_v2_dev.json"
KINDS = ("byte_bpe", "wordpiece", "unigram")
# What tokenizers learn from, and how many tokens; benchmarks take more of both.
TEXTS = 60
VOCABULARY = 800


def question(number: Any, text: str, *answers: tuple[str, int]) -> dict[str, Any]:
    """A question as SQuAD has it."""
    listed = [{"text": answer, "answer_start": start} for answer, start in answers]
    return {"id": str(number), "question": text, "answers": listed, "is_impossible": not answers}


def squad(*paragraphs: tuple[str, Sequence[dict[str, Any]]]) -> dict[str, Any]:
    """A SQuAD file's content."""
    entries = [{"context": context, "qas": list(questions)} for context, questions in paragraphs]
    return {"version": "v2.0", "data": [{"title": "a title", "paragraphs": entries}]}


def write_squad(path: Path, *paragraphs: tuple[str, Sequence[dict[str, Any]]]) -> Path:
    path.write_text(json.dumps(squad(*paragraphs)), encoding="utf-8")
    return path


def story(words: int, first: int = 0) -> str:
    """A context whose words are all different, so that each is found in one place."""
    return " ".join(f"word{number}" for number in range(first, first + words))


def story_file(path: Path, contexts: int = 6, questions: int = 4, words: int = 150) -> Path:
    """Contexts of different lengths, with questions with and without answers on each."""
    made = []
    for number in range(contexts):
        text = story(words * (number + 1) // contexts + 5, 1000 * number)
        asked = []
        for part in range(questions):
            answer = text.split()[(part * 37) % (len(text.split()) - 1)]
            answers = [] if part % 3 == 2 else [(answer, text.index(answer))]
            asked.append(question(f"{number}-{part}", f"which word is {part}?", *answers))
        made.append((text, asked))
    return write_squad(path, *made)


def grown_squad(path: Path, times: int, articles: int | None = None) -> Path:
    """The shared questions several times over, with other ids each time; of so many articles, or of all."""
    content = json.loads(SQUAD.read_text(encoding="utf-8"))
    with path.open("w", encoding="utf-8") as file:
        file.write('{"version": "v2.0", "data": [')
        for round_number in range(times):
            for number, article in enumerate(content["data"][:articles]):
                for paragraph in article["paragraphs"]:
                    for asked in paragraph["qas"]:
                        asked["id"] = f"{asked['id'].partition('-')[0]}-{round_number}"
                file.write((", " if round_number or number else "") + json.dumps(article))
        file.write("]}")
    return path


@cache
def tokenizer_of(kind: str, memory_tokens: int = 0) -> Any:
    """A fast tokenizer of `transformers` of `VOCABULARY` tokens, learnt from real text, and memory tokens."""
    from transformers import PreTrainedTokenizerFast

    content, declared = _learnt(kind)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(content), **declared)
    if kind == "unigram":
        tokenizer._pad_token_type_id = 3  # as XLNet's own class has it
    configure_memory_tokens(tokenizer, memory_tokens)
    return tokenizer


def library_of(tokenizer: Any) -> Tokenizer:
    """A copy of what is inside, without the padding that a call may have left behind."""
    library = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    library.no_padding()
    library.no_truncation()
    return library


@cache
def _learnt(kind: str) -> tuple[str, dict[str, Any]]:
    library, declared = _TRAINED[kind]()
    return library.to_str(), declared


def _texts() -> Iterator[str]:
    return (text[:3000] for text in islice(real_texts(), TEXTS))


def _byte_bpe() -> tuple[Tokenizer, dict[str, Any]]:
    """RoBERTa's layout."""
    library = Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<s>", "</s>", "<pad>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    library.train_from_iterator(_texts(), trainer)
    library.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0), add_prefix_space=False)
    return library, {"cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>"}


def _wordpiece() -> tuple[Tokenizer, dict[str, Any]]:
    """BERT's layout."""
    library = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    library.normalizer = normalizers.BertNormalizer()
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    trainer = trainers.WordPieceTrainer(vocab_size=VOCABULARY, special_tokens=special, show_progress=False)
    library.train_from_iterator(_texts(), trainer)
    library.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    named = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]"}
    return library, named


def _unigram() -> tuple[Tokenizer, dict[str, Any]]:
    """XLNet's layout: the context first, classification last, padding left."""
    library = Tokenizer(models.Unigram())
    library.normalizer = normalizers.NFKC()
    library.pre_tokenizer = pre_tokenizers.Metaspace()
    library.decoder = decoders.Metaspace()
    special = ["<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>"]
    trainer = trainers.UnigramTrainer(
        vocab_size=VOCABULARY, special_tokens=special, unk_token="<unk>", show_progress=False
    )
    library.train_from_iterator((text[:1000] for text in _texts()), trainer)
    library.post_processor = processors.TemplateProcessing(
        single="$A:0 <sep>:0 <cls>:2",
        pair="$A:0 <sep>:0 $B:1 <sep>:1 <cls>:2",
        special_tokens=[("<sep>", 4), ("<cls>", 3)],
    )
    named = {"cls_token": "<cls>", "sep_token": "<sep>", "pad_token": "<pad>", "unk_token": "<unk>"}
    return library, {**named, "padding_side": "left"}


_TRAINED = {"byte_bpe": _byte_bpe, "wordpiece": _wordpiece, "unigram": _unigram}
