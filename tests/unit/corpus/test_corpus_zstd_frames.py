"""Crawls compressed by zstd: damaged frames, frames that are to be skipped, and dictionaries."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from corpus_reading import batches, column, corpus_of, counts
from hypothesis import given
from hypothesis import strategies as st

from krill.corpus import DatasetSource
from krill.corpus.decoders import LARGEST_DICTIONARY, USUAL_WINDOW, decoder_bytes
from krill.corpus.members import Members
from krill.corpus.zstd_frames import ZstdFrames
from krill.errors import InputError
from properties import tried
from web_crawl import response_record, simple_answers, skippable_frame, warc_info

RECORDS = [response_record(answer, number) for number, answer in enumerate(simple_answers(12))]
DICTIONARY = zstandard.train_dictionary(4000, [bytes(record) for record in RECORDS * 20])


def frames(records: list[bytes], **options: object) -> list[bytes]:
    return [zstandard.ZstdCompressor(**options).compress(record) for record in records]  # type: ignore[arg-type]


def write(folder: Path, data: bytes, name: str = "crawl.warc.zst") -> Path:
    (folder / name).write_bytes(data)
    return folder / name


def read(path: Path, *, skip: bool = True) -> tuple[list[int], dict[str, int]]:
    """The numbers of the pages, and what was counted beside them."""
    found = batches(corpus_of(DatasetSource(str(path), columns=("url",)), pages=True, skip_malformed=skip))
    counted = counts(found)
    counted.pop("records", 0)
    return [int(url.rpartition("/")[2]) for url in column(found, "url")], counted


ALL = list(range(12))
THIRD = [number for number in ALL if number != 3]


def in_frame(data: bytes) -> bytes:
    """The content of the block is another."""
    return data[:40] + bytes(byte ^ 0x5A for byte in data[40:60]) + data[60:]


DAMAGE: dict[str, tuple[Callable[[bytes], bytes], list[int], dict[str, int]]] = {
    "content": (in_frame, THIRD, {"warc_corrupt": 1}),
    "its end is missing": (lambda data: data[:-50], THIRD, {"warc_corrupt": 1}),
    "its beginning is missing": (lambda data: data[50:], THIRD, {"warc_corrupt": 1}),
    "its magic number is another": (lambda data: b"abcd" + data[4:], THIRD, {"warc_corrupt": 1}),
    "its checksum is another": (lambda data: data[:-4] + b"????", THIRD, {"warc_corrupt": 1}),
    "bytes before it": (lambda data: b"some bytes" * 20_000 + data, ALL, {"warc_corrupt": 1}),
    "magic numbers before it": (lambda data: ZstdFrames.magic * 3000 + data, ALL, {"warc_corrupt": 1}),
    "a frame to skip before it": (lambda data: skippable_frame(b"?" * 300_000, 7) + data, ALL, {}),
    "an empty frame before it": (lambda data: frames([b""])[0] + data, ALL, {}),
    "a frame of 128 MB before it": (
        lambda data: ZstdFrames.magic + struct.pack("<BB", 0, 17 << 3) + b"\1\0\0" + data,
        ALL,
        {"warc_corrupt": 1},
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_reading_goes_on_at_the_next_frame(tmp_path: Path, damage: str) -> None:
    make, kept, counted = DAMAGE[damage]
    packed = frames([warc_info(), *RECORDS], write_checksum=True)
    packed[4] = make(packed[4])
    path = write(tmp_path, b"".join(packed))
    assert read(path) == (kept, counted)
    if counted:
        with pytest.raises(InputError, match="its zstd frame is damaged"):
            read(path, skip=False)


@pytest.mark.parametrize("cut", [1, 4, 10, 100])
def test_a_cut_file_ends_with_its_last_whole_frame(tmp_path: Path, cut: int) -> None:
    path = write(tmp_path, b"".join(frames(RECORDS))[:-cut])
    assert read(path) == (ALL[:-1], {"warc_cut": 1})
    write(tmp_path, b"".join(frames(RECORDS)) + skippable_frame(b"?" * 100)[:-cut])
    assert read(path) == (ALL, {"warc_cut": 1})


@pytest.mark.parametrize("compressed", [False, True])
def test_a_dictionary_stands_in_the_first_frame(tmp_path: Path, compressed: bool) -> None:
    content = DICTIONARY.as_bytes()
    stored = zstandard.compress(content) if compressed else content
    packed = frames([warc_info(), *RECORDS], dict_data=DICTIONARY)
    path = write(tmp_path, skippable_frame(stored, 0xD) + b"".join(packed))
    assert read(path, skip=False) == (ALL, {})
    without = corpus_of(DatasetSource(str(write(tmp_path, packed[0], "b.warc.zst"))), pages=True)
    with_one = corpus_of(DatasetSource(str(path)), pages=True)
    assert decoder_bytes(with_one.files[0]) - decoder_bytes(without.files[0]) == 2 * LARGEST_DICTIONARY


def test_frames_that_need_a_dictionary_which_is_not_there_are_damaged(tmp_path: Path) -> None:
    packed = frames([warc_info(), *RECORDS], dict_data=DICTIONARY)
    path = write(tmp_path, b"".join(packed))
    with pytest.raises(InputError, match=r"its zstd frame is damaged: .*[Dd]ictionary"):
        read(path, skip=False)
    assert read(path) == ([], {"warc_corrupt": 1})  # none begins with a record


@pytest.mark.parametrize(
    ("frame", "fact"),
    [
        (struct.pack("<II", 0x184D2A5D, 5_000_000) + bytes(100), "has 5,000,000 bytes, more than 4,194,304"),
        (struct.pack("<II", 0x184D2A5D, 500) + bytes(100), "is cut short"),
        (skippable_frame(zstandard.compress(bytes(10**8)), 0xD), "unfolds to more than 4,194,304 bytes"),
        (skippable_frame(ZstdFrames.magic + b"?" * 500, 0xD), "is damaged: "),
        (skippable_frame(b"\x37\xa4\x30\xec" + bytes(9000), 0xD), "is damaged"),
    ],
    ids=["large", "cut", "bomb", "damaged", "nonsense"],
)
def test_a_dictionary_that_can_not_be_used_is_refused(tmp_path: Path, frame: bytes, fact: str) -> None:
    path = write(tmp_path, frame + (b"" if b"cut" in fact.encode() else b"".join(frames(RECORDS))))
    with pytest.raises(InputError, match=f"the dictionary that `.*` begins with {fact}"):
        read(path)


def test_one_large_frame_is_read_with_the_window_that_it_states(tmp_path: Path) -> None:
    window = zstandard.ZstdCompressionParameters.from_level(3, window_log=25, enable_ldm=True)
    compressor = zstandard.ZstdCompressor(compression_params=window).compressobj()
    records = [RECORDS[0], *(response_record(answer) for answer in simple_answers(2)[1:]), RECORDS[2]]
    data = compressor.compress(b"".join(records)) + compressor.flush()
    path = write(tmp_path, data)
    assert read(path, skip=False) == ([0, 1, 2], {})
    assert decoder_bytes(corpus_of(DatasetSource(str(path)), pages=True).files[0]) > 1 << 25
    assert USUAL_WINDOW < 1 << 25


class Dripping:
    """Reads that give less than they were asked for."""

    def __init__(self, data: bytes, most: int) -> None:
        self._data, self._most = data, most

    def read(self, size: int) -> bytes:
        some, self._data = self._data[: min(size, self._most)], self._data[min(size, self._most) :]
        return some


@tried(60)
@given(
    st.lists(st.tuples(st.binary(max_size=300), st.integers(0, 2000)), max_size=5),
    st.sampled_from([1, 7, 1000, 1 << 20]),
    st.booleans(),
    st.sampled_from([1, 3, 19]),
)
def test_frames_unfold_to_what_the_library_says(
    parts: list[tuple[bytes, int]], most: int, checksum: bool, level: int
) -> None:
    contents = [part * times for part, times in parts]
    stored = b"".join(
        zstandard.ZstdCompressor(level=level, write_checksum=checksum).compress(each) for each in contents
    )
    file = corpus_of(DatasetSource(__file__)).files[0]
    pieces = list(Members(Dripping(stored, most), ZstdFrames(file, None), b"").pieces())
    assert b"".join(piece.data for piece in pieces) == b"".join(contents)
    assert [piece.fault for piece in pieces if piece.fault] == []
    assert sum(piece.begins for piece in pieces) == len(contents)
    assert all(len(piece.data) <= 1 << 17 for piece in pieces)
