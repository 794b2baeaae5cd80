"""Texts that tokenizers tend to differ on, and the comparison of Krill with the library on them.

In: a `tokenizer.json`, and texts. Out: nothing, or an assertion that names the text. Held in memory: both.
"""

# ruff: noqa: RUF001

from __future__ import annotations

import random
from pathlib import Path

from tokenizers import Tokenizer as Library

import krill.tokenizer
from tokenizer_sections import MARK

LANGUAGES = [
    "The quick brown fox doesn't jump; it's 12,345.67 metres away (or 1e-9?), isn't it?\r\n\r\n\tYes.",
    "Größe, façade, señor, Ångström, naïve; ĲSSELMEER, İstanbul ve ısı. Straße STRASSE",
    "Съешь же ещё этих мягких французских булок. Ξεσκεπάζω την ψυχοφθόρα βδελυγμία.",
    "我能吞下玻璃而不伤身体。私はガラスを食べられます。나는 유리를 먹을 수 있어요. 2024年12月",
    "ฉันกินกระจกได้ แต่มันไม่ทำให้ฉันเจ็บ मैं काँच खा सकता हूँ أنا قادر على أكل الزجاج १२३ ٣٤٥",
    "אני יכול לאכול זכוכית ვჭამ მინას եմ ապակի የሚበላ 🙂👩‍👩‍👧‍👦🏳️‍🌈 ﬁﬂ ①②③ ㎏ Å Å e\u0301 \u1e9b\u0323",
]
CODE = """def main(argv: list[str]) -> int:
    \"\"\"Runs.\"\"\"
        if argv[1:] == ['--help']:    # 4 spaces
\treturn {"a": 1_000, 'b': 0xFF}['a'] // 3 != 7


#include <stdio.h>\r\nint main(void) { printf("%d\\n", 1<<3); return 0; }
<html><body class="x"> </body></html>  $x = \\frac{1}{2}; C[C@H](N)C(=O)O
"""
EDGES = [
    "",
    " ",
    "   ",
    "\n",
    "\n\n \n\t\r\n",
    "a",
    " a ",
    "\x00\x01\x1f\x7f\x85\u200b\ufeff\u2028",
    "\u00a0\u3000 \u2003",
    f"{MARK}",
    f"{MARK}{MARK} a{MARK}b {MARK}",
    "\u0301a\u0301\u0301",
    "<0x0A><0xE2><0x96><0x81>",
    "<s> </s><unk> <pad> <mask> x[MASK] [CLS]a[SEP] <|endoftext|>  <|user|> \n<|end|> <extra_id_3>",
    "SPL1T-TH1S-Pl3A5E <!dummy-prefix!>a <sentinel:12> IMGIMGABZ",
    "1 12 123 1234 12345 123456 1234567 0.1 ²³¹ ¼½ Ⅷ ٣٤٥٦",
    "don't DON'T I'LL we'Ve 'S \u017f'\u017f 'sx ''",
    "\ufdfa\u2460\ufb01\u0130\u1e9e\u03a3",
    "\uac00\u1100\u1161\u11a8 \u304b\u3099",
]
LONG = [
    "a" * 3000,
    "ab" * 1500,
    " " * 1200,
    "\n" * 700,
    "\u6f22" * 800,
    "1" * 999,
    "\u0e01\u0e33" * 300,
    "'s" * 500,
]


def both(file: Path) -> tuple[Library, krill.tokenizer.Tokenizer]:
    """The library's tokenizer of a file, and ours, which has to be native."""
    library = Library.from_file(str(file))
    library.no_truncation()
    library.no_padding()
    ours = krill.tokenizer.load(file, memory="2GB", threads=1)
    assert ours.native, ours.why
    return library, ours


def noise(count: int) -> list[str]:
    """Random Unicode: letters, marks and spaces of all planes."""
    draw = random.Random(count)
    planes = [range(32, 127), range(0x80, 0x3000), range(0x3000, 0xD800), range(0xE000, 0x110000)]
    often = " \n\t\u2581\u0301'1a<>"

    def letter() -> str:
        chosen = draw.choice([often, *planes])
        return chosen[draw.randrange(len(chosen))] if isinstance(chosen, str) else chr(draw.choice(chosen))

    return ["".join(letter() for _ in range(draw.randrange(120))) for _ in range(count)]


def with_added(library: Library) -> list[str]:
    """Texts with the tokens that are found before words are, at all kinds of places."""
    draw = random.Random(1)
    tokens = [token.content for token in library.get_added_tokens_decoder().values()]
    joints = ["", " ", "  ", "\n", "a", "\u00e9", "\u6f22", "_", " b "]
    return [
        "".join(draw.choice(joints) + draw.choice(tokens) for _ in range(4)) + draw.choice(joints)
        for _ in range(30)
    ]


def assert_same(library: Library, ours: krill.tokenizer.Tokenizer, texts: list[str]) -> None:
    expected = library.encode_batch(texts)
    for text, ids, encoding in zip(texts, ours.encode_batch(texts), expected, strict=True):
        assert ids.tolist() == encoding.ids, text
    for text, encoding in zip(texts, expected, strict=True):
        ids, offsets = ours.encode_offsets(text)
        assert ids.tolist() == encoding.ids, text
        assert list(map(tuple, offsets.tolist())) == encoding.offsets, text
        for skips in (False, True):
            decoded = library.decode(encoding.ids, skip_special_tokens=skips)
            assert ours.decode(ids, skip_special_tokens=skips) == decoded, text
