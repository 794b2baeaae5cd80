"""Tokenizers that are legal and seldom. Nothing is held."""

from __future__ import annotations

from tokenizer_building import Family, by_bytes, token
from tokenizer_regexes import LLAMA3, QWEN2
from tokenizer_sections import (
    BY_BYTES,
    LOWER,
    NFC,
    NFD,
    byte_level,
    cutters,
    digits,
    metaspace,
    normalizers,
    punctuation,
    split,
    split_at,
    steps_of,
    template,
)

LLAMA2 = {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True}


SELDOM: dict[str, Family] = {
    **{
        f"split {behavior}{' inverted' * invert}": by_bytes(split(r"\s+|\d", behavior, invert))
        for behavior in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")
        for invert in (False, True)
    },
    "sequences in sequences": Family(
        "bytes",
        cutters(cutters(digits(), cutters(punctuation())), cutters(byte_level())),
        normalizers(normalizers(NFD), normalizers(normalizers(NFC))),
        {
            "type": "Sequence",
            "processors": [{"type": "Sequence", "processors": [byte_level()]}, template("<s> $A")],
        },
        BY_BYTES,
    ),
    "empty sequences": Family(
        "characters",
        cutters(),
        normalizers(),
        {"type": "Sequence", "processors": []},
        steps_of(),
        flags=LLAMA2,
    ),
    "regular expressions that are strings": by_bytes(
        split_at(r"\p{N}{1,3}"), split_at("\\s+"), split_at("\n")
    ),
    "letters twice": Family("bytes", cutters(byte_level(), byte_level()), decoder=BY_BYTES),
    "letters cut by everything": Family(
        "bytes",
        cutters(byte_level(prefix=True), punctuation(), {"type": "UnicodeScripts"}, {"type": "Whitespace"}),
        NFC,
        byte_level(),
        BY_BYTES,
    ),
    "letters with a mark": Family("bytes", cutters(byte_level(), metaspace()), None, byte_level(), BY_BYTES),
    "letters by a normalizer": Family(
        "bytes", split(QWEN2), {"type": "ByteLevel"}, decoder=BY_BYTES, flags={"unk_token": "<unk>"}
    ),
    "tokens in words alone": by_bytes(
        split(LLAMA3),
        normalizer=LOWER,
        added=(
            token("the", "single_word"),
            token("Is", "single_word", "normalized"),
            token("of", "lstrip", "rstrip"),
            token("a", "lstrip", "single_word", "normalized"),
            token("\u00e9", "normalized"),
            token("E", "normalized"),
        ),
    ),
}
