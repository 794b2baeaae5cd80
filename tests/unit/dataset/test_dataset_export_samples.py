"""MDS and LitData files hold the rows, as readers written from the formats' descriptions find them."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from export_samples import Rows, row_batch, same_samples, samples_of, some_documents, wrapped, write_rows
from hypothesis import given
from hypothesis import strategies as st

from krill.dataset import Layout, validate
from krill.dataset.export import export
from krill.dataset.export.sample_files import LitDataFormat, MdsFormat, SampleFormat, Samples, SampleSink
from krill.errors import ConfigError, InputError
from properties import tried

SEQUENCE_LEN = 32
ROWS = wrapped(some_documents(400), SEQUENCE_LEN)
VARIABLE = [[document[:300]] for document in some_documents(120, longest=400)]
LAYOUTS = {
    "fixed": (ROWS, Layout(SEQUENCE_LEN, "uint16", rows_per_batch=7)),
    "uint32": (ROWS, Layout(SEQUENCE_LEN, "uint32", rows_per_batch=7)),
    "variable": (VARIABLE, Layout(300, "uint16", rows_per_batch=7, fixed=False)),
    "labels": (VARIABLE, Layout(300, "uint16", rows_per_batch=7, fixed=False, labels=True)),
    "mask": (
        VARIABLE,
        Layout(300, "uint16", rows_per_batch=7, fixed=False, labels=True, attention_mask=True),
    ),
}


def items_of(content: bytes) -> list[bytes]:
    """What a file of either format has between its offsets."""
    (count,) = struct.unpack_from("<I", content)
    offsets = struct.unpack_from(f"<{count + 1}I", content, 4)
    assert offsets[-1] == len(content)
    return [content[begin:end] for begin, end in pairwise(offsets)]


def mds_array(data: bytes, encoding: str) -> np.ndarray:
    """An array as the encoding says, or with its length before it."""
    _, dtype, *shape = encoding.split(":")
    if not shape:
        assert data[0] >> 2 == 1
        width = 1 << (data[0] & 3)
        assert (
            int.from_bytes(data[1 : 1 + width], "little") * np.dtype(dtype).itemsize == len(data) - 1 - width
        )
        data = data[1 + width :]
    return np.frombuffer(data, np.dtype(dtype).newbyteorder("<")).astype(dtype)


def read_mds(folder: Path) -> Iterator[dict[str, np.ndarray]]:
    index = json.loads((folder / "index.json").read_bytes())
    assert index["version"] == 2
    for shard in index["shards"]:
        content = (folder / shard["raw_data"]["basename"]).read_bytes()
        assert (len(content), shard["samples"]) == (shard["raw_data"]["bytes"], len(items_of(content)))
        for item in items_of(content):
            varying = shard["column_sizes"].count(None)
            stated = iter(struct.unpack_from(f"<{varying}I", item))
            place, sample = 4 * varying, {}
            columns = zip(
                shard["column_names"], shard["column_encodings"], shard["column_sizes"], strict=True
            )
            for name, encoding, size in columns:
                end = place + (next(stated) if size is None else size)
                sample[name] = mds_array(item[place:end], encoding)
                place = end
            assert place == len(item)
            yield sample


def read_litdata(folder: Path) -> Iterator[dict[str, np.ndarray]]:
    index = json.loads((folder / "index.json").read_bytes())
    numbers = ("i1", "<i2", "<i4", "<i8", "u1", "<u2", "<u4", "<u8")
    dtypes = [numbers[int(form.removeprefix("no_header_numpy:"))] for form in index["config"]["data_format"]]
    names = json.loads(json.loads(index["config"]["data_spec"])[1]["context"])
    for chunk in index["chunks"]:
        content = (folder / chunk["filename"]).read_bytes()
        assert (len(content), chunk["chunk_size"]) == (chunk["chunk_bytes"], len(items_of(content)))
        for item in items_of(content):
            sizes = struct.unpack_from(f"<{len(names)}I", item)
            ends = np.cumsum([4 * len(names), *sizes]).tolist()
            assert ends[-1] == len(item)
            yield {
                name: np.frombuffer(item[begin:end], dtype).astype(np.dtype(dtype).newbyteorder("="))
                for name, dtype, begin, end in zip(names, dtypes, ends[:-1], ends[1:], strict=True)
            }


READERS = {"mds": read_mds, "litdata": read_litdata}


@pytest.mark.parametrize("to", READERS)
@pytest.mark.parametrize("name", LAYOUTS)
def test_samples_are_the_rows_with_their_types(tmp_path: Path, to: Any, name: str) -> None:
    rows, layout = LAYOUTS[name]
    write_rows(tmp_path / "dataset", rows, layout, validation=rows[:9], rows_per_shard=50)
    summary = export(tmp_path / "dataset", to=to, threads=2)
    assert same_samples(READERS[to](summary.output / "train"), samples_of(rows, layout))
    assert same_samples(READERS[to](summary.output / "validation"), samples_of(rows[:9], layout))
    counts = [entry.get("rows") for entry in summary.manifest.extra["files"]]
    assert counts == [len(rows), None, 9, None]
    assert validate(summary.output).rows == len(rows) + 9


def test_chunks_for_the_tokens_loader_are_stretches_of_whole_rows(tmp_path: Path) -> None:
    _, layout = LAYOUTS["fixed"]
    sink = SampleSink(tmp_path, "train", LitDataFormat(layout, only_tokens=True, limit=1000))
    sink.write(sink.prepare(row_batch(ROWS[:40])))
    sink.commit()
    index = json.loads((tmp_path / "train" / "index.json").read_bytes())
    assert index["config"]["item_loader"] == "TokensLoader"
    found = []
    for chunk in index["chunks"]:
        content = (tmp_path / "train" / chunk["filename"]).read_bytes()[4 * (2 + chunk["chunk_size"]) :]
        assert len(content) == 2 * chunk["dim"] <= 1000
        assert chunk["dim"] % SEQUENCE_LEN == 0
        found += np.frombuffer(content, "<u2").tolist()
    assert found == [token for row in ROWS[:40] for piece in row for token in piece]
    assert len(index["chunks"]) == 3


def slow_cuts(form: SampleFormat, sizes: list[int]) -> list[int]:
    """How many samples each file has, one sample at a time."""
    files, counted = [0], form.file_counts
    for size in sizes:
        if files[-1] and counted + size + form.sample_counts > form.limit:
            files.append(0)
            counted = form.file_counts
        files[-1] += 1
        counted += size + form.sample_counts
    return files


@tried(50)
@given(
    st.lists(st.integers(1, 300), min_size=1, max_size=60),
    st.integers(1, 2000),
    st.integers(1, 20),
    st.booleans(),
)
def test_files_end_where_one_more_sample_would_be_above_the_limit(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], limit: int, at_once: int, mds: bool
) -> None:
    """However the rows come, and also where one sample is larger than a file."""
    layout = Layout(300, "uint16", fixed=False)
    form = MdsFormat(layout, limit) if mds else LitDataFormat(layout, limit=limit)
    rows: Rows = [[[number] * length] for number, length in enumerate(lengths)]
    folder = tmp_path_factory.mktemp("samples")
    sink = SampleSink(folder, "train", form)
    for first in range(0, len(rows), at_once):
        sink.write(sink.prepare(row_batch(rows[first : first + at_once])))
    files = sink.commit()
    sizes = form.samples(row_batch(rows)).sizes.tolist()
    assert [file.counts["rows"] for file in files[:-1]] == slow_cuts(form, sizes)
    assert same_samples((read_mds if mds else read_litdata)(folder / "train"), samples_of(rows, layout))
    assert sorted(path.name for path in (folder / "train").iterdir()) == sorted(file.name for file in files)


def test_an_empty_split_has_an_index_of_nothing(tmp_path: Path) -> None:
    write_rows(tmp_path / "dataset", [], Layout(SEQUENCE_LEN, "uint16"))
    assert list(read_mds(export(tmp_path / "dataset", to="mds").output / "train")) == []
    assert list(read_litdata(export(tmp_path / "dataset", to="litdata").output / "train")) == []


def test_a_row_beyond_32_bits_is_refused_and_leaves_nothing_open(tmp_path: Path) -> None:
    sink = SampleSink(tmp_path, "train", MdsFormat(Layout(2**31 - 1, "uint32", fixed=False)))
    with pytest.raises(InputError, match="row 0 takes 4,294,967,296 bytes"):
        sink.write(Samples(b"", np.array([2**32]), np.array([2**30])))
    sink.abort()
    assert list((tmp_path / "train").iterdir()) == []


def test_labels_are_refused_where_there_is_no_place_for_them(tmp_path: Path) -> None:
    rows, layout = LAYOUTS["labels"]
    write_rows(tmp_path / "dataset", rows, layout)
    with pytest.raises(InputError, match="litdata-tokens has no place for that"):
        export(tmp_path / "dataset", to="litdata-tokens")
    with pytest.raises(ConfigError, match="--dtype is `uint16`"):
        export(tmp_path / "dataset", to="mds", dtype="uint16")


@pytest.mark.parametrize("name", ["train/shard.00000.mds", "train/index.json"])
def test_validation_finds_a_damaged_file_in_the_folder_of_a_split(tmp_path: Path, name: str) -> None:
    write_rows(tmp_path / "dataset", *LAYOUTS["fixed"])
    output = export(tmp_path / "dataset", to="mds").output
    assert output is not None
    content = bytearray((output / name).read_bytes())
    content[len(content) // 2] ^= 1
    (output / name).write_bytes(content)
    with pytest.raises(InputError, match=rf"{name}` has the checksum"):
        validate(output)
    (output / "train").rename(tmp_path / "elsewhere")
    (output / "train").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="is in a folder that is a link: `train`"):
        validate(output)
