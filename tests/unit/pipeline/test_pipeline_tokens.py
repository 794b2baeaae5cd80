"""The token stages: splits, limits, weights, packings and orders, on small corpora from end to end."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import krill
from krill.dataset import Dataset, ShardWriter, validate
from krill.errors import ConfigError, InputError
from krill.pipeline.summary import Summary
from oracles.pack import reference_best_fit, reference_own_rows

ROW = 64
EOS = 256


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight rows a record batch, so that a small corpus fills many shards."""
    monkeypatch.setattr("krill.dataset.layout.BATCH_BYTES", 1024)


def text_of(number: int) -> str:
    """A document of its own, from 20 to some 280 bytes long."""
    return f"document {number:05d} " * (2 + number * 7919 % 17)


def write_lines(path: Path, numbers: Sequence[int]) -> str:
    path.write_text("".join(json.dumps({"text": text_of(number)}) + "\n" for number in numbers))
    return str(path)


def prepare(
    folder: Path, name: str = "out", *, datasets: Any = None, threads: int = 2, **settings: Any
) -> Summary:
    datasets = datasets or [{"path": write_lines(folder / "input.jsonl", range(300))}]
    config = {
        "memory": "256MB",
        "threads": threads,
        "datasets": datasets,
        "tokenizer": {"builtin": "bytes"},
        "preprocess": {
            "prepared_path": str(folder / name),
            "sequence_len": ROW,
            "min_length": 0,
            "min_chars": 0,
            "unit_bytes": "64KB",
            "max_document_bytes": "1KB",
            "shard_size": "16KB",
            "packing": "bfd",
            **settings,
        },
    }
    return krill.preprocess(config)


def rows_of(summary: Summary, split: str = "train") -> list[tuple[list[int], list[int]]]:
    return [
        (row["input_ids"].tolist(), row["seq_lengths"].tolist())
        for row in Dataset(summary.output, split=split)
    ]


def pieces_of(summary: Summary, split: str = "train") -> list[bytes]:
    """The pieces of all rows, EOS as a zero byte."""
    pieces = []
    for ids, lengths in rows_of(summary, split):
        borders = np.cumsum([0, *lengths])
        pieces += [bytes(token % EOS for token in ids[a:b]) for a, b in pairwise(borders)]
    return pieces


def numbers_in(summary: Summary, split: str = "train") -> list[int]:
    """The numbers that pieces begin with, in the order of rows; what is cut inside of a word is passed by."""
    found = (re.match(rb"document (\d{5})", piece) for piece in pieces_of(summary, split))
    return [int(match[1]) for match in found if match]


def content(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "krill-run.json"
    }


@pytest.mark.parametrize("packing", ["bfd", "none"])
def test_rows_are_the_references_over_the_whole_job(tmp_path: Path, packing: str) -> None:
    summary = prepare(tmp_path, packing=packing, pack_window=70)
    documents = [[*text_of(number).strip().encode(), EOS] for number in range(300)]
    expected = []
    for first in range(0, 300, 70 if packing == "bfd" else 300):
        window = documents[first : first + (70 if packing == "bfd" else 300)]
        tokens = [token for document in window for token in document]
        reference = reference_best_fit if packing == "bfd" else reference_own_rows
        for row in reference([len(document) for document in window], ROW):
            ids = [token for start, length in row for token in tokens[start : start + length]]
            expected.append((ids, [length for _, length in row]))
    assert rows_of(summary) == expected
    dataset = summary.manifest.dataset
    assert dataset is not None
    assert (dataset.rows, dataset.tokens) == (len(expected), sum(map(len, documents)))
    assert len(dataset.shards) > 5
    assert summary.manifest.tokens == {"kept": dataset.tokens, "dropped_short": 0, "dropped_tail": 0}
    longer = sum(len(document) > ROW for document in documents)
    assert summary.manifest.documents["notes"] == {"cut_into_rows": longer}
    assert validate(summary.output).tokens == dataset.tokens


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("packing", ["wrapped", "bfd", "none"])
def test_the_output_is_the_same_for_any_threads_and_batches(
    tmp_path: Path, packing: str, shuffle: bool
) -> None:
    settings: dict[str, Any] = {"packing": packing, "shuffle": shuffle, "split": {"validation": 0.3}}
    source = write_lines(tmp_path / "input.jsonl", range(300))
    datasets = [{"path": source, "weight": 1}, {"path": source, "weight": 2, "max_tokens": 3000}]
    first = prepare(tmp_path, "first", datasets=datasets, dedup="none", threads=1, **settings)
    second = prepare(tmp_path, "second", datasets=datasets, dedup="none", threads=2, batch_rows=7, **settings)
    assert content(first.output) == content(second.output)
    assert first.manifest.documents == second.manifest.documents
    assert first.manifest.tokens == second.manifest.tokens


@pytest.mark.parametrize("packing", ["wrapped", "bfd"])
def test_a_shuffle_moves_rows_and_changes_none(tmp_path: Path, packing: str) -> None:
    plain = rows_of(prepare(tmp_path, "plain", packing=packing))
    shuffled = rows_of(prepare(tmp_path, "shuffled", packing=packing, shuffle=True))
    assert shuffled != plain
    assert sorted(shuffled) == sorted(plain)
    # Hardly any row has its neighbour beside it still.
    places = {json.dumps(row): place for place, row in enumerate(plain)}
    moved = [places[json.dumps(row)] for row in shuffled]
    assert sum(after - before == 1 for before, after in pairwise(moved)) < len(plain) / 20


def test_a_document_stays_in_its_split_when_the_corpus_grows(tmp_path: Path) -> None:
    few = prepare(tmp_path, "few", split={"validation": 0.2})
    datasets = [{"path": write_lines(tmp_path / "more.jsonl", [*range(500, 600), *range(400)])}]
    many = prepare(tmp_path, "many", datasets=datasets, split={"validation": 0.2}, packing="wrapped")
    chosen = set(numbers_in(few, "validation"))
    assert chosen | set(numbers_in(few)) == set(range(300))
    assert 40 <= len(chosen) <= 80
    kept = set(numbers_in(many, "validation"))
    assert kept & set(range(300)) <= chosen
    assert not kept & set(numbers_in(few))


def test_splits_have_folders_of_their_own_and_one_manifest(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    summary = prepare(tmp_path, split={"validation": 0.2}, shuffle=True)
    names = {path.name for path in summary.output.iterdir()}
    assert names == {"train", "validation", "dataset_dict.json", "examples.jsonl", "krill-run.json"}
    opened = datasets.load_from_disk(str(summary.output))
    for split in ("train", "validation"):
        theirs = [(row["input_ids"], row["seq_lengths"]) for row in opened[split]]
        assert theirs == rows_of(summary, split)
        assert str(opened[split].split) == split
    manifest = summary.manifest
    assert manifest.dataset is not None
    assert manifest.validation is not None
    assert manifest.tokens["kept"] == manifest.dataset.tokens + manifest.validation.tokens
    assert manifest.tokens["validation"] == manifest.validation.tokens
    assert validate(summary.output).rows == len(opened["train"]) + len(opened["validation"])


def test_a_split_that_is_not_there_is_named(tmp_path: Path) -> None:
    summary = prepare(tmp_path)
    with pytest.raises(InputError, match=r"has no split `validation`: it has `train`") as caught:
        Dataset(summary.output, split="validation")
    assert caught.value.hint == "set `preprocess.split.validation` to write one"


def test_an_empty_validation_split_is_refused_with_its_share(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="0 tokens are in the validation split, fewer than one") as caught:
        prepare(tmp_path, split={"validation": 1e-9})
    assert caught.value.hint == "raise `preprocess.split.validation`, which is 1e-09, or set it to 0"
    assert not (tmp_path / "out").exists()
    assert prepare(tmp_path).status == "done"


def test_rows_longer_than_the_corpus_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"[\d,]+ tokens are left, fewer than one row of 1,000,000: 300 doc"):
        prepare(tmp_path, packing="wrapped", sequence_len=1_000_000)


def test_documents_outside_the_limits_are_dropped_and_counted(tmp_path: Path) -> None:
    summary = prepare(tmp_path, min_length=50, max_length=150)
    lengths = [len(text_of(number).strip()) + 1 for number in range(300)]
    kept = [number for number, length in enumerate(lengths) if 50 <= length <= 150]
    assert sorted(numbers_in(summary)) == kept
    assert summary.manifest.documents["dropped"] == {
        "too_few_tokens": sum(length < 50 for length in lengths),
        "too_many_tokens": sum(length > 150 for length in lengths),
    }
    assert summary.manifest.tokens == {
        "kept": sum(lengths[number] for number in kept),
        "dropped_short": sum(length for length in lengths if length < 50),
        "dropped_long": sum(length for length in lengths if length > 150),
        "dropped_tail": 0,
    }


@pytest.mark.parametrize("validation", [0.0, 0.3])
def test_a_source_ends_before_the_first_document_beyond_its_tokens(tmp_path: Path, validation: float) -> None:
    first = write_lines(tmp_path / "first.jsonl", range(200))
    second = write_lines(tmp_path / "second.jsonl", range(1000, 1100))
    summary = prepare(
        tmp_path,
        datasets=[{"path": first, "max_tokens": 5000}, {"path": second}],
        packing="none",
        min_length=60,
        split={"validation": validation},
    )
    found = [*numbers_in(summary), *(numbers_in(summary, "validation") if validation else [])]
    others = {number for number in found if number >= 1000}
    mine = sorted(set(found) - others)
    lengths = {number: len(text_of(number).strip()) + 1 for number in range(1100)}
    long_enough = [number for number in range(200) if lengths[number] >= 60]
    assert mine == long_enough[: len(mine)]
    in_train = [number for number in numbers_in(summary) if number < 200]
    assert 4600 < sum(lengths[number] for number in in_train) <= 5000
    assert others == {number for number in range(1000, 1100) if lengths[number] >= 60}
    # The next document, which did not fit, and all after it, whatever their length.
    following = long_enough[len(mine)]
    dropped = summary.manifest.documents["dropped"]
    assert dropped["over_max_tokens"] == 200 - following
    assert summary.manifest.documents["read"] == 300


def test_weighted_sources_are_packed_apart_and_the_manifest_says_which_rows_are_whose(tmp_path: Path) -> None:
    paths = [write_lines(tmp_path / f"{first}.jsonl", range(first, first + 100)) for first in (0, 1000, 2000)]
    weights = [1, 0.5, 3]
    summary = prepare(
        tmp_path,
        datasets=[{"path": path, "weight": weight} for path, weight in zip(paths, weights, strict=True)],
        packing="wrapped",
        shuffle=True,
    )
    dataset = summary.manifest.dataset
    assert dataset is not None
    assert [source.weight for source in dataset.sources] == weights
    rows = rows_of(summary)
    tail = 0
    for number, source in enumerate(dataset.sources):
        alone = prepare(tmp_path, f"alone-{number}", datasets=[{"path": paths[number]}], packing="wrapped")
        own = rows[source.first : source.first + source.rows]
        assert sorted(own) == sorted(rows_of(alone))
        assert own != rows_of(alone)
        assert source.tokens == source.rows * ROW
        tail += alone.manifest.tokens["dropped_tail"]
    assert sum(source.rows for source in dataset.sources) == len(rows)
    assert summary.manifest.tokens["dropped_tail"] == tail


def test_a_weight_without_the_others_is_refused(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "input.jsonl", range(3))
    with pytest.raises(ConfigError, match=r"gives a `weight` to `.*` and none to `.*`") as caught:
        prepare(tmp_path, datasets=[{"path": path, "weight": 1}, {"path": path}])
    assert caught.value.hint == "give each source a weight, or none"


def test_a_weighted_source_without_a_row_is_named(tmp_path: Path) -> None:
    paths = [write_lines(tmp_path / f"{count}.jsonl", range(count)) for count in (100, 1)]
    with pytest.raises(InputError, match=r"1\.jsonl` has a weight, and 30 tokens left, fewer than one row"):
        prepare(
            tmp_path,
            datasets=[{"path": path, "weight": 1} for path in paths],
            dedup="none",
            packing="wrapped",
        )


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_run_that_failed_while_it_packed_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shuffle: bool
) -> None:
    settings: dict[str, Any] = {"shuffle": shuffle, "split": {"validation": 0.3}}
    whole = prepare(tmp_path, "whole", **settings)
    close = ShardWriter.close
    written: list[ShardWriter] = []

    def failing(writer: ShardWriter) -> Any:
        if writer not in written:
            if len(written) == 3:
                raise OSError(5, "as if the disk were gone")
            written.append(writer)
        return close(writer)

    monkeypatch.setattr(ShardWriter, "close", failing)
    with pytest.raises(OSError, match="as if the disk were gone"):
        prepare(tmp_path, "resumed", threads=1, **settings)
    written.clear()

    def counting(writer: ShardWriter) -> Any:
        if writer not in written:
            written.append(writer)
        return close(writer)

    monkeypatch.setattr(ShardWriter, "close", counting)
    resumed = prepare(tmp_path, "resumed", **settings)
    assert content(resumed.output) == content(whole.output)
    assert 0 < len(written) <= validate(whole.output).files - 2
