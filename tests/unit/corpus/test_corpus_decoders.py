"""Decoders: what they will hold is told by the first bytes of a file, and large windows are read."""

from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path

import pytest
import zstandard
from corpus_reading import texts

from krill.corpus.decoders import decoder_bytes, zstd_window
from krill.corpus.formats import CorpusFile, DatasetSource, recognise
from krill.errors import InputError

MIB = 1 << 20
CONTENT = b"some text " * 400_000


def _file(path: Path, content: bytes) -> CorpusFile:
    path.write_bytes(content)
    format_, compression = recognise(path.name)
    return CorpusFile(0, str(path), str(path), format_, compression, len(content), DatasetSource(""), 0)


def _zstd(window_log: int, *, size: int = -1) -> bytes:
    """Compressed as a stream, whose size is not known when its header is written."""
    settings = zstandard.ZstdCompressionParameters(window_log=window_log, enable_ldm=True)
    writer = zstandard.ZstdCompressor(compression_params=settings).compressobj(size=size)
    return writer.compress(CONTENT) + writer.flush()


@pytest.mark.parametrize("log", [20, 24, 27, 28])
def test_a_frame_of_zstd_says_its_window(tmp_path: Path, log: int) -> None:
    file = _file(tmp_path / "a.txt.zst", _zstd(log))
    assert zstd_window(file) == 1 << log
    assert decoder_bytes(file) == (1 << log) + MIB


def test_content_that_is_known_and_less_than_the_window_is_all_that_is_held(tmp_path: Path) -> None:
    file = _file(tmp_path / "a.txt.zst", _zstd(24, size=len(CONTENT)))
    assert decoder_bytes(file) == len(CONTENT) + MIB


def test_frames_that_are_skipped_come_before_the_one_that_counts(tmp_path: Path) -> None:
    skipped = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"notes"
    assert zstd_window(_file(tmp_path / "a.txt.zst", skipped + _zstd(22))) == 1 << 22


@pytest.mark.parametrize("size", [1 << 16, 3 << 19, 1 << 22])
def test_xz_says_its_dictionary(tmp_path: Path, size: int) -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": size}]
    packed = lzma.compress(CONTENT, filters=filters)
    held = min(size, len(CONTENT)) + MIB
    assert decoder_bytes(_file(tmp_path / "a.txt.xz", packed)) == held
    # The index of the last stream says nothing of the others.
    assert decoder_bytes(_file(tmp_path / "b.txt.xz", packed + packed)) == size + MIB


def test_bz2_holds_what_its_level_says_and_gzip_next_to_nothing(tmp_path: Path) -> None:
    small, large = (
        decoder_bytes(_file(tmp_path / "a.txt.bz2", bz2.compress(b"a", level))) for level in (1, 9)
    )
    assert (small, large) == (500_000 + MIB, 3_700_000 + MIB)
    assert decoder_bytes(_file(tmp_path / "a.txt.gz", gzip.compress(b"a"))) < 2 * MIB


@pytest.mark.parametrize("name", ["a.txt.zst", "a.txt.xz", "a.txt.bz2", "a.txt.gz"])
def test_of_what_is_damaged_nothing_is_known_and_nothing_raised(tmp_path: Path, name: str) -> None:
    for content in (
        b"",
        b"\xfd7zXZ\0",
        b"\x28\xb5\x2f\xfd",
        b"noise" * 20,
        b"\xfd7zXZ\0" + b"\xff" * 90 + b"YZ",
    ):
        assert decoder_bytes(_file(tmp_path / name, content)) <= 5 * MIB


def test_an_index_that_states_more_blocks_than_it_has_bytes_is_not_counted_through(tmp_path: Path) -> None:
    whole = lzma.compress(CONTENT)
    length = (int.from_bytes(whole[-8:-4], "little") + 1) * 4
    index = len(whole) - 12 - length
    endless = whole[: index + 1] + b"\xff" * 8 + b"\x7f" + whole[index + 10 :]
    assert len(endless) == len(whole)
    assert decoder_bytes(_file(tmp_path / "a.txt.xz", endless)) >= decoder_bytes(
        _file(tmp_path / "b.txt.xz", whole)
    )


def test_frames_without_end_that_are_skipped_tell_no_window(tmp_path: Path) -> None:
    skipped = bytes.fromhex("502a4d1800000000")
    assert zstd_window(_file(tmp_path / "a.txt.zst", skipped * 200_000 + _zstd(24))) == 0
    assert texts(tmp_path / "a.txt.zst") == texts(_written(tmp_path / "b.txt", CONTENT))


def _written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_a_window_beyond_128_mib_is_read_also_when_several_frames_follow(tmp_path: Path) -> None:
    packed = _zstd(28)
    path = tmp_path / "a.txt.zst"
    path.write_bytes(packed + _zstd(20) + packed)
    assert "".join(texts(path)) == (CONTENT * 3).decode()


def test_a_long_window_that_is_cut_off_or_damaged_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.zst"
    path.write_bytes(_zstd(28)[:-20])
    with pytest.raises(InputError, match="ends inside a frame"):
        texts(path)
    path.write_bytes(_zstd(28)[:-60] + b"\xff" * 60)
    with pytest.raises(InputError, match="can't read"):
        texts(path)
