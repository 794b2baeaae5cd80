"""Record boundaries: whatever the separator and the cuts, each record is in exactly one piece."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from krill.corpus.byte_files import Boundaries, next_boundary

# Few letters, so that separators overlap themselves and each other all the time.
_TEXT = st.lists(st.sampled_from([b"a", b"b", b"ab", b"\n"]), max_size=60).map(b"".join)
_SEPARATOR = st.lists(st.sampled_from([b"a", b"b", b"\n"]), min_size=1, max_size=4).map(b"".join)


def _record_ends(text: bytes, separator: bytes) -> list[int]:
    """Where separators end that are matched from left to right without overlap, and the end of the text."""
    ends, at = [], text.find(separator)
    while at >= 0:
        ends.append(at + len(separator))
        at = text.find(separator, ends[-1])
    return [*ends, len(text)]


@given(_TEXT, _SEPARATOR, st.integers(1, 12))
@example(b"\n" * 40, b"\n\n", 7)
@example(b"abababab", b"abab", 3)
def test_the_boundaries_of_a_grid_are_ends_of_records_and_never_fall(
    text: bytes, separator: bytes, step: int
) -> None:
    boundaries = Boundaries(separator)
    found = [
        next_boundary(boundaries, lambda low, high: text[low:high], line, start=0, stop=len(text))
        for line in range(0, len(text) + step, step)
    ]
    assert set(found) <= {0, *_record_ends(text, separator)}
    assert found == sorted(found)


@given(_TEXT, _SEPARATOR)
def test_separators_that_do_not_overlap_give_every_border(text: bytes, separator: bytes) -> None:
    boundaries = Boundaries(separator)
    if boundaries.overlaps_itself:
        return
    ends = _record_ends(text, separator)
    for offset in range(1, len(text) + 1):
        expected = next(end for end in ends if end >= offset)
        found = next_boundary(boundaries, lambda low, high: text[low:high], offset, start=0, stop=len(text))
        assert found == expected


@given(_TEXT, _SEPARATOR)
@example(b"\n" * 200, b"\n\n")
def test_the_last_border_of_a_buffer_is_the_end_of_a_record(text: bytes, separator: bytes) -> None:
    found = Boundaries(separator).last_end(text, anchored=True)
    ends = _record_ends(text, separator)[:-1]
    assert found in ends if ends else found == -1


@given(_TEXT, _TEXT, _SEPARATOR)
def test_the_last_border_is_right_also_if_the_buffer_begins_anywhere(
    before: bytes, text: bytes, separator: bytes
) -> None:
    found = Boundaries(separator).last_end(text, anchored=False)
    assert found == -1 or len(before) + found in _record_ends(before + text, separator)


@given(_TEXT, _SEPARATOR, st.integers(0, 70))
@example(b"\n" * 40, b"\n\n", 3)
def test_a_certain_border_is_behind_a_separator_that_no_other_overlaps(
    text: bytes, separator: bytes, begin: int
) -> None:
    size = len(separator)
    starts = [at for at in range(len(text)) if text.startswith(separator, at)]
    alone = [at for at in starts if not any(at - size < other < at for other in starts)]
    expected = next((at + size for at in alone if at >= begin), -1)
    # Those before `begin` are seen as far as they reach.
    assert Boundaries(separator).next_certain(text, begin) == expected


@given(_SEPARATOR)
def test_a_separator_overlaps_itself_if_it_ends_as_it_begins(separator: bytes) -> None:
    expected = any(separator.startswith(separator[at:]) for at in range(1, len(separator)))
    assert Boundaries(separator).overlaps_itself == expected


def test_an_empty_separator_has_no_boundaries() -> None:
    boundaries = Boundaries(b"")
    assert boundaries.last_end(b"abc", anchored=True) == -1
    assert boundaries.first_end(b"abc") == -1
    assert next_boundary(boundaries, lambda low, high: b"", 1, start=0, stop=3) == 3
