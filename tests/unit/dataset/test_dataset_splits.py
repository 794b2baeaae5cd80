"""A folder of splits: one manifest, a Hugging Face dataset for each split."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from dataset_samples import Rows, write_dataset, write_splits

from krill.dataset import MANIFEST_NAME, Dataset, Layout, Manifest, inspect, validate
from krill.errors import InputError

LAYOUT = Layout(8, "uint16", 4)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_splits(tmp_path, Rows(LAYOUT, 21), Rows(LAYOUT, 7, seed=1), 10)
    return tmp_path


def test_each_split_has_its_rows(folder: Path) -> None:
    for split, rows in (("train", Rows(LAYOUT, 21)), ("validation", Rows(LAYOUT, 7, seed=1))):
        dataset = Dataset(folder, split=split)
        np.testing.assert_array_equal(dataset[:]["input_ids"], np.stack(rows.input_ids))
        assert sum(batch.rows for batch in dataset.batches()) == len(rows)
    assert len(Dataset(folder)) == 21


def test_a_dataset_without_splits_is_its_training_split(tmp_path: Path) -> None:
    write_dataset(tmp_path, Rows(LAYOUT, 21), 10)
    assert len(Dataset(tmp_path, split="train")) == 21
    with pytest.raises(InputError, match="has no split `test`: it has `train`"):
        Dataset(tmp_path, split="test")


def test_the_manifest_survives_save_and_load(folder: Path) -> None:
    manifest = Manifest.load(folder)
    assert [(part.split, part.rows) for part in manifest.parts] == [("train", 21), ("validation", 7)]
    manifest.save(folder)
    assert Manifest.load(folder) == manifest
    content = orjson.loads((folder / MANIFEST_NAME).read_bytes())
    assert list(content)[11:14] == ["dataset", "validation", "text"]


def test_hugging_face_opens_both(folder: Path) -> None:
    datasets = pytest.importorskip("datasets")
    opened = datasets.load_from_disk(str(folder))
    assert {name: len(split) for name, split in opened.items()} == {"train": 21, "validation": 7}
    assert str(opened["validation"].split) == "validation"
    alone = datasets.load_from_disk(str(folder / "validation"))
    np.testing.assert_array_equal(alone[:]["input_ids"], np.stack(Rows(LAYOUT, 7, seed=1).input_ids))


def test_every_split_is_checked_and_counted(folder: Path) -> None:
    report = validate(folder)
    assert (report.files, report.rows, report.tokens) == (4, 28, 224)
    path = folder / "validation" / "data-00000.arrow"
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"validation/data-00000\.arrow` "):
        validate(folder)


@pytest.mark.parametrize("name", ["dataset_dict.json", "validation/state.json", "train/dataset_info.json"])
def test_changed_dataset_files_are_named(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"{}")
    with pytest.raises(InputError, match=f"{name}` differs from what the manifest describes"):
        validate(folder)


def test_it_describes_each_split(folder: Path) -> None:
    found = inspect(folder, samples=2)
    assert found.dataset is not None
    assert found.validation is not None
    assert (found.dataset.split, found.dataset.rows) == ("train", 21)
    assert (found.validation.split, found.validation.rows) == ("validation", 7)
    assert len(found.validation.samples) == 2


def drop(*names: str) -> Callable[[dict[str, Any]], Any]:
    return lambda content: [content["validation"].pop(name) for name in names]


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            lambda content: content["validation"].update(split="../train"),
            "`validation.split` must be a folder",
        ),
        (
            lambda content: content["validation"].update(split="a/b"),
            "`validation.split` must be a folder's name",
        ),
        (
            lambda content: content["validation"].update(split="train"),
            "names `data-00000.arrow` a second time",
        ),
        (
            lambda content: content.update(dataset=None),
            "`validation` has no split, or no training rows beside it",
        ),
        (drop("split"), "`validation` has no split, or no training rows beside it"),
        (drop("rows"), "`validation.rows` is missing"),
    ],
)
def test_a_manifest_that_makes_no_sense_is_refused(
    folder: Path, edit: Callable[[dict[str, Any]], Any], message: str
) -> None:
    content = orjson.loads((folder / MANIFEST_NAME).read_bytes())
    edit(content)
    (folder / MANIFEST_NAME).write_bytes(orjson.dumps(content))
    with pytest.raises(InputError) as caught:
        Manifest.load(folder)
    assert message in caught.value.message


def test_a_split_that_is_a_link_out_of_the_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path.parent / "elsewhere"
    (folder / "validation").rename(outside)
    (folder / "validation").symlink_to(outside)
    with pytest.raises(InputError, match=r"`validation\.shards\[0\]\.file` is a link that leaves the folder"):
        Manifest.load(folder)
