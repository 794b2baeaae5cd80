"""The examples in docs/dataset-format.md run, and its tables name what is written."""

from __future__ import annotations

import re
from pathlib import Path

import orjson
import pytest
from dataset_samples import Rows, write_dataset

from krill.dataset import Layout

PAGE = (Path(__file__).parents[3] / "docs" / "dataset-format.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=["krill", "datasets", "pyarrow"])
def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, example: str) -> None:
    rows = Rows(Layout(8, "uint16", 4), 21)
    (tmp_path / "artifacts/dataset").mkdir(parents=True)
    write_dataset(tmp_path / "artifacts/dataset", rows, 10)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(example, names)
    if "last" in names:
        assert names["last"].column("input_ids").to_pylist() == [row.tolist() for row in rows.input_ids[8:10]]  # type: ignore[attr-defined]
    else:
        assert len(names["dataset"]) == 21  # type: ignore[arg-type]


def test_every_manifest_field_is_explained(tmp_path: Path) -> None:
    write_dataset(tmp_path, Rows(Layout(8, "uint16", 4), 21), 10)
    content = orjson.loads((tmp_path / "krill-run.json").read_bytes())
    for name in [*content, *content["dataset"], *content["dataset"]["shards"][0]]:
        assert f"`{name}`" in PAGE or f".{name}`" in PAGE or f".{name}[]`" in PAGE, name
