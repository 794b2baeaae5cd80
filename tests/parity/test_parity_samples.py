"""MDS and LitData files are opened by the tools that they are for, which would have written the same."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from krill.dataset import Layout
from krill.dataset.export import export
from krill.dataset.export.sample_files import LitDataFormat, MdsFormat, SampleSink

sys.path.append(str(Path(__file__).parents[1] / "unit/dataset"))
from export_samples import row_batch, same_samples, samples_of, some_documents, wrapped, write_rows

SEQUENCE_LEN = 64
ROWS = wrapped(some_documents(2000), SEQUENCE_LEN)
VARIABLE = [[document] for document in some_documents(300, longest=400)]
LAYOUTS = {
    "fixed": (ROWS, Layout(SEQUENCE_LEN, "uint16")),
    "uint32": (ROWS, Layout(SEQUENCE_LEN, "uint32")),
    "labels": (VARIABLE, Layout(400, "uint16", fixed=False, labels=True, attention_mask=True)),
}
LIMIT = 20_000


@pytest.fixture
def streaming(monkeypatch) -> Any:
    """MosaicML Streaming without its datasets of images, which would need torchvision."""
    try:
        folder = distribution("mosaicml-streaming").locate_file("streaming")
    except PackageNotFoundError:
        pytest.skip("mosaicml-streaming is not installed")
    package = ModuleType("streaming")
    package.__path__ = [str(folder)]
    monkeypatch.setitem(sys.modules, "streaming", package)
    yield import_module("streaming.base")
    import_module("streaming.base.util").clean_stale_shared_memory()


@pytest.fixture
def litdata() -> Any:
    return pytest.importorskip("litdata")


def exported(folder: Path, name: str, to: Any) -> Path:
    rows, layout = LAYOUTS[name]
    write_rows(folder / "dataset", rows, layout, validation=rows[:9])
    output = export(folder / "dataset", to=to, threads=2).output
    assert output is not None
    return output


def written(sink: SampleSink, name: str) -> list[str]:
    """The names of the files that Krill makes of a dataset."""
    rows, layout = LAYOUTS[name]
    for first in range(0, len(rows), 100):
        sink.write(sink.prepare(row_batch(rows[first : first + 100], layout.token_dtype, layout.labels)))
    return [file.name for file in sink.commit()]


@pytest.mark.parametrize("name", LAYOUTS)
def test_streaming_reads_the_rows_of_each_split(tmp_path, streaming, name):
    rows, layout = LAYOUTS[name]
    output = exported(tmp_path, name, "mds")
    for split, expected in (("train", rows), ("validation", rows[:9])):
        dataset = streaming.StreamingDataset(local=str(output), split=split, batch_size=1)
        assert same_samples((dataset[row] for row in range(len(dataset))), samples_of(expected, layout))


def test_streaming_fetches_shards_and_holds_them_against_their_checksums(tmp_path, streaming):
    rows, layout = LAYOUTS["fixed"]
    output = exported(tmp_path, "fixed", "mds")
    read = {"remote": str(output), "split": "train", "batch_size": 4, "validate_hash": "sha256"}
    fetched = streaming.StreamingDataset(local=str(tmp_path / "fetched"), **read)
    assert same_samples([fetched[5]], samples_of([rows[5]], layout))
    shard = output / "train" / "shard.00000.mds"
    content = bytearray(shard.read_bytes())
    content[-1] ^= 1
    shard.write_bytes(content)
    again = streaming.StreamingDataset(local=str(tmp_path / "again"), **read)
    with pytest.raises(ValueError, match="Checksum failure"):
        again[5]


@pytest.mark.parametrize("name", LAYOUTS)
def test_streaming_would_have_written_the_same_shards(tmp_path, streaming, name):
    rows, layout = LAYOUTS[name]
    names = written(SampleSink(tmp_path, "train", MdsFormat(layout, LIMIT)), name)
    described = json.loads((tmp_path / "train" / "index.json").read_bytes())["shards"][0]
    columns = dict(zip(described["column_names"], described["column_encodings"], strict=True))
    theirs = tmp_path / "theirs"
    with streaming.MDSWriter(columns=columns, out=str(theirs), hashes=["sha256"], size_limit=LIMIT) as writer:
        for sample in samples_of(rows, layout):
            writer.write(sample)
    assert len(names) > 3
    for file in names:
        assert (tmp_path / "train" / file).read_bytes() == (theirs / file).read_bytes(), file


@pytest.mark.parametrize("name", LAYOUTS)
def test_litdata_reads_the_rows_of_each_split(tmp_path, litdata, name):
    rows, layout = LAYOUTS[name]
    output = exported(tmp_path, name, "litdata")
    for split, expected in (("train", rows), ("validation", rows[:9])):
        dataset = litdata.StreamingDataset(str(output / split))
        assert same_samples((dataset[row] for row in range(len(dataset))), samples_of(expected, layout))


@pytest.mark.parametrize("block", [SEQUENCE_LEN, SEQUENCE_LEN // 2])
def test_litdata_cuts_tokens_into_blocks_of_any_length(tmp_path, litdata, block):
    output = exported(tmp_path, "fixed", "litdata-tokens")
    loader = litdata.TokensLoader(block_size=block)
    dataset = litdata.StreamingDataset(str(output / "train"), item_loader=loader)
    tokens = np.array([token for row in ROWS for piece in row for token in piece])
    assert [dataset[row].tolist() for row in range(len(dataset))] == tokens.reshape(-1, block).tolist()


@pytest.mark.parametrize("name", [*LAYOUTS, "tokens"])
def test_litdata_would_have_written_the_same_chunks(tmp_path, litdata, name):
    """Its index has the time besides, and its own writer names no time before several are merged."""
    from litdata.streaming.writer import BinaryWriter

    only_tokens = name == "tokens"
    name = "fixed" if only_tokens else name
    rows, layout = LAYOUTS[name]
    form = LitDataFormat(layout, only_tokens=only_tokens, limit=LIMIT)
    names = written(SampleSink(tmp_path, "train", form), name)
    theirs = tmp_path / "theirs"
    loader = {"item_loader": litdata.TokensLoader()} if only_tokens else {}
    writer = BinaryWriter(str(theirs), chunk_bytes=LIMIT, **loader)
    for number, sample in enumerate(samples_of(rows, layout)):
        writer[number] = sample["input_ids"] if only_tokens else sample
    writer.done()
    (theirs / "0.index.json").rename(theirs / "index.json")
    assert len(names) > 3
    for file in names:
        assert (tmp_path / "train" / file).read_bytes() == (theirs / file).read_bytes(), file
