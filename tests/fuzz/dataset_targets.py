"""Datasets: Krill's own, those of others, and what is made from them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import krill
from corpus_targets import check_corpus
from fuzzing import Target
from krill.dataset import Dataset, validate
from krill.dataset.duplicates import find_clusters
from krill.dataset.export import FORMATS, export
from krill.dataset.inspection import inspect
from krill.loading import load
from mutations import mutate_bytes, mutate_json

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


def _make_ours(folder: Path) -> Mapping[str, Sequence[str]]:
    """Rows of one length in two splits, rows of their own lengths; documents kept and dropped."""
    texts = [" ".join(WORDS[number % 5 :]) * 6 + f" {number // 2 * 7919}" for number in range(60)]
    source = folder / "input.jsonl"
    source.write_text(
        "".join(json.dumps({"text": text, "n": str(at)}) + "\n" for at, text in enumerate(texts))
    )
    clusters = {"method": "minhash", "clusters": True, "threshold": 0.7}
    shared = {"sequence_len": 64, "min_chars": 5, "min_length": 1, "output": "both", "rejected": True}
    shared |= {"dedup": clusters, "split": {"validation": 0.2}}
    cases = {"fixed": {}, "variable": {"packing": "bfd"}}
    made = {}
    for case, settings in cases.items():
        krill.preprocess(
            {
                "datasets": [{"path": str(source), "columns": ["n"]}],
                "tokenizer": {"builtin": "bytes"},
                "preprocess": {"prepared_path": str(folder / case), **shared, **settings},
            },
            memory="1GB",
            threads=1,
        )
        files = [path.relative_to(folder / case) for path in (folder / case).rglob("*") if path.is_file()]
        made[case] = [str(name) for name in sorted(files)]
    return made


def _state_anew(folder: Path) -> None:
    """Let the manifest say what the files are by now: who damages one may well mend the other."""
    path = folder / "krill-run.json"
    try:
        manifest = json.loads(path.read_bytes())
        for part in ("dataset", "validation", "text", "rejected"):
            inside = folder / (manifest[part].get("split") or "")
            for shard in manifest[part]["shards"]:
                content = (inside / shard["file"]).read_bytes()
                shard["bytes"], shard["sha256"] = len(content), hashlib.sha256(content).hexdigest()
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        return
    path.write_text(json.dumps(manifest))


def check_ours(folder: Path, random: Random) -> None:
    """One of the ways to read an output."""
    if random.random() < 0.7:
        _state_anew(folder)
    random.choice([_rows, _loaded, _foreign, _validated, _inspected, _clusters, _exported, _as_input])(
        folder, random
    )


def _rows(folder: Path, random: Random) -> None:
    with Dataset(folder) as dataset:
        count = sum(len(batch.offsets) - 1 for batch in dataset.batches())
        assert count == len(dataset)
        for row in range(len(dataset)):
            assert dataset[row]["input_ids"].dtype == dataset.layout.dtype
        dataset[[*range(len(dataset)), 0]]


def _loaded(folder: Path, random: Random) -> None:
    verify = random.random() < 0.3
    with load(folder, memory="1GB", verify=verify, split=random.choice(["train", "validation"])) as dataset:
        dataset[:]
        for batch in dataset.loader(batch_size=2, shuffle=random.random() < 0.5, prefetch=0):
            assert batch["input_ids"].shape == batch["labels"].shape


def _foreign(folder: Path, random: Random) -> None:
    """As if it were anybody's."""
    (folder / "krill-run.json").unlink()
    with load(folder, memory="1GB", cache_dir=folder / "cache") as dataset:
        dataset[:]


def _validated(folder: Path, random: Random) -> None:
    validate(folder)


def _inspected(folder: Path, random: Random) -> None:
    inspect(folder, samples=5).to_json()


def _clusters(folder: Path, random: Random) -> None:
    for cluster in find_clusters(folder, 5):
        cluster.to_json()


def _exported(folder: Path, random: Random) -> None:
    to = random.choice(FORMATS)
    what = random.choice(["text", "tokens", None]) if to == "jsonl" else None
    output = folder.parent / "exported"
    export(folder, to=to, what=what, output=output, overwrite=True, memory="1GB", threads=1)
    validate(output)


def _as_input(folder: Path, random: Random) -> None:
    check_corpus(folder, random)


def _mutate(data: bytes, random: Random, others: Sequence[bytes]) -> bytes:
    return mutate_json(data, random, others) if data[:1] == b"{" else mutate_bytes(data, random, others)


def _make_foreign(folder: Path) -> Mapping[str, Sequence[str]]:
    rows = [list(range(8 * (number % 3) + 8)) for number in range(30)]
    same = [list(range(16)) for _ in range(30)]
    pieces = [[len(row) - 3, 3] for row in rows]
    tables = {
        "lists": pa.table({"input_ids": pa.array(rows, pa.list_(pa.uint16())), "seq_lengths": pieces}),
        "large": pa.table({"input_ids": pa.array(rows, pa.large_list(pa.int32())), "text": ["a"] * 30}),
        "fixed": pa.table({"input_ids": pa.array(same, pa.list_(pa.int64(), 16))}),
        "nulls": pa.table(
            {"seq_lengths": pa.array([None, *pieces[1:]], pa.list_(pa.int32())), "input_ids": rows}
        ),
    }
    made = {}
    for name, table in tables.items():
        saved = folder / f"saved-{name}"
        saved.mkdir()
        with pa.ipc.new_stream(saved / "data-00000-of-00001.arrow", table.schema) as writer:
            writer.write_table(table, max_chunksize=11)
        (saved / "state.json").write_text('{"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}')
        (folder / f"parquet-{name}").mkdir()
        pq.write_table(table, folder / f"parquet-{name}" / "a.parquet", row_group_size=9)
        made |= {
            saved.name: ["data-00000-of-00001.arrow"] * 3 + ["state.json"],
            f"parquet-{name}": ["a.parquet"],
        }
    return made


def check_foreign(folder: Path, random: Random) -> None:
    with load(folder, memory="1GB", cache_dir=folder / "cache") as dataset:
        rows = dataset[:]
        assert len(rows["input_ids"]) == len(dataset)
        for batch in dataset.loader(batch_size=3, prefetch=0):
            assert batch["input_ids"].shape == batch["labels"].shape


def _make_ds(folder: Path) -> Mapping[str, Sequence[str]]:
    (folder / "ds").mkdir()
    for name in ("a.ds", "b.ds"):
        np.arange(100, dtype="<u2").tofile(folder / "ds" / name)
        np.array([10, 10, 55, 100], "<u8").tofile(folder / "ds" / f"{name}.index")
    return {"ds": ["a.ds", "a.ds.index", "a.ds.index", "b.ds.index"]}


def check_ds(folder: Path, random: Random) -> None:
    if random.random() < 0.5:
        check_foreign(folder, random)
        return
    from krill.datatrove.ds_files import DsFiles

    DsFiles.find(folder).token_files(folder)


DATASET_TARGETS = [
    Target("our-dataset", _make_ours, check_ours, _mutate),
    Target("foreign-dataset", _make_foreign, check_foreign, _mutate),
    Target("datatrove-ds", _make_ds, check_ds),
]
