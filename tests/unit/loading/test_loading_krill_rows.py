"""Rows of Krill's own datasets: what was written comes back, and what is broken is named."""

from __future__ import annotations

import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loading_samples import SampleRows, write_rows

from krill.dataset import Dataset, Layout, SourceRows
from krill.dataset.layout import TOKEN_DTYPES
from krill.dataset.reader import ShardReader
from krill.errors import InputError
from krill.loading.dataset import open_krill_rows


def numbers(*rows: int) -> np.ndarray:
    return np.array(rows, np.int64)


def assert_rows(source: ShardReader, rows: SampleRows, asked: list[int]) -> None:
    found, expected = source.read(numbers(*asked)), rows.batch(asked)
    assert found.tokens.dtype == rows.layout.dtype
    for name in ("tokens", "offsets", "seq_lengths", "seq_offsets"):
        assert getattr(found, name).tolist() == getattr(expected, name).tolist(), name


@settings(max_examples=40)
@given(st.data())
def test_any_rows_in_any_order_are_those_written_and_those_of_the_dataset_class(tmp_path_factory, data):
    layout = Layout(
        data.draw(st.integers(1, 9)),
        data.draw(st.sampled_from(TOKEN_DTYPES)),
        data.draw(st.integers(1, 5)),
        fixed=data.draw(st.booleans()),
    )
    rows = SampleRows(layout, data.draw(st.integers(1, 30)), data.draw(st.integers(0, 99)))
    folder = write_rows(tmp_path_factory.mktemp("rows"), rows, data.draw(st.integers(1, 12)))
    source = open_krill_rows(
        folder,
        cache_bytes=data.draw(st.sampled_from([0, 500, 10**6])),
        mapped_bytes=data.draw(st.sampled_from([0, 10**6])),
    )
    with Dataset(folder) as dataset:
        for _ in range(3):
            asked = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=12))
            assert_rows(source, rows, asked)
            found, expected = source.read(numbers(*asked)), dataset[asked]
            assert found.tokens.tolist() == [token for row in expected["input_ids"] for token in row]
            assert found.seq_lengths.tolist() == [n for row in expected["seq_lengths"] for n in row]


def test_it_says_what_it_is(tmp_path):
    rows = SampleRows(Layout(8, "uint16", 4, fixed=False), 21)
    source = open_krill_rows(write_rows(tmp_path, rows, 10))
    assert (source.rows, source.width, source.fixed, source.block_rows) == (21, 8, False, 4)
    assert source.tokens == sum(len(rows.tokens(row)) for row in range(21))
    assert source.dtype == np.uint16
    assert source.name == str(tmp_path)


def test_what_is_remembered_stays_inside_its_bytes(tmp_path):
    rows = SampleRows(Layout(8, "uint16", 1), 200)
    source = open_krill_rows(write_rows(tmp_path, rows, 200), cache_bytes=2000)
    for row in range(200):
        source.read(numbers(row))
        assert source.native().cached_bytes <= 2000
    assert source.native().cached_bytes > 1000


def test_threads_read_the_same_rows(tmp_path):
    rows = SampleRows(Layout(8, "uint16", 4), 200)
    source = open_krill_rows(write_rows(tmp_path, rows, 11), cache_bytes=1000)
    asked = np.random.default_rng(0).integers(0, 200, (300, 8))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda some: source.read(some).tokens.reshape(8, 8).tolist(), asked))
    assert found == [[rows.tokens(row) for row in some] for some in asked.tolist()]


def test_more_shards_than_descriptors(tmp_path):
    rows = SampleRows(Layout(2, "uint16", 1), 270)
    source = open_krill_rows(write_rows(tmp_path, rows, 1))
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(2):
        assert_rows(source, rows, list(range(270)))
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 256
    source.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_pickled_source_opens_the_files_again(tmp_path):
    rows = SampleRows(Layout(8, "uint16", 4), 21)
    source = open_krill_rows(write_rows(tmp_path, rows, 10))
    source.read(numbers(3))
    copy = pickle.loads(pickle.dumps(source))
    assert_rows(copy, rows, [20, 0, 7])
    assert copy.fingerprint == source.fingerprint


def test_a_child_of_a_fork_reads_with_a_reader_of_its_own(tmp_path):
    rows = SampleRows(Layout(8, "uint16", 4), 21)
    source = open_krill_rows(write_rows(tmp_path, rows, 10))
    parents = source.native()
    child = os.fork()
    if child == 0:
        good = source.native() is not parents and source.read(numbers(20)).tokens.tolist() == rows.tokens(20)
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert source.native() is parents


@pytest.mark.parametrize(
    "harm, problem", [(Path.unlink, "is missing"), (lambda p: os.truncate(p, 9), "is truncated")]
)
def test_a_missing_or_torn_shard_is_named_when_the_dataset_is_opened(tmp_path, harm, problem):
    write_rows(tmp_path, SampleRows(Layout(8, "uint16", 4), 21), 10)
    harm(tmp_path / "data-00001.arrow")
    with pytest.raises(InputError, match=rf"data-00001\.arrow` {problem}") as caught:
        open_krill_rows(tmp_path)
    assert "skip" in (caught.value.hint or "")


def test_a_shard_that_goes_missing_later_is_named_too(tmp_path):
    source = open_krill_rows(write_rows(tmp_path, SampleRows(Layout(8, "uint16", 4), 21), 10))
    (tmp_path / "data-00002.arrow").unlink()
    with pytest.raises(InputError, match=r"data-00002\.arrow` is missing, but the manifest names it"):
        source.read(numbers(0, 20))


def test_missing_shards_are_left_out_and_counted_if_asked(tmp_path):
    rows = SampleRows(Layout(8, "uint16", 4), 25)
    whole = open_krill_rows(write_rows(tmp_path, rows, 10))
    (tmp_path / "data-00001.arrow").unlink()
    source = open_krill_rows(tmp_path, on_missing="skip")
    assert (source.rows, source.skipped_rows, source.tokens) == (15, 10, 15 * 8)
    assert source.fingerprint != whole.fingerprint
    there = [*range(10), *range(20, 25)]
    found = source.read(np.arange(15)).tokens.reshape(15, 8).tolist()
    assert found == [rows.tokens(row) for row in there]


def test_the_rows_of_weighted_sources_move_up_when_shards_are_left_out(tmp_path):
    sources = (SourceRows(0, 2.0, 0, 20, 160), SourceRows(1, 1.0, 20, 10, 80))
    write_rows(tmp_path, SampleRows(Layout(8, "uint16", 4), 30), 10, sources)
    (tmp_path / "data-00000.arrow").unlink()
    found = open_krill_rows(tmp_path, on_missing="skip").sources
    assert found == (replace(sources[0], rows=10, tokens=80), replace(sources[1], first=10))


def test_a_flipped_bit_is_found_when_verification_is_on(tmp_path):
    rows = SampleRows(Layout(8, "uint16", 4), 21)
    write_rows(tmp_path, rows, 10)
    path = tmp_path / "data-00001.arrow"
    content = bytearray(path.read_bytes())
    place = content.rindex(np.array(rows.tokens(19), np.uint16).tobytes())
    content[place] ^= 1
    path.write_bytes(content)
    assert open_krill_rows(tmp_path).read(numbers(19)).tokens.tolist() != rows.tokens(19)
    careful = open_krill_rows(tmp_path, verify=True)
    assert_rows(careful, rows, [0, 20])
    with pytest.raises(InputError, match=r"data-00001\.arrow` has the checksum [0-9a-f]+"):
        careful.read(numbers(10))


def test_only_a_dataset_that_is_small_enough_is_mapped_and_only_where_it_was_opened(tmp_path):
    rows = SampleRows(Layout(8, "uint16", 4), 21)
    write_rows(tmp_path, rows, 10)
    size = sum(path.stat().st_size for path in tmp_path.glob("*.arrow"))
    small, large = (
        open_krill_rows(tmp_path, mapped_bytes=size),
        open_krill_rows(tmp_path, mapped_bytes=size - 1),
    )
    assert small.held_bytes == large.held_bytes + size
    assert pickle.loads(pickle.dumps(small)).held_bytes == large.held_bytes
    for source, mapped in ((small, 3), (large, 0), (pickle.loads(pickle.dumps(small)), 0)):
        assert_rows(source, rows, list(range(21)))
        assert Path("/proc/self/maps").read_text().count(f"{tmp_path}/data-") == mapped
        source.close()


@pytest.mark.parametrize("fixed", [True, False])
def test_a_damaged_header_is_an_input_error_or_harmless(tmp_path, fixed):
    rows = SampleRows(Layout(8, "uint16", 4, fixed=fixed), 8)
    write_rows(tmp_path, rows, 8)
    start = open_krill_rows(tmp_path).batch_offsets[1]
    path = tmp_path / "data-00000.arrow"
    whole = path.read_bytes()
    named = 0
    for place in range(start, start + 300):
        content = bytearray(whole)
        content[place] ^= 0xFF
        path.write_bytes(content)
        try:
            open_krill_rows(tmp_path).read(numbers(0, 5, 7))
        except InputError as error:
            assert f"is damaged at record batch 1 (byte {start})" in error.message
            named += 1
    assert named > 50


def test_the_manifest_of_a_huge_dataset_makes_a_small_table(tmp_path):
    source = open_krill_rows(write_rows(tmp_path, SampleRows(Layout(8, "uint16", 1), 1000), 100))
    assert source.held_bytes == 8_000_000 + 2 * 8 * 1000 + 10 * 1000
