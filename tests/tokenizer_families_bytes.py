"""Families of byte-level BPE, each with the sections of its `tokenizer.json`. Nothing is held."""

from __future__ import annotations

from tokenizer_building import Family, by_bytes, token
from tokenizer_regexes import (
    ASIAN,
    BAILING,
    BLOOM,
    CL100K,
    CLIP,
    DEEPSEEK_CODER,
    DEEPSEEK_LLM,
    DEEPSEEK_V3,
    EXAONE_MOE,
    JAIS2,
    KIMI_K2,
    LLAMA3,
    O200K,
    QWEN2,
    QWEN3_5,
    SEED_CODER,
    TEKKEN,
    YOUTU,
)
from tokenizer_sections import (
    BY_BYTES,
    LOWER,
    NFC,
    NFKC,
    Section,
    byte_level,
    cutters,
    digits,
    matched,
    normalizers,
    punctuation,
    roberta,
    split,
    split_at,
    template,
)

LEGACY_BPE = {"continuing_subword_prefix": "", "end_of_word_suffix": ""}
BERT_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
END = ("<|endoftext|>",)


def spaces(longest: int) -> tuple[Section, ...]:
    return tuple(token(" " * length, "normalized") for length in range(longest, 1, -1))


BYTE_LEVEL: dict[str, Family] = {
    "gpt2": Family(
        "bytes", byte_level(), None, byte_level(trims=False), BY_BYTES, END, {"type": ..., **LEGACY_BPE}
    ),
    "gpt2 of transformers 5": Family(
        "bytes", byte_level(), None, None, BY_BYTES, END, {**LEGACY_BPE, "unk_token": "<|endoftext|>"}
    ),
    "roberta": Family(
        "bytes",
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True},
        None,
        roberta("<s>", "</s>"),
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True},
        ("<s>", "<pad>", "</s>", "<unk>"),
        {"type": ..., **LEGACY_BPE},
        (token("<mask>", "lstrip", "normalized", "special"),),
    ),
    "bart, longformer with a prefix space": Family(
        "bytes",
        byte_level(prefix=True),
        None,
        roberta("<s>", "</s>", prefix=True),
        BY_BYTES,
        flags=LEGACY_BPE,
    ),
    "deberta": Family(
        "bytes",
        byte_level(),
        None,
        template("[CLS] $A [SEP]"),
        BY_BYTES,
        BERT_SPECIAL,
        added=(token("[MASK]", "lstrip", "normalized", "special"),),
    ),
    "gpt-neox, pythia, olmo": Family(
        "bytes", byte_level(), NFC, byte_level(prefix=False), BY_BYTES, END, added=spaces(24)
    ),
    "modernbert": Family(
        "bytes",
        byte_level(),
        NFC,
        template("[CLS] $A [SEP]"),
        BY_BYTES,
        BERT_SPECIAL,
        added=(*spaces(24), token("[MASK]", "lstrip", "special"), token("|||IP_ADDRESS|||", "normalized")),
    ),
    "codegen, phi 2": Family(
        "bytes",
        byte_level(),
        None,
        byte_level(trims=False),
        BY_BYTES,
        END,
        LEGACY_BPE,
        (*spaces(31), *(token("\t" * length, "normalized") for length in range(9, 1, -1))),
    ),
    "whisper": Family(
        "bytes",
        byte_level(),
        None,
        template("<|startoftranscript|> <|notimestamps|> $A <|endoftext|>"),
        BY_BYTES,
        ("<|endoftext|>", "<|startoftranscript|>", "<|notimestamps|>"),
        LEGACY_BPE,
        tuple(token(f"<|{time / 50:.2f}|>", "normalized") for time in range(200)),
    ),
    "clip": Family(
        "bytes",
        cutters(
            split(CLIP, "Removed", True),
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True},
        ),
        normalizers(NFC, matched(r"\s+", " "), LOWER),
        roberta("<|startoftext|>", "<|endoftext|>", trims=False),
        BY_BYTES,
        ("<|startoftext|>", "<|endoftext|>"),
        {"unk_token": "<|endoftext|>", "continuing_subword_prefix": "", "end_of_word_suffix": "</w>"},
        (token("<|startoftext|>", "normalized", "special"),),
    ),
    "bloom, poro": by_bytes(split(BLOOM), post_processor=byte_level(cuts=False, trims=True)),
    "viking": by_bytes(split(BLOOM), digits()),
    "starcoder, granite, smollm, refact": Family(
        "bytes", cutters(digits(), byte_level()), decoder=BY_BYTES, special=END
    ),
    "command-r, aya": Family(
        "bytes",
        cutters(digits(), byte_level()),
        NFC,
        template("<s> $A"),
        BY_BYTES,
        added=(token("<|START_OF_TURN_TOKEN|>", "special"), token("<|X|>", "lstrip", "rstrip", "special")),
    ),
    "tiny aya": by_bytes(split(r"\d{1,3}(?=(?:\d{3})*\b)"), split(O200K), normalizer=NFC),
    "falcon": Family(
        "bytes",
        cutters(punctuation("Contiguous"), byte_level(), digits(False), split("[0-9][0-9][0-9]")),
        decoder=BY_BYTES,
        special=(">>TITLE<<", ">>QUESTION<<", "<|endoftext|>"),
    ),
    "falcon 3": Family(
        "bytes",
        cutters(punctuation("Contiguous"), byte_level(), digits(True), split("[0-9][0-9][0-9]")),
        decoder=BY_BYTES,
        special=END,
    ),
    "mpt, jais": Family("bytes", byte_level(), NFC, byte_level(trims=True), BY_BYTES, END),
    "jais 2": by_bytes(split(JAIS2)),
    "llama 3, smollm 3, olmo 2, glm 4": by_bytes(
        split(LLAMA3),
        post_processor={"type": "Sequence", "processors": [byte_level(), template("<s> $A")]},
        flags={"ignore_merges": True},
    ),
    "llama 4, gpt-oss, phi 4 mini": by_bytes(
        split(O200K, "Removed", True), post_processor=byte_level(prefix=True, trims=False)
    ),
    "tekken, mistral nemo": by_bytes(
        split(TEKKEN), post_processor=template("<s> $A"), flags={"ignore_merges": True}
    ),
    "gpt-4, phi 4, dbrx": by_bytes(
        split(CL100K, "Removed", True),
        added=(token("<|im_start|>", "lstrip", "rstrip", "special"), token("<|dummy|>", "rstrip", "special")),
    ),
    "qwen 1.5 to 3, yi 1.5": by_bytes(
        split(QWEN2),
        normalizer=NFC,
        post_processor=byte_level(trims=False, cuts=False),
        flags=LEGACY_BPE,
        added=(token("<think>"), token("<tool_call>"), token("<|im_end|>", "special")),
    ),
    "qwen 3.5": by_bytes(split(QWEN3_5), normalizer=NFC),
    "kimi k2": by_bytes(split(KIMI_K2)),
    "bailing, ling": by_bytes(split(BAILING)),
    "seed": by_bytes(split(SEED_CODER)),
    "exaone": by_bytes(split(QWEN2), normalizer=NFC, flags={"ignore_merges": False}),
    "exaone moe": by_bytes(split(EXAONE_MOE), normalizer=NFC),
    "youtu": by_bytes(split(YOUTU), split(O200K)),
    "minicpm 5": by_bytes(split(r"\p{N}{1,3}"), split(LLAMA3.replace("{1,3}", "+"))),
    "afmoe": by_bytes(split(r"\p{N}{1,3}(?=(?:\p{N}{3})*$)"), split(ASIAN), split(DEEPSEEK_V3[2])),
    "superbpe": by_bytes(split(r"\p{N}+"), split(r"(?=(\d{3})+(?!\d))")),
    "laguna": by_bytes(split(r"[^\n]+|[\n]+"), split(QWEN2)),
    "deepseek v3, hunyuan": by_bytes(
        *map(split, DEEPSEEK_V3), normalizer=normalizers(), post_processor=byte_level(), special=("<s>",)
    ),
    "deepseek llm": by_bytes(*map(split, DEEPSEEK_LLM), digits(), normalizer=normalizers()),
    "deepseek coder": by_bytes(*map(split, DEEPSEEK_CODER), digits(), normalizer=normalizers()),
    "chameleon": by_bytes(
        split("<sentinel:[0-9]+>"),
        split("(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z"),
        split(r"([\t\n]|    |  )"),
        digits(),
        punctuation(),
        post_processor=template("<s> $A </s>"),
    ),
    "galactica, nougat": Family(
        "bytes",
        cutters(
            split_at("SPL1T-TH1S-Pl3A5E", "Removed"),
            digits(),
            split(r"[\(\)\[\]\{\}]|([!\"\#\$\%\&'\*\+,\-./:;<=>?\\\^_`\|\~])\1*"),
            split_at("\n"),
            byte_level(),
        ),
        NFKC,
        template("<s> $A </s>"),
        BY_BYTES,
    ),
    "claude": Family(
        "bytes", byte_level(), NFKC, None, BY_BYTES, ("<EOT>", "<META>"), added=(token("\n\nHuman:"),)
    ),
}
