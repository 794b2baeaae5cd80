"""Families of BPE over characters, Unigram, WordPiece and words, each with the sections of its
`tokenizer.json`. Nothing is held.
"""

from __future__ import annotations

from typing import Any

from tokenizer_building import BYTES, Family, token
from tokenizer_regexes import SMILES
from tokenizer_sections import (
    ACCENTS,
    AT_SPACES,
    BERT_WORDS,
    BY_BYTES,
    JOINED,
    JOINED_WITHOUT_FIRST,
    LOWER,
    MARK,
    NFC,
    NFKC,
    NFKD,
    NMT,
    ONE_SPACE,
    PIECES,
    SPACES_ARE_MARKS,
    Section,
    bert,
    byte_level,
    cutters,
    digits,
    matched,
    metaspace,
    normalizers,
    old_metaspace,
    punctuation,
    replaced,
    roberta,
    split,
    split_at,
    steps_of,
    stripped,
    template,
)

LLAMA2 = {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True}
BERT_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORD_PIECE = {"unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100}
ALBERT = (replaced("``", '"'), replaced("''", '"'), NFKD, ACCENTS, LOWER)


def bert_family(normalizer: Section, **options: Any) -> Family:
    return Family(
        "pieces",
        BERT_WORDS,
        normalizer,
        template("[CLS] $A [SEP]"),
        PIECES,
        BERT_SPECIAL,
        **{"flags": WORD_PIECE, **options},
    )


def unigram(normalizer: Section | None, cut: Section, single: str | None, **options: Any) -> Family:
    post = None if single is None else template(single)
    return Family("unigram", cut, normalizer, post, metaspace(), **options)


OVER_CHARACTERS: dict[str, Family] = {
    "llama 1 and 2, mistral, tinyllama": Family(
        "characters",
        None,
        normalizers({"type": "Prepend", "prepend": MARK}, SPACES_ARE_MARKS),
        template("<s> $A"),
        JOINED_WITHOUT_FIRST,
        flags=LLAMA2,
    ),
    "llama with special tokens that are normalised": Family(
        "characters",
        None,
        normalizers({"type": "Prepend", "prepend": MARK}, SPACES_ARE_MARKS),
        template("<s> $A"),
        JOINED_WITHOUT_FIRST,
        flags=LLAMA2,
        added=tuple(token(text, "normalized", "special") for text in ("<s>", "</s>", "<unk>")),
    ),
    "code llama": Family(
        "characters",
        None,
        normalizers({"type": "Prepend", "prepend": MARK}, SPACES_ARE_MARKS),
        template("<s> $A"),
        JOINED_WITHOUT_FIRST,
        flags=LLAMA2,
        added=tuple(token(f"{MARK}<{name}>", "special") for name in ("PRE", "MID", "SUF", "EOT")),
    ),
    "phi 3": Family(
        "characters",
        None,
        normalizers({"type": "Prepend", "prepend": MARK}, SPACES_ARE_MARKS),
        template("$A"),
        JOINED_WITHOUT_FIRST,
        flags=LLAMA2,
        added=(
            token("</s>", "rstrip"),
            token("<|user|>", "rstrip", "special"),
            token("<|end|>", "rstrip", "special"),
        ),
    ),
    "mistral 7b v0.3, llama of transformers 5": Family(
        "characters", metaspace("first", False), None, template("<s> $A"), JOINED_WITHOUT_FIRST, flags=LLAMA2
    ),
    "gemma 1 and 2": Family(
        "characters",
        split_at(" ", "MergedWithPrevious"),
        SPACES_ARE_MARKS,
        template("<s> $A"),
        JOINED,
        flags=LLAMA2,
        added=tuple(token(part * length) for part in ("\n", MARK) for length in range(2, 20)),
    ),
    "gemma 3": Family(
        "characters",
        split_at(" ", "MergedWithPrevious"),
        SPACES_ARE_MARKS,
        template("<s> $A"),
        JOINED,
        flags={**LLAMA2, "merged": [("<", "/"), (MARK, "</"), (">", f"{MARK}</"), (">", MARK), ("\t", "\t")]},
        added=(
            *(token(part * length) for part in ("\n", MARK) for length in range(1 + (part == MARK), 32)),
            *(token(f"<unused{number}>") for number in range(6242)),
            *(token(f"<{name}>") for name in ("table", "tr", "td", "/table", "img", "strong")),
        ),
    ),
    "gemma with runs of marks learnt first": Family(
        "characters",
        split_at(" ", "MergedWithPrevious"),
        SPACES_ARE_MARKS,
        template("<s> $A"),
        JOINED,
        flags={**LLAMA2, "first": [(MARK * left, MARK) for left in range(12, 0, -1)]},
        added=(token("\n"), *(token(MARK * length) for length in range(2, 14))),
    ),
    "internlm 2": Family(
        "characters",
        None,
        normalizers(SPACES_ARE_MARKS),
        template("<s> $A"),
        JOINED,
        flags={
            **LLAMA2,
            "merged": [(";", "\n"), ("\n", "\n"), ("\n\n", MARK), (MARK, "\n"), (";\n", "\n"), ("\n", "}")],
        },
    ),
    "gemma 4": Family(
        "characters", split(r"[^\n]+|[\n]+"), SPACES_ARE_MARKS, template("<s> $A"), JOINED, flags=LLAMA2
    ),
    "yi, internlm 2, solar": Family(
        "characters", None, normalizers(SPACES_ARE_MARKS), template("<s> $A"), JOINED, flags=LLAMA2
    ),
    "baichuan 2": Family(
        "characters",
        None,
        normalizers({"type": "Prepend", "prepend": MARK}, SPACES_ARE_MARKS),
        None,
        JOINED_WITHOUT_FIRST,
        flags=LLAMA2,
        added=(token("<reserved_106>", "special"), token("<reserved_107>")),
    ),
    "chatglm 3": Family(
        "characters",
        split_at("<!dummy-prefix!>", "MergedWithNext"),
        normalizers(replaced("<!dummy-prefix!>", MARK), SPACES_ARE_MARKS),
        template("[gMASK] <!sop!> $A"),
        steps_of({"type": "ByteFallback"}, old_metaspace()),
        ("<unk>", "<s>", "</s>", "[gMASK]", "<!sop!>"),
        flags=LLAMA2,
    ),
    "nemotron 4, parakeet": Family(
        "characters", metaspace(), normalizers(stripped(False, True), ONE_SPACE), flags=LLAMA2
    ),
    "a vocabulary without all bytes": Family(
        "characters", None, SPACES_ARE_MARKS, None, JOINED, flags={**LLAMA2, "without": BYTES[100:]}
    ),
    "a vocabulary without bytes": Family(
        "characters", None, SPACES_ARE_MARKS, None, JOINED, flags={**LLAMA2, "without": BYTES}
    ),
    "nllb of characters, seamless": Family(
        "characters",
        metaspace(),
        normalizers(NMT, NFKC, ONE_SPACE),
        template("<pad> $A </s>"),
        metaspace(),
        flags={"unk_token": "<unk>", "fuse_unk": True, "without": BYTES},
        added=(token("eng_Latn", "special"), token("<mask>", "lstrip", "special", "normalized")),
    ),
    "unknown tokens that are not fused": Family(
        "characters", metaspace(), None, flags={"unk_token": "<unk>", "fuse_unk": False, "without": BYTES}
    ),
    "no unknown token": Family("characters", metaspace(), None, flags={"without": BYTES}),
    "openai-gpt": Family(
        "pieces of words",
        BERT_WORDS,
        bert(True),
        None,
        {"type": "BPEDecoder", "suffix": "</w>"},
        ("<unk>",),
        {"unk_token": "<unk>", "end_of_word_suffix": "</w>"},
    ),
    "herbert": Family(
        "pieces of words",
        BERT_WORDS,
        bert(False, False),
        {"type": "BertProcessing", "sep": ["</s>", 0], "cls": ["<s>", 0]},
        {"type": "BPEDecoder", "suffix": "</w>"},
        flags={"unk_token": "<unk>", "end_of_word_suffix": "</w>"},
    ),
    "bpe with a prefix for the rest of words": Family(
        "continued words",
        {"type": "Whitespace"},
        NFKC,
        None,
        PIECES,
        flags={"unk_token": "<unk>", "continuing_subword_prefix": "##"},
    ),
    "dnabert 2": Family(
        "characters",
        {"type": "Whitespace"},
        None,
        template("[CLS] $A [SEP]"),
        None,
        BERT_SPECIAL,
        {"unk_token": "[UNK]", "without": BYTES},
    ),
    # Unigram.
    "t5": unigram(
        None,
        cutters(AT_SPACES, old_metaspace()),
        "$A </s>",
        flags={"type": ..., "byte_fallback": ...},
        added=tuple(token(f"<extra_id_{number}>", "special") for number in range(100)),
    ),
    "mt5, umt5": unigram(normalizers(NMT, NFKC, ONE_SPACE), cutters(AT_SPACES, metaspace()), "$A </s>"),
    "xlm-r, bge-m3": unigram(
        normalizers(NMT, NFKC),
        cutters(AT_SPACES, metaspace()),
        "<s> $A </s>",
        added=(token("<mask>", "lstrip", "special"),),
    ),
    "camembert, barthez, mbart, pegasus": unigram(
        normalizers(NMT, NFKC, stripped(False, True), matched(" {2,}", MARK)), metaspace(), "<s> $A </s>"
    ),
    "nllb": unigram(normalizers(NFKC), metaspace(), "<pad> $A </s>", added=(token("eng_Latn", "special"),)),
    "m2m, xglm": unigram(NFKC, metaspace("first"), "</s> $A"),
    "albert, fnet": unigram(normalizers(*ALBERT, ONE_SPACE), metaspace(), "<s> $A </s>"),
    "xlnet": unigram(
        normalizers(replaced("``", '"'), replaced("''", '"'), NFKD, ACCENTS, NFKC, ONE_SPACE),
        cutters(AT_SPACES, metaspace()),
        "$A </s> <s>",
    ),
    "deberta 2 and 3": unigram(
        normalizers(stripped(True, True), NMT, NFKC, ONE_SPACE),
        cutters(metaspace()),
        "<s> $A </s>",
        added=(token("[MASK]", "lstrip", "rstrip", "special"),),
    ),
    "deberta 2 that splits punctuation": unigram(
        normalizers(LOWER, stripped(True, True), ONE_SPACE),
        cutters(punctuation(), metaspace()),
        "<s> $A </s>",
    ),
    "big bird, reformer": unigram(normalizers(NMT, NFKC), metaspace(), "<s> $A </s>"),
    "rembert": unigram(
        normalizers(replaced("``", '"'), replaced("''", '"'), LOWER, ONE_SPACE), metaspace(), "<s> $A </s>"
    ),
    "pegasus with its marks": unigram(
        NFKC, cutters(AT_SPACES, metaspace()), "$A </s>", added=(token("<mask_2>", "lstrip", "special"),)
    ),
    "helium, moshi": Family(
        "unigram",
        cutters(split_at("\n", "Contiguous")),
        normalizers({"type": "Prepend", "prepend": " "}, SPACES_ARE_MARKS),
        template("<s> $A"),
        JOINED_WITHOUT_FIRST,
        flags={"byte_fallback": True, "with": BYTES},
        added=(token("\n"), token("<s>", "single_word", "special")),
        besides={
            "padding": {
                "strategy": "BatchLongest",
                "direction": "Right",
                "pad_to_multiple_of": None,
                "pad_id": 3,
                "pad_type_id": 0,
                "pad_token": "<pad>",
            }
        },
    ),
    "llm-jp, sarashina": Family(
        "unigram",
        None,
        normalizers(NFKC, SPACES_ARE_MARKS),
        template("<s> $A"),
        JOINED,
        flags={"byte_fallback": True, "with": BYTES},
    ),
    "unigram of letters for bytes": Family("unigram", byte_level(), NFC, byte_level(), BY_BYTES),
    "unigram with trimmed offsets": Family("unigram", metaspace(), None, roberta("<s>", "</s>"), metaspace()),
    # WordPiece.
    "bert uncased": bert_family(bert(True)),
    "bert uncased, an old file": bert_family(
        {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "lowercase": True},
        flags={"type": ..., **WORD_PIECE},
    ),
    "bert cased, multilingual": bert_family(bert(False)),
    "bert with accents": bert_family(bert(True, False)),
    "electra, distilbert, mpnet, minilm": bert_family(
        bert(True),
        besides={
            "truncation": {"max_length": 8, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
            "padding": {
                "strategy": {"Fixed": 16},
                "direction": "Right",
                "pad_to_multiple_of": None,
                "pad_id": 0,
                "pad_type_id": 0,
                "pad_token": "[PAD]",
            },
        },
    ),
    "mpnet's mask": bert_family(bert(True), added=(token("[MASK]", "lstrip", "special"),)),
    "a mask that is normalised": bert_family(bert(True), added=(token("[MASK]", "normalized", "special"),)),
    "bert of characters": bert_family(
        bert(False, False), flags={**WORD_PIECE, "max_input_chars_per_word": 3}
    ),
    "splinter, funnel": bert_family(bert(True), added=(token("[QUESTION]", "special"),)),
    "layoutlm with its words": bert_family(normalizers(bert(True), stripped(True, True))),
    "ltg-bert, elc-bert": Family(
        "pieces",
        cutters(byte_level(prefix=True), digits()),
        None,
        byte_level(prefix=True),
        BY_BYTES,
        BERT_SPECIAL,
        {**WORD_PIECE, "continuing_subword_prefix": ""},
    ),
    # Words.
    "molformer": Family("words", split(SMILES, "Isolated"), flags={"unk_token": "<unk>"}),
    "wav2vec": Family(
        "words",
        split("", "Isolated"),
        normalizers(LOWER, replaced(" ", "|")),
        None,
        {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": True},
        flags={"unk_token": "<unk>"},
    ),
    "words at whitespace": Family(
        "words", {"type": "Whitespace"}, LOWER, template("<s> $A </s>"), flags={"unk_token": "<unk>"}
    ),
    "esm": Family(
        "words",
        cutters(AT_SPACES, split("", "Removed")),
        None,
        template("<s> $A </s>"),
        flags={"unk_token": "<unk>"},
    ),
}
