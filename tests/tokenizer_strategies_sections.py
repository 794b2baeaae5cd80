"""Random sections of a `tokenizer.json`, as its JSON has them, but for the model.

In: nothing. Out: strategies for Hypothesis. Nothing is held.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from oracles.normalizers import charsmap_of, precompiled

Section = dict[str, Any]

BOOLEAN = st.booleans()


def plain(*kinds: str) -> list[Section]:
    return [{"type": kind} for kind in kinds]


def flagged(kind: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Section]:
    return st.fixed_dictionaries({"type": st.just(kind), **fields})


# ---- normalizers ----

REPLACED = [
    {"String": " "},
    {"String": "a"},
    {"String": "ab"},
    {"String": "\u2581"},
    {"Regex": " {2,}"},
    {"Regex": r"(?<=a)b|\s+$"},
    {"Regex": r"\X\y(?=\n)"},
    {"Regex": r"[\u0300-\u036f]"},
    {"Regex": r"(?i)\Aab?"},
    {"Regex": r"\n+"},
]
NORMALIZER = st.one_of(
    st.sampled_from(plain("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt")),
    flagged("Strip", strip_left=BOOLEAN, strip_right=BOOLEAN),
    flagged("Prepend", prepend=st.sampled_from(["\u2581", " ", "ab", "\u00c9"])),
    flagged(
        "Replace",
        pattern=st.sampled_from(REPLACED),
        content=st.sampled_from(["\u2581", " ", "", "\u2581a", "E\u0301"]),
    ),
    flagged(
        "BertNormalizer",
        clean_text=BOOLEAN,
        handle_chinese_chars=BOOLEAN,
        strip_accents=st.sampled_from([None, True, False]),
        lowercase=BOOLEAN,
    ),
    st.sampled_from(
        [
            precompiled(charsmap_of({0x41: "a", 0xC3: "\u2581\u00e9q", 0x09: " ", 0xE2: "yz"})),
            precompiled(charsmap_of(dict.fromkeys(range(128, 256), "b"))),
        ]
    ),
)
NORMALIZERS = st.one_of(
    st.none(),
    NORMALIZER,
    st.recursive(
        NORMALIZER,
        lambda inner: st.lists(inner, max_size=3).map(
            lambda steps: {"type": "Sequence", "normalizers": steps}
        ),
        max_leaves=4,
    ),
)

# ---- pre-tokenizers ----

BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
PATTERNS = [
    {"String": " "},
    {"String": "ab"},
    {"String": "\u2581"},
    {"String": ""},
    {"Regex": r"\s+"},
    {"Regex": r"\d|[ab]+"},
    {"Regex": r"(?i:'s|'t)|\p{L}+|\s+(?!\S)|."},
    {"Regex": r"(?y{w})\X"},
    {"Regex": r"(a)?(?(1)b|[^a])|(?~b)"},
    {"Regex": r"[0-9][0-9]"},
    {"Regex": r"\b|(?<=a)"},
    {"Regex": r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"},
]
BYTE_LEVEL = flagged("ByteLevel", add_prefix_space=BOOLEAN, trim_offsets=BOOLEAN, use_regex=BOOLEAN)
SCHEMES = st.sampled_from(["first", "always", "never"])
METASPACE = flagged(
    "Metaspace",
    replacement=st.sampled_from("\u2581\u2581\u2581_a "),
    prepend_scheme=SCHEMES,
    split=BOOLEAN,
)
CUT = st.one_of(
    st.sampled_from(plain("Whitespace", "WhitespaceSplit", "BertPreTokenizer", "UnicodeScripts")),
    flagged("Split", pattern=st.sampled_from(PATTERNS), behavior=st.sampled_from(BEHAVIORS), invert=BOOLEAN),
    flagged("Digits", individual_digits=BOOLEAN),
    flagged("Punctuation", behavior=st.sampled_from(BEHAVIORS)),
    flagged("CharDelimiterSplit", delimiter=st.sampled_from("a \u2581\u00e9")),
    flagged("FixedLength", length=st.integers(1, 5)),
    METASPACE,
)


@st.composite
def pre_tokenizers(draw: st.DrawFn, byte_level: bool) -> Section | None:
    steps = draw(st.lists(CUT, max_size=2))
    if byte_level:
        steps.append(draw(BYTE_LEVEL))
        steps += draw(st.lists(st.one_of(CUT, BYTE_LEVEL), max_size=draw(st.sampled_from([0, 0, 0, 2]))))
    if len(steps) == 1:
        return steps[0]
    if len(steps) == 3 and draw(BOOLEAN):
        steps = [steps[0], {"type": "Sequence", "pretokenizers": steps[1:]}]
    return {"type": "Sequence", "pretokenizers": steps} if steps or draw(BOOLEAN) else None


# ---- post-processors; the ids are those of tokens that every vocabulary has ----

AROUND = st.lists(st.sampled_from(["<unk>", "[two]"]), max_size=2)
SPECIAL_TOKENS = {
    "<unk>": {"id": "<unk>", "ids": [0], "tokens": ["<unk>"]},
    "[two]": {"id": "[two]", "ids": [1, 0], "tokens": ["x", "<unk>"]},
}


def _template(before: list[str], after: list[str], type_id: int) -> Section:
    first, second = ({"Sequence": {"id": name, "type_id": type_id}} for name in "AB")
    left, right = (
        [{"SpecialToken": {"id": name, "type_id": type_id}} for name in names] for names in (before, after)
    )
    return {
        "type": "TemplateProcessing",
        "single": [*left, first, *right],
        "pair": [*left, first, *right, second, *right],
        "special_tokens": SPECIAL_TOKENS,
    }


TEMPLATE = st.builds(_template, AROUND, AROUND, st.integers(0, 2))
POST_PROCESSORS = st.one_of(
    st.none(),
    TEMPLATE,
    BYTE_LEVEL,
    flagged("BertProcessing", sep=st.just(["<unk>", 0]), cls=st.just(["x", 1])),
    flagged(
        "RobertaProcessing",
        sep=st.just(["<unk>", 0]),
        cls=st.just(["x", 1]),
        trim_offsets=BOOLEAN,
        add_prefix_space=BOOLEAN,
    ),
    st.tuples(BYTE_LEVEL, TEMPLATE).map(lambda steps: {"type": "Sequence", "processors": list(steps)}),
)

# ---- decoders ----

DECODER = st.one_of(
    st.just({"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}),
    flagged("Metaspace", replacement=st.sampled_from("\u2581_a"), prepend_scheme=SCHEMES, split=BOOLEAN),
    flagged("WordPiece", prefix=st.sampled_from(["##", "b", ""]), cleanup=BOOLEAN),
    flagged("BPEDecoder", suffix=st.sampled_from(["\u2581", "</w>", "b"])),
    flagged(
        "CTC",
        pad_token=st.sampled_from(["a", "<unk>"]),
        word_delimiter_token=st.sampled_from(["b", "\u2581"]),
        cleanup=BOOLEAN,
    ),
    st.sampled_from(plain("ByteFallback", "Fuse")),
    flagged("Strip", content=st.sampled_from("a \u2581"), start=st.integers(0, 2), stop=st.integers(0, 2)),
    flagged(
        "Replace",
        pattern=st.sampled_from([{"String": "\u2581"}, {"Regex": "[ab]+"}, {"String": "ab"}]),
        content=st.sampled_from([" ", "-", ""]),
    ),
)
AS_LLAMA = [
    {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
    {"type": "ByteFallback"},
    {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0},
]
DECODERS = st.one_of(
    st.none(),
    DECODER,
    st.one_of(st.just(AS_LLAMA), st.lists(DECODER, max_size=3)).map(
        lambda steps: {"type": "Sequence", "decoders": steps}
    ),
)
