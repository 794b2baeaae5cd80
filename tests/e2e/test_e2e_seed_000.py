"""COMPAT, as typed: every config of the guides to preprocessing and to datatrove, run on local data."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

SEEDS = Path(__file__).resolve().parents[3] / "shared" / "seeds"
ENGLISH = "The whale and the krill have met in the cold water of the south, and the crew of ship {} saw it. "


def configs() -> list[Any]:
    """YAML blocks and here-documents of both guides; none where they are absent."""
    found = []
    for seed in sorted(SEEDS.glob("00[03]_*.md")):
        text = seed.read_text(encoding="utf-8", errors="replace")
        for one, other in re.findall(r"```yaml\n(.*?)```|<< EOF\n(.*?)EOF", text, re.DOTALL):
            found.append(pytest.param(yaml.safe_load(one or other), id=f"{seed.stem}-{len(found)}"))
    return found


pytestmark = pytest.mark.skipif(not SEEDS.exists(), reason="the guides are not here")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the guides have a hub's dataset, a file of its kind; English, German, a copy, a short one."""
    texts = [ENGLISH.format(number) * 12 for number in range(40)]
    texts += ["Der Wal und der Krill trafen sich im kalten Wasser des Südens, und alle sahen es. " * 12]
    texts += [texts[0], "short"]
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    (tmp_path / "data.jsonl").write_text(lines, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("config", configs())
def test_a_config_of_the_guides_runs_as_it_is(config: dict[str, Any], folder: Path, krill: Any) -> None:
    if "preprocess_dedup_cache_dir" in config:
        config["preprocess_dedup_cache_dir"] = str(folder / "cache")
    config.pop("hub_tokenizer_id", None)  # the hub can't be reached: the built-in bytes stand in for it
    output = folder / "prepared"
    local = {
        "datasets": [{"path": str(folder / "data.jsonl"), "split": "train", "text_column": "text"}],
        "tokenizer": {"builtin": "bytes"},
        "dataset_prepared_path": str(output),
        "sequence_len": 128,
        "memory": "400MB",
    }
    block = config.get("datatrove", {}).get("pipeline_config", {})
    block.pop("distributed", None)  # several machines are for a later version
    (folder / "config.yaml").write_text(yaml.safe_dump({**config, **local}), encoding="utf-8")
    outcome = krill("preprocess", "config.yaml", "--json", cwd=folder)
    assert outcome.code == 0, outcome.err
    dropped = outcome.result["documents"]["dropped"]
    assert dropped["too_short"] == 1
    assert ("language" in dropped) == bool(block)
    # All but their numbers is the same in these documents: near-duplicates, and not equal.
    assert dropped["duplicate"] == (39 + 1 if block.get("deduplication") == "minhash" else 1)
    again = krill("preprocess", "config.yaml", "--json", cwd=folder)
    assert (again.code, again.result["status"]) == (0, "finished")
