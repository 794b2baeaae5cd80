"""Blocks of plain text: however a file is cut, its words are those of the whole."""

from __future__ import annotations

import gzip
import re
from itertools import pairwise
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from krill import _native
from krill.corpus import DatasetSource, open_corpus
from krill.errors import BudgetError, InputError
from krill.tokenizer import text_blocks
from krill.tokenizer.patterns import PATTERNS
from krill.tokenizer.text_blocks import SplitPoints, TextBlock, stream_texts
from properties import tried

FRAGMENTS = [
    *(b"a", b"b ", b" c", b"word", b"It's", b"'", b"1", b"23", b".", b"-", b"_", b"/"),
    *(b"\n", b"\r\n", b"\r", b"\t", b"  ", b"\n\n", "\u3000".encode(), "\u2028".encode()),
    *("語".encode(), "語。".encode(), "é".encode(), "e\u0301".encode(), "ß".encode(), "٣".encode()),
    *("😀".encode(), "ǅ".encode(), b"\xff", b"\xc3", b"\xe8\xaa", b"\x80"),
    *(b"<s>", b"<s", b"s>", b"<a b>", b"<a", b" b>", b"\n<end>\n", b"x" * 40, "語".encode() * 20),
]
TEXTS = st.lists(st.sampled_from(FRAGMENTS), max_size=60).map(b"".join)
BOUNDARIES = st.sampled_from(
    [(), (b"<s>",), (b"<a b>", b"<s>", b"\n<end>\n"), (b" ",), (b"aa", b"aaa"), (b"word b",)]
)


def local_file(folder, text):
    (folder / "text.txt").write_bytes(text)
    return found(folder / "text.txt")


def streamed_file(folder, text):
    (folder / "text.txt.gz").write_bytes(gzip.compress(text, 1))
    return found(folder / "text.txt.gz")


def found(path):
    [file] = open_corpus(
        [DatasetSource(str(path))],
        unit_bytes=1 << 20,
        max_document_bytes=1 << 20,
        drop_oversize=False,
        skip_malformed=False,
        default_separator="",
        batch_rows=None,
    ).files
    return file


def local_blocks(file, cuts, step, window=text_blocks.WINDOW_BYTES):
    """What each block of `step` bytes reads, when so much is read around a place at first."""
    blocks = [TextBlock(file, at, min(file.bytes, at + step), cuts) for at in range(0, file.bytes, step)]
    with mock.patch.object(text_blocks, "WINDOW_BYTES", window):
        return [block.read() for block in blocks]


def streamed_blocks(file, cuts, step, chunk, start=0):
    """The blocks when so much is read at once."""
    with mock.patch.object(text_blocks, "CHUNK_BYTES", chunk):
        return list(stream_texts(file, cuts, step, start))


def words_of(text, pattern, boundaries):
    """The words of a text, special tokens cut out of it: the leftmost, and of these the longest."""
    longest_first = sorted(boundaries, key=len, reverse=True)
    pieces = re.split(b"|".join(map(re.escape, longest_first)), text) if boundaries else [text]
    words = []
    for piece in pieces:
        ends = [0, *_native.scan_words(piece, pattern).tolist()]
        words += [piece[start:end] for start, end in pairwise(ends)]
    return words


def check_blocks(blocks, text, boundaries):
    """All of the text, in order, and every pattern's words."""
    assert b"".join(blocks) == text
    for pattern in PATTERNS:
        words = [word for block in blocks for word in words_of(block, pattern, boundaries)]
        assert words == words_of(text, pattern, boundaries)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """For examples, of which each writes over what another left."""
    return tmp_path_factory.mktemp("examples")


# ---- any cut, the same words


@tried(100)
@given(
    text=TEXTS.filter(len),
    boundaries=BOUNDARIES,
    step=st.integers(1, 50),
    window=st.sampled_from([1, 3, 20, 4096]),
)
def test_any_blocks_of_a_local_file_have_the_words_of_the_whole(folder, text, boundaries, step, window):
    check_blocks(
        local_blocks(local_file(folder, text), SplitPoints(boundaries), step, window), text, boundaries
    )


@tried(80)
@given(text=TEXTS, boundaries=BOUNDARIES, step=st.integers(1, 50), chunk=st.sampled_from([3, 10, 40, 1000]))
def test_any_blocks_of_a_stream_have_the_words_of_the_whole(folder, text, boundaries, step, chunk):
    file = streamed_file(
        folder, b"\n" + text
    )  # the first bytes are looked at as a whole, for a byte-order mark
    check_blocks(streamed_blocks(file, SplitPoints(boundaries), step, chunk), b"\n" + text, boundaries)


def test_a_stream_continues_wherever_a_block_began(folder):
    text = "Some words, 語と語。 <s>and more\r\n".encode() * 9
    file, cuts = streamed_file(folder, text), SplitPoints((b"<s>",))
    start = 0
    for block in streamed_blocks(file, cuts, 20, 16):
        rest = streamed_blocks(file, cuts, 20, 16, start)
        check_blocks(rest, text[start:], (b"<s>",))
        start += len(block)
    assert start == len(text)


LONG = {
    "one word of a megabyte": b"x" * 10**6,
    "a megabyte of letters without spaces": "語".encode() * 333_333,
    "a megabyte that is not UTF-8": b"\xff" * 10**6,
    "a megabyte of spaces": b" " * 10**6,
    "a megabyte of line ends": b"\r\n" * 500_000,
}


@pytest.mark.parametrize("middle", LONG.values(), ids=LONG)
def test_what_can_not_be_cut_comes_as_one_block(tmp_path, middle):
    step = 80_000
    text = b"Before it, " * 10_000 + middle + b" and, after it." * 10_000
    for blocks in (
        local_blocks(local_file(tmp_path, text), SplitPoints(()), step),
        streamed_blocks(streamed_file(tmp_path, text), SplitPoints(()), step, 10_000),
    ):
        assert b"".join(blocks) == text
        assert max(map(len, blocks)) >= 10**6
        assert max(map(len, blocks)) <= 10**6 + 2 * step


def test_letters_without_spaces_are_cut_at_their_punctuation(tmp_path):
    text = "これは語である。".encode() * 2_000
    blocks = local_blocks(local_file(tmp_path, text), SplitPoints(()), 1_000)
    assert max(map(len, blocks)) <= 1_000 + len("これは語である。".encode())
    check_blocks(blocks, text, ())


@pytest.mark.parametrize("token", [b"<|end of text|>", b"a b", b" \n ", b"x" * 300 + b" y"])
@pytest.mark.parametrize("step", [3, 10, 200])
def test_no_border_falls_into_a_special_token(tmp_path, token, step):
    text = (b"word " * 3 + token) * 40 + b"word"
    for blocks in (
        local_blocks(local_file(tmp_path, text), SplitPoints((token,)), step),
        streamed_blocks(streamed_file(tmp_path, text), SplitPoints((token,)), step, 512),
    ):
        assert len(blocks) > 1
        assert sum(block.count(token) for block in blocks) == 40
        check_blocks(blocks, text, (token,))


def test_where_special_tokens_could_begin_everywhere_there_is_no_cut(tmp_path):
    text = b"word " * 40 + b"word"
    for token in (b"word word", b"d w"):
        assert set(local_blocks(local_file(tmp_path, text), SplitPoints((token,)), 10)) <= {text, b""}


# ---- lines


def lines_of(text):
    return [line for line in re.findall(rb"[^\n]*\n|[^\n]+", text) if line]


@tried(60)
@given(text=TEXTS.filter(len), step=st.integers(1, 50), chunk=st.sampled_from([3, 20]))
def test_any_blocks_have_the_words_of_all_lines(folder, text, step, chunk):
    text = b"\n" + text
    for blocks in (
        local_blocks(local_file(folder, text), SplitPoints((), lines=True), step),
        streamed_blocks(streamed_file(folder, text), SplitPoints((), lines=True), step, chunk),
    ):
        assert b"".join(blocks) == text
        for pattern in PATTERNS:
            words = [
                word for block in blocks for line in lines_of(block) for word in words_of(line, pattern, ())
            ]
            assert words == [word for line in lines_of(text) for word in words_of(line, pattern, ())]


def test_lines_are_cut_where_no_pattern_has_a_border(tmp_path):
    text = b"--------\n" * 1_000
    for lines, most in ((True, 100), (False, len(text))):
        cuts = SplitPoints((), lines=lines)
        assert max(map(len, local_blocks(local_file(tmp_path, text), cuts, 90))) <= most
        blocks = streamed_blocks(streamed_file(tmp_path, text), cuts, 90, 50)
        assert b"".join(blocks) == text
        assert (len(blocks) > 1) is lines


# ---- patterns that Krill doesn't know


def pieces_of(text: bytes, boundaries: tuple[bytes, ...], lines: bool) -> list[bytes]:
    """What an unknown pattern is given: the text between special tokens, or the lines of it."""
    pieces, start = [], 0
    starts, ends, _ = _native.find_tokens(text, list(boundaries))
    for left, right in [*zip(starts.tolist(), ends.tolist(), strict=True), (len(text), len(text))]:
        piece = text[start:left]
        pieces += re.findall(rb"[^\n]*\n|[^\n]+", piece) if lines else [piece]
        start = right
    return [piece for piece in pieces if piece]


@tried(120)
@given(
    text=TEXTS.filter(len),
    boundaries=BOUNDARIES,
    lines=st.booleans(),
    step=st.integers(1, 30),
    chunk=st.sampled_from([3, 20]),
)
def test_other_patterns_are_cut_only_where_a_piece_ends(folder, text, boundaries, lines, step, chunk):
    cuts = SplitPoints(boundaries, any_pattern=True, lines=lines)
    for blocks in (
        local_blocks(local_file(folder, text), cuts, step),
        streamed_blocks(streamed_file(folder, text), cuts, step, chunk),
    ):
        assert b"".join(blocks) == text
        found = [piece for block in blocks for piece in pieces_of(block, boundaries, lines)]
        assert found == pieces_of(text, boundaries, lines)


@pytest.mark.parametrize(
    ("text", "boundaries", "blocks"),
    [
        (b"xabcaby", (b"ab", b"bc"), [b"xabcab", b"y"]),
        (b"xaaay", (b"aa",), [b"xaaay"]),
        (b"<e>b<e>", (b"<e>", b"<e>b"), [b"<e>b", b"<e>"]),
    ],
)
def test_text_is_not_cut_where_special_tokens_overlap(tmp_path, text, boundaries, blocks):
    cuts = SplitPoints(boundaries, any_pattern=True)
    assert list(filter(None, local_blocks(local_file(tmp_path, text), cuts, 1))) == blocks


def test_cuts_after_newlines_are_as_near_as_can_be(tmp_path):
    text = b"0123456789\n" * 20
    cuts = SplitPoints((), any_pattern=True, lines=True)
    assert local_blocks(local_file(tmp_path, text), cuts, 22) == [b"0123456789\n" * 2] * 10


# ---- too much without a cut


@pytest.mark.parametrize("any_pattern", [False, True])
def test_text_without_a_cut_for_longer_than_the_share_is_refused(tmp_path, any_pattern):
    text = b"A line.\n" + b"x" * 300_000 + b"\nAnother line."
    cuts = SplitPoints((), any_pattern=any_pattern, lines=any_pattern, longest=100_000)
    message = r"text\.txt(\.gz)?` has no place to cut it in 100(\.0)? ?kB from byte"
    for blocks in (
        lambda: local_blocks(local_file(tmp_path, text), cuts, 10_000),
        lambda: streamed_blocks(streamed_file(tmp_path, text), cuts, 10_000, 10_000),
    ):
        with pytest.raises(BudgetError, match=message) as caught:
            blocks()
        assert "--memory" in caught.value.hint
        assert "--boundaries lines" in caught.value.hint


def test_text_without_a_cut_up_to_the_share_is_not(tmp_path):
    text = b"A line.\n" + b"x" * 95_000 + b"\nAnother line."
    cuts = SplitPoints((), longest=100_000)
    check_blocks(local_blocks(local_file(tmp_path, text), cuts, 10_000), text, ())
    check_blocks(streamed_blocks(streamed_file(tmp_path, text), cuts, 10_000, 10_000), text, ())


# ---- text that is none


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
@pytest.mark.parametrize("kind", [local_file, streamed_file])
def test_wide_encodings_are_refused_by_name(tmp_path, encoding, kind):
    file = kind(tmp_path, "Some text.".encode(encoding))
    with pytest.raises(InputError, match=encoding.upper()):
        streamed_blocks(file, SplitPoints(()), 10, 10) if file.sequential else local_blocks(
            file, SplitPoints(()), 10
        )
