"""Pages of Parquet by their headers: all are found, and what they hold is told before they are read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpus_reading import corpus_of
from hypothesis import given
from hypothesis import strategies as st

from krill.corpus import DatasetSource
from krill.corpus.parquet_metadata import DICTIONARY_PAGE, NotPages, Page, pages


def _pages(path: Path, column: int) -> list[Page]:
    data = path.read_bytes()
    leaf = pq.ParquetFile(path).metadata.row_group(0).column(column)
    start = leaf.dictionary_page_offset or leaf.data_page_offset
    return list(pages(lambda first, last: data[first:last], start, start + leaf.total_compressed_size))


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize("dictionary", [False, True])
def test_headers_say_what_the_footer_adds_up(
    tmp_path: Path, version: str, compression: str, dictionary: bool
) -> None:
    texts = [f"document {number % 100} " * 50 for number in range(3000)]
    path = tmp_path / "a.parquet"
    settings = {"compression": compression, "use_dictionary": dictionary, "data_page_version": version}
    table = pa.table({"text": texts, "list": [[number, None] for number in range(3000)]})
    pq.write_table(table, path, data_page_size=20_000, **settings)
    for column, values in ((0, 3000), (1, 6000)):
        found = _pages(path, column)
        leaf = pq.ParquetFile(path).metadata.row_group(0).column(column)
        assert sum(page.header + page.stored for page in found) == leaf.total_compressed_size
        assert sum(page.header + page.decoded for page in found) == leaf.total_uncompressed_size
        assert sum(page.values for page in found if page.kind != DICTIONARY_PAGE) == values
        assert [page.kind for page in found].count(DICTIONARY_PAGE) == dictionary
        assert len(found) > 1 + dictionary or dictionary


@given(st.binary(max_size=300))
def test_noise_is_no_page_and_nothing_worse(noise: bytes) -> None:
    try:
        for page in pages(lambda first, last: noise[first:last], 0, len(noise)):
            assert page.header > 0 and page.stored >= 0
    except NotPages:
        pass


def test_a_nested_value_that_decodes_to_more_is_counted_and_one_that_does_not_is_not(tmp_path: Path) -> None:
    long = pa.array([["z" * 1000] * 5000 if row == 5 else [] for row in range(100)])
    short = pa.array([[f"tag {row % 9}", "z" * 1000] for row in range(5000)])
    for name, column in (("long", long), ("short", short)):
        table = pa.table({"text": ["some text"] * len(column), "nest": column})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    sources = [DatasetSource(str(tmp_path / f"{name}.parquet"), columns=("*",)) for name in ("long", "short")]
    held = [corpus_of(source).held_bytes for source in sources]
    assert held[0] == pytest.approx(3 * 5000 * 1000, rel=0.05)
    assert held[1] == 0


def test_dictionaries_of_arrow_files_are_counted(tmp_path: Path) -> None:
    values = [f"{number:08} " * 1000 for number in range(300)]
    table = pa.table({"text": ["some text"] * 300, "source": pa.array(values).dictionary_encode()})
    with pa.ipc.new_file(tmp_path / "a.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=50)
    source = DatasetSource(str(tmp_path / "a.arrow"), columns=("source",))
    assert corpus_of(source).held_bytes == pytest.approx(sum(map(len, values)), rel=0.05)
