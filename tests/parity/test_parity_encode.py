"""Hugging Face's ids, offsets and text from the native encoder: on real text, and on what should break it."""

from __future__ import annotations

import json
import random
from functools import cache
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

import krill.tokenizer
from krill.tokenizer.patterns import PATTERNS, pre_tokenizer
from properties import tried
from real_text import real_texts

SPECIAL = ["<|endoftext|>", "<s>", "</s>"]
SPACES = [
    " ",
    "  ",
    "\n",
    "\r\n",
    "\t",
    "\x0b",
    "\x0c",
    "\x1c",
    "\x85",
    "\xa0",
    "\u1680",
    "\u2003",
    "\u2028",
    "\u3000",
]
PIECES = [
    *SPACES,
    "a",
    "Don't",
    "'S",
    "'ll",
    "ABC",
    "éÀ",
    "中文",
    "한",
    "ñ",
    "१२",
    "1234",
    "½",
    "!?",
    "_",
    "🙂",
    "\u0301",
    "ʰ",
    "\x00",
]


@cache
def trained(pattern: str, vocab_size: int = 2000) -> str:
    """A tokenizer of so many tokens that the library trained, as JSON."""
    base = json.loads(Tokenizer(models.BPE()).to_str())
    tokenizer = Tokenizer.from_str(json.dumps({**base, "pre_tokenizer": pre_tokenizer(pattern)}))
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(islice(real_texts(), 0, 120, 3), trainer)
    return tokenizer.to_str()


@pytest.fixture
def beside(tmp_path):
    """A tokenizer of the library as both: the library's own, and ours, which must be native."""

    def load(tokenizer: Tokenizer | str, **options):
        content = tokenizer if isinstance(tokenizer, str) else tokenizer.to_str()
        file = tmp_path / "tokenizer.json"
        file.write_text(content, encoding="utf-8")
        ours = krill.tokenizer.load(file, **{"memory": "200MB", "threads": 1, **options})
        assert ours.native, ours.why
        return Tokenizer.from_str(content), ours

    return load


def assert_equal(library: Tokenizer, ours: krill.tokenizer.Tokenizer, texts: list[str]) -> None:
    expected = [encoding.ids for encoding in library.encode_batch_fast(texts)]
    for text, wanted, found in zip(texts, expected, ours.encode_batch(texts), strict=True):
        assert found.tolist() == wanted, text[:300]


def assert_offsets_equal(library: Tokenizer, ours: krill.tokenizer.Tokenizer, texts: list[str]) -> None:
    for text in texts:
        wanted = library.encode(text)
        ids, offsets = ours.encode_offsets(text)
        assert ids.tolist() == wanted.ids, text[:300]
        assert offsets.tolist() == [list(pair) for pair in wanted.offsets], text[:300]


def random_texts(count: int, seed: int) -> list[str]:
    """Strings of pieces that patterns treat differently, and of code points from everywhere."""
    random_ = random.Random(seed)

    def character() -> str:
        point = random_.choice(
            [random_.randrange(0x80), random_.randrange(0x3000), random_.randrange(0x110000)]
        )
        return "" if 0xD800 <= point < 0xE000 else chr(point)

    def piece() -> str:
        return random_.choice(PIECES) if random_.random() < 0.7 else character()

    return ["".join(piece() for _ in range(random_.randrange(60))) for _ in range(count)]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_ids_are_the_librarys_on_real_text(beside, pattern) -> None:
    library, ours = beside(trained(pattern))
    assert_equal(library, ours, list(islice(real_texts(), 100, 400, 2)))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_ids_and_offsets_are_the_librarys_on_random_unicode_and_whitespace(beside, pattern) -> None:
    library, ours = beside(trained(pattern))
    texts = random_texts(1500, seed=1)
    assert_equal(library, ours, texts)
    assert_offsets_equal(library, ours, texts[:300])


@pytest.mark.parametrize("pattern", PATTERNS)
def test_special_tokens_in_the_text_are_the_librarys(beside, pattern) -> None:
    library, ours = beside(trained(pattern))
    texts = random_texts(200, seed=2)
    random_ = random.Random(3)
    mixed = [random_.choice(SPECIAL).join(random_.sample(texts, random_.randrange(1, 6))) for _ in range(300)]
    mixed += ["<|endoftext|>" * 50, "<|endoftext|", "<<s>>", "<s></s>", " <s> </s> "]
    assert_equal(library, ours, mixed)


def test_megabytes_without_a_break_are_one_word_and_still_equal(beside) -> None:
    library, ours = beside(trained("gpt2"))
    random_ = random.Random(4)
    texts = ["a" * 300_000, "".join(random_.choice("abcdeinorst") for _ in range(200_000)), "中文字" * 20_000]
    assert_equal(library, ours, texts)


POST_PROCESSORS = {
    "none": None,
    "trimming": processors.ByteLevel(trim_offsets=True, add_prefix_space=False),
    "trimming but the first": processors.ByteLevel(trim_offsets=True, add_prefix_space=True),
    "not trimming": processors.ByteLevel(trim_offsets=False),
    "template": processors.TemplateProcessing(
        single="<s> $A </s> </s>", pair="$A $B", special_tokens=[("<s>", 1), ("</s>", 2)]
    ),
    "as llama3": processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]),
        ]
    ),
    "template first": processors.Sequence(
        [
            processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]),
            processors.ByteLevel(trim_offsets=True, add_prefix_space=True),
        ]
    ),
    "as roberta": processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 1), trim_offsets=True, add_prefix_space=False
    ),
    "as bert": processors.BertProcessing(("</s>", 2), ("<s>", 1)),
}


@pytest.mark.parametrize("name", POST_PROCESSORS)
def test_post_processors_put_the_same_around_and_trim_the_same(beside, name) -> None:
    tokenizer = Tokenizer.from_str(trained("gpt2"))
    if POST_PROCESSORS[name] is not None:
        tokenizer.post_processor = POST_PROCESSORS[name]
    library, ours = beside(tokenizer)
    texts = ["", " ", "a", "  two  spaces  ", " first", "\n \n", "é<s> é", "Ġ Ġ", *random_texts(150, seed=5)]
    assert_equal(library, ours, texts)
    assert_offsets_equal(library, ours, [*texts, *islice(real_texts(), 20)])


ADDED_TEXTS = ["<m>", "X", "X X", "Xa", " ", "\n", "é", "中", "Ġ"]
AROUND = [
    "a",
    "X",
    " ",
    "  ",
    "\n",
    "\u3000",
    "\x1c",
    "é",
    "_",
    "1",
    "²",
    "中",
    "<m>",
    "Ⓐ",
    "\u0301",
    ".",
    "Ġ",
]


@given(st.data())
@tried(60)
def test_added_tokens_with_any_flags_are_found_as_by_the_library(tmp_path_factory, data) -> None:
    tokenizer = Tokenizer.from_str(trained("gpt2", 400))  # small, since each example opens it twice
    flags = st.booleans()
    for text in data.draw(st.lists(st.sampled_from(ADDED_TEXTS), max_size=5, unique=True), "added"):
        single_word, lstrip, rstrip, normalized = (data.draw(flags) for _ in range(4))
        if text.isspace():
            lstrip = rstrip = False  # the library itself fails when such tokens take whitespace along
        token = AddedToken(text, single_word=single_word, lstrip=lstrip, rstrip=rstrip, normalized=normalized)
        if data.draw(flags):
            tokenizer.add_special_tokens([token])
        else:
            tokenizer.add_tokens([token])
    folder = tmp_path_factory.mktemp("added")
    tokenizer.save(str(folder / "tokenizer.json"))
    ours = krill.tokenizer.load(folder, memory="100MB", threads=1)
    assert ours.native
    texts = data.draw(
        st.lists(st.lists(st.sampled_from(AROUND), max_size=12).map("".join), min_size=1, max_size=8)
    )
    assert_offsets_equal(tokenizer, ours, texts)
    ids = tokenizer.encode("".join(texts)).ids
    for skip in (False, True):
        assert ours.decode(ids, skip) == tokenizer.decode(ids, skip_special_tokens=skip)


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("second", [False, True])
def test_tokens_that_are_not_normalized_are_found_before_the_others(beside, first, second) -> None:
    tokenizer = Tokenizer.from_str(trained("gpt2"))
    tokenizer.add_tokens([AddedToken("XY", normalized=first), AddedToken("YZZ", normalized=second)])
    library, ours = beside(tokenizer)
    assert_offsets_equal(library, ours, ["XYZZ", "aXYZZYZZ", "XYXY ZZ", "YZZXYZZ"])


@pytest.mark.parametrize("step", [10, pytest.param(1, marks=pytest.mark.soak)])
def test_word_characters_beside_a_token_are_the_librarys_on_all_planes_in_use(beside, step) -> None:
    """Of the two planes of ideographs alone a tenth; `make soak` takes all."""
    tokenizer = Tokenizer.from_str(trained("gpt2"))
    tokenizer.add_tokens([AddedToken("<x>", single_word=True, normalized=False)])
    library, ours = beside(tokenizer)
    # Beyond the planes in use nothing is assigned: there a few of each thousand are enough.
    planes = [*range(0xD800), *range(0xE000, 0x20000), *range(0x20000, 0x34000, step)]
    points = [*planes, *range(0x34000, 0x110000, 311), *range(0xE0000, 0xE0200)]
    for start in range(0, len(points), 50_000):
        text = "".join(f"<x>{chr(point)} " for point in points[start : start + 50_000])
        assert ours.encode(text).tolist() == library.encode(text).ids


def handmade(merges: list[tuple[str, str]], others: list[str], **model) -> str:
    """A tokenizer of exactly these merges and of some other tokens; its ids have holes."""
    tokens = list(dict.fromkeys([*others, *(left + right for left, right in merges)]))
    return json.dumps(
        {
            "version": "1.0",
            "added_tokens": [],
            "normalizer": None,
            "pre_tokenizer": pre_tokenizer("gpt2"),
            "post_processor": None,
            "decoder": {
                "type": "ByteLevel",
                "add_prefix_space": True,
                "trim_offsets": True,
                "use_regex": True,
            },
            "model": {
                "type": "BPE",
                "vocab": {token: 3 * number + 1 for number, token in enumerate(tokens)},
                "merges": [list(merge) for merge in merges],
                **model,
            },
        }
    )


@st.composite
def merge_lists(draw, letters: str) -> list[tuple[str, str]]:
    """Merges of what is there already, several ways to one token included, in any order, some twice."""
    tokens = [*letters]
    merges = []
    for _ in range(draw(st.integers(0, 14))):
        left, right = draw(st.sampled_from(tokens)), draw(st.sampled_from(tokens))
        merges.append((left, right))
        tokens.append(left + right)
    merges += [
        (token[:cut], token[cut:])
        for token in tokens
        for cut in range(1, len(token))
        if token[:cut] in tokens and token[cut:] in tokens and draw(st.booleans())
    ]
    return draw(st.permutations(merges))


@given(
    merge_lists("abĠ"),
    st.lists(st.text("abĠ", min_size=2, max_size=4), max_size=6),
    st.lists(st.text("abc ", max_size=90) | st.text("ab ", max_size=5), min_size=1, max_size=8),
    st.booleans(),
)
@tried(80)
def test_any_merges_in_any_order_give_the_librarys_ids(
    tmp_path_factory, merges, whole, texts, ignore_merges
) -> None:
    # `c` has no token: the library leaves it out, and merges across it. No merge makes the `whole` tokens.
    content = handmade(merges, [*"abĠ", *whole], ignore_merges=ignore_merges)
    file = tmp_path_factory.mktemp("handmade") / "tokenizer.json"
    file.write_text(content)
    library = Tokenizer.from_str(content)
    ours = krill.tokenizer.load(file, memory="100MB", threads=1)
    assert ours.native and ours.vocab_size == max(library.get_vocab().values()) + 1
    assert_equal(library, ours, texts)
    assert_offsets_equal(library, ours, [*texts, "é ab\u3000cab"])


def test_both_ways_to_write_merges_mean_the_same(beside) -> None:
    merges = [("a", "b"), ("ab", "c"), ("Ġ", "abc")]
    as_pairs = handmade(merges, [*"abcĠ"])
    written = json.loads(as_pairs)
    written["model"]["merges"] = ["#version: 0.2", *(" ".join(merge) for merge in merges)]
    library, ours = beside(json.dumps(written))
    assert_equal(library, ours, ["abc abc ab", "cab"])
    _, other = beside(as_pairs)
    assert other.encode("abc abc ab").tolist() == ours.encode("abc abc ab").tolist()


@pytest.fixture(scope="module")
def o200k(tmp_path_factory) -> tuple[Tokenizer, krill.tokenizer.Tokenizer]:
    """The library's tokenizer and ours, once for all examples."""
    file = tmp_path_factory.mktemp("o200k") / "tokenizer.json"
    file.write_text(trained("o200k"), encoding="utf-8")
    ours = krill.tokenizer.load(file, memory="100MB", threads=1)
    return Tokenizer.from_file(str(file)), ours


@given(st.lists(st.integers(0, 1999), max_size=40), st.booleans())
def test_any_ids_decode_to_the_librarys_text(o200k, ids, skip) -> None:
    library, ours = o200k
    assert ours.decode(np.array(ids, np.uint16), skip) == library.decode(ids, skip_special_tokens=skip)


def test_without_a_decoder_text_is_the_librarys_too(beside) -> None:
    written = json.loads(trained("gpt2"))
    written["decoder"] = None
    library, ours = beside(json.dumps(written))
    ids = library.encode("some text, decoded").ids
    assert ours.decode(ids) == library.decode(ids, skip_special_tokens=False)


def test_added_tokens_beyond_the_vocabulary_get_the_librarys_ids(beside) -> None:
    written = json.loads(trained("gpt2"))
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    for number, content in [(7000, "<far>"), (2000, "<near>"), (5, "<s>")]:
        written["added_tokens"].append({"id": number, "content": content, **flags})
    library, ours = beside(json.dumps(written))
    assert_equal(library, ours, ["<far><near><s>", "a<near>b"])
    assert ours.vocab_size == 2002
