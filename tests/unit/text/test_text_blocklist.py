"""Block lists drop what a pattern is found in; one that can't be used is told before anything is read."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from krill.config import filters
from krill.corpus.documents import Documents
from krill.errors import ConfigError, InputError
from krill.text.blocklist import READING_BYTES, BlockListFilter, blocklist_bytes
from properties import tried


def documents_of(texts: list[str]) -> Documents:
    columns = [pa.array(texts, pa.large_string()), pa.array(range(len(texts)), pa.uint64())]
    return Documents(pa.RecordBatch.from_arrays(columns, ["text", "position"]), {"too_short": 3}, ())


def kept(step: BlockListFilter, texts: list[str]) -> list[str]:
    return list(step.apply(documents_of(texts)).batch["text"].to_pylist())


def test_documents_with_a_pattern_are_dropped_and_counted() -> None:
    step = BlockListFilter(filters.BlockList(patterns=("lorem ipsum", r"\bcasino\b")))
    result = step.apply(documents_of(["a Casino", "casinos", "Lorem ipsum dolor", "prose"]))
    assert result.batch["text"].to_pylist() == ["casinos", "prose"]
    assert result.counts == {"too_short": 3, "blocklisted": 2}
    assert result.rejected is not None
    assert result.rejected[0]["reason"].to_pylist() == ["blocklisted", "blocklisted"]


def test_case_counts_if_asked() -> None:
    step = BlockListFilter(filters.BlockList(patterns=("Casino",), ignore_case=False))
    assert kept(step, ["a Casino", "a casino"]) == ["a casino"]


def test_a_file_gives_one_pattern_a_line_without_comments_and_empty_lines(tmp_path: Path) -> None:
    file = tmp_path / "block.txt"
    file.write_bytes("\ufeff# spam\n\ncasino\r\n   \n\\#free\nzwei  Wörter".encode())
    step = BlockListFilter(filters.BlockList(patterns=("own",), file=str(file)))
    texts = ["spam", "casino", "#free", "free", "zwei Wörter", "zwei  Wörter", "its own"]
    assert kept(step, texts) == ["spam", "free", "zwei Wörter"]


@given(
    st.lists(
        st.sampled_from(["a", "b+c", "^d", "e$", "f|g", "[h-k]{2}", "(l)m", "ü"]), min_size=1, max_size=5
    ),
    st.lists(st.text("abcdefghijklmü\n", max_size=6), max_size=6),
)
def test_the_step_keeps_what_pythons_search_finds_nothing_in(patterns: list[str], texts: list[str]) -> None:
    step = BlockListFilter(filters.BlockList(patterns=tuple(patterns), ignore_case=False))
    expected = [
        # RE2's `$` is the end of the text alone, which Python writes `\Z`.
        text
        for text in texts
        if not any(re.search(pattern.replace("$", r"\Z"), text) for pattern in patterns)
    ]
    assert kept(step, texts) == expected


def test_hundreds_of_patterns_become_few_searches_that_find_the_same() -> None:
    words = [f"word{number:04}x" for number in range(1000)]
    wild = [f"wild{number:04}.*x" for number in range(300)]
    step = BlockListFilter(filters.BlockList(patterns=(*words, *wild)))
    assert len(step.searches) <= 3 + 4
    assert kept(step, ["word0000x", "word0999x", "word1000x", "wild0000 x", "wild0299 ax", "wild0300x"]) == [
        "word1000x",
        "wild0300x",
    ]


def test_flags_inside_a_pattern_concern_it_alone() -> None:
    step = BlockListFilter(filters.BlockList(patterns=("(?i)loud", "quiet", "(?s)a.b"), ignore_case=False))
    assert kept(step, ["LOUD", "QUIET", "a\nb", "x"]) == ["QUIET", "x"]


def test_a_quotation_that_does_not_end_quotes_no_other_pattern() -> None:
    step = BlockListFilter(filters.BlockList(patterns=("x", r"\Qa.b", "y")))
    assert kept(step, ["xx", "a.b", "acb", "y", "z"]) == ["acb", "z"]


def test_patterns_that_are_too_large_together_are_searched_for_apart() -> None:
    # No two fit into one search, so three are halved twice.
    patterns = tuple(rf"{letter}\pL{{250}}[0-9]" for letter in "abc")
    step = BlockListFilter(filters.BlockList(patterns=patterns))
    assert 1 < len(step.searches) <= len(patterns)
    assert kept(step, ["c" + "é" * 250 + "7", "c" + "é" * 249 + "7"]) == ["c" + "é" * 249 + "7"]


@pytest.mark.parametrize(
    ("pattern", "said"), [("(abc", "missing )"), ("a(?=b)", "(?="), (r"(a)\1", r"\1"), ("x{1001}", "1001")]
)
def test_a_pattern_that_does_not_compile_is_named_with_its_line(
    tmp_path: Path, pattern: str, said: str
) -> None:
    file = tmp_path / "block.txt"
    file.write_text(f"# patterns\nfine\n{pattern}\n")
    with pytest.raises(ConfigError) as caught:
        BlockListFilter(filters.BlockList(file=str(file)))
    assert f"`{pattern}`" in caught.value.message
    assert f"{file}, line 3" in caught.value.message
    assert said in caught.value.message
    assert "RE2" in (caught.value.hint or "")


def test_a_pattern_of_the_config_is_named_with_its_key() -> None:
    with pytest.raises(ConfigError, match=r"`\*a` can't be used: .*\(filters: blocklist: patterns\)"):
        BlockListFilter(filters.BlockList(patterns=("*a",)))


@pytest.mark.parametrize("pattern", ["a*", "|x", "(?:)", "^"])
def test_a_pattern_that_is_found_everywhere_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigError, match="is found in every document"):
        BlockListFilter(filters.BlockList(patterns=(pattern,)))


def test_a_list_without_patterns_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "empty.txt"
    file.write_text("# nothing yet\n\n")
    with pytest.raises(ConfigError, match="has no pattern"):
        BlockListFilter(filters.BlockList(file=str(file)))


def test_a_file_that_is_missing_or_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.txt` can't be read: No such file"):
        BlockListFilter(filters.BlockList(file=str(tmp_path / "none.txt")))
    binary = tmp_path / "binary.txt"
    binary.write_bytes(b"fine\n\xff\xfe")
    with pytest.raises(InputError, match="not UTF-8 at byte 5"):
        BlockListFilter(filters.BlockList(file=str(binary)))


def test_its_fingerprint_changes_with_the_file(tmp_path: Path) -> None:
    file = tmp_path / "block.txt"
    file.write_text("casino\n")
    section = filters.BlockList(file=str(file))
    before = BlockListFilter(section).fingerprint()
    assert BlockListFilter(section).fingerprint() == before
    file.write_text("casinos\n")
    assert BlockListFilter(section).fingerprint() != before


def test_an_empty_batch_stays_empty() -> None:
    assert kept(BlockListFilter(filters.BlockList(patterns=("a",))), []) == []


LETTERS = st.text("aAbBkKsS \u212a\u017féÉ.!", min_size=1, max_size=5)


@tried(200)
@given(st.lists(LETTERS, min_size=1, max_size=30), st.lists(LETTERS, max_size=20), st.booleans())
def test_literal_patterns_are_found_where_re2_finds_them(
    patterns: list[str], texts: list[str], ignore_case: bool
) -> None:
    native = BlockListFilter(filters.BlockList(patterns=tuple(patterns), ignore_case=ignore_case))
    grouped = tuple(f"(?:{pattern})" for pattern in patterns)
    by_re2 = BlockListFilter(filters.BlockList(patterns=grouped, ignore_case=ignore_case))
    assert len(by_re2.searches) > 0
    assert kept(native, texts) == kept(by_re2, texts)


def test_a_million_words_are_one_search_in_little_more_than_their_bytes(tmp_path: Path) -> None:
    file = tmp_path / "block.txt"
    file.write_text("".join(f"bad{number:x} phrase\r\n" for number in range(100_000)))
    section = filters.BlockList(file=str(file))
    step = BlockListFilter(section)
    assert step.searches == ()
    characters = sum(len(f"bad{number:x} phrase") for number in range(100_000))
    assert blocklist_bytes(section) == READING_BYTES + characters + 12 * 100_000
    assert kept(step, ["a BAD1869f Phrase", "bad186a0 phrase", "bad1869f  phrase"]) == [
        "bad186a0 phrase",
        "bad1869f  phrase",
    ]


def test_a_line_that_never_ends_is_named_before_it_is_read(tmp_path: Path) -> None:
    file = tmp_path / "block.txt"
    file.write_text("word\n" + "x" * 3_000_000)
    with pytest.raises(ConfigError, match=r"has more than 1,000,000 characters \(.*, line 2\)"):
        BlockListFilter(filters.BlockList(file=str(file)))
