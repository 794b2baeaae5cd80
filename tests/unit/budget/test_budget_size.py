import pytest
from hypothesis import given
from hypothesis import strategies as st

from krill.budget import format_size, parse_size
from krill.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512MB", 512_000_000),
        ("2GiB", 2 * 2**30),
        ("1.5 GB", 1_500_000_000),
        ("0.1GB", 100_000_000),
        ("64kib", 65536),
        (" 3 tb ", 3 * 10**12),
        ("17", 17),
        ("17B", 17),
        (4096, 4096),
    ],
)
def test_sizes_are_read_as_people_write_them(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "MB", "-1MB", "1,5GB", "5 parsecs", "1e3MB", "\u0661MB", True, -1, 1.5, None]
)
def test_what_is_not_a_size_is_an_error_that_shows_it(text):
    with pytest.raises(ConfigError) as caught:
        parse_size(text, name="memory")
    assert f"memory: `{text}` is not a size" in str(caught.value)
    assert "512MB" in (caught.value.hint or "")
    assert caught.value.exit_code == 2


@given(st.integers(0, 9 * 10**14))
def test_formatted_sizes_parse_back_within_rounding(size):
    assert abs(parse_size(format_size(size)) - size) <= max(1, size * 0.006)


def test_sizes_for_people_have_three_figures():
    assert [format_size(n) for n in (0, 999, 1000, 256_000_000, 1_234_567, 99_950_000, 12_340_000_000)] == [
        "0 B",
        "999 B",
        "1.00 kB",
        "256 MB",
        "1.23 MB",
        "100 MB",
        "12.3 GB",
    ]
