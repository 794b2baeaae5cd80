"""COMPAT, as typed: every config and program of the guides to preprocessing and to datatrove, on local data.

What a guide leaves to its reader is added, and where it has a dataset of the hub there is a folder of that
name. Nothing that it writes is changed: a relative path stays relative, a size stays that size.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import preloaded

SEEDS = Path(__file__).resolve().parents[3] / "shared" / "seeds"
NAMES = ("your/large/dataset", "large/dataset")
ENGLISH = (
    "the whale and the krill have met in the cold water of the south where a ship with its crew was looking"
    " for them since the summer had come over the ice before any of these people could be told about it"
)
WORDS = ENGLISH.split()
REST = f"""
hub_tokenizer_id: ./artifacts/tokenizer
vocab_size: 400
datasets:
  - path: {NAMES[0]}
    split: train
    text_column: text
"""


def guide(name: str) -> str:
    """The text of a guide; nothing where it is absent."""
    found = sorted(SEEDS.glob(f"{name}_*.md"))
    return found[0].read_text(encoding="utf-8", errors="replace") if found else ""


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", guide(name), re.DOTALL | re.MULTILINE)


def configs() -> list[Any]:
    """The YAML blocks of both guides, as they stand there."""
    found = [(name, block) for name in ("000", "003") for block in blocks(name, "yaml")]
    return [pytest.param(block, id=f"{name}-{at}") for at, (name, block) in enumerate(found)]


pytestmark = pytest.mark.skipif(not SEEDS.exists(), reason="the guides are not here")


def texts() -> list[str]:
    """English of which no two agree in much, one of them twice and one nearly so, German, and a short one."""
    draw = random.Random(0)
    found = [" ".join(draw.choices(WORDS, k=400)) + "." for _ in range(40)]
    german = "Der Wal und der Krill trafen sich im kalten Wasser des Südens, und alle haben es gesehen. " * 12
    return [*found, german, found[0], found[1] + " Twice.", "short"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working folder with a dataset under each name that the guides have."""
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts())
    for name in NAMES:
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "train.jsonl").write_text(lines, encoding="utf-8")
    return tmp_path


def completed(block: str) -> str:
    """A config with what its author had beside it: whatever of the rest it does not say."""
    said = yaml.safe_load(block) or {}
    rest = {key: value for key, value in yaml.safe_load(REST).items() if key not in said}
    return block + yaml.safe_dump(rest)


def prepare(folder: Path, config: str, krill: Any, *more: str) -> dict[str, Any]:
    """`train-tokenizer` and `preprocess` of a config file in the folder; what the latter reports."""
    trained = krill("train-tokenizer", config, "--quiet", cwd=folder)
    assert trained.code == 0, trained.err
    outcome = krill("preprocess", config, "--json", *more, cwd=folder)
    assert outcome.code == 0, outcome.err
    return outcome.result


@pytest.mark.parametrize("block", configs())
def test_a_config_of_the_guides_runs_as_typed(block: str, folder: Path, krill: Any) -> None:
    (folder / "config.yaml").write_text(completed(block), encoding="utf-8")
    said = yaml.safe_load(block)
    found = prepare(folder, "config.yaml", krill)
    assert (folder / said.get("dataset_prepared_path", "artifacts/dataset") / "krill-run.json").is_file()
    assert found["dataset"]["sequence_len"] == said.get("sequence_len", 2048)
    dropped = found["documents"]["dropped"]
    assert dropped["too_short"] == 1
    assert dropped.get("language", 0) == ("datatrove" in said)
    assert dropped["duplicate"] == 1 + ("datatrove" in said)  # `minhash` finds the one that is nearly so
    again = krill("preprocess", "config.yaml", "--json", cwd=folder)
    assert (again.code, again.result["status"]) == (0, "finished")


def test_the_cache_of_duplicates_works_as_typed_for_a_second_config(folder: Path, krill: Any) -> None:
    (block,) = [block for block in blocks("000", "yaml") if "preprocess_dedup_cache_dir" in block]
    assert "preprocess_dedup_cache_dir: ./cache/dedup\n" in block
    (folder / "first.yaml").write_text(completed(block), encoding="utf-8")
    assert prepare(folder, "first.yaml", krill)["documents"]["kept"] == 42
    assert len(list((folder / "cache/dedup").glob("*.generation"))) == 1
    new = [" ".join(random.Random(seed).choices(WORDS, k=400)) for seed in range(1, 31)]
    with (folder / NAMES[0] / "train.jsonl").open("a") as file:
        file.writelines(json.dumps({"text": text}) + "\n" for text in new)
    second = completed(block) + "\ndataset_prepared_path: ./artifacts/second\n"
    (folder / "second.yaml").write_text(second, encoding="utf-8")
    outcome = krill("preprocess", "second.yaml", "--json", cwd=folder)
    assert outcome.code == 0, outcome.err
    found = outcome.result["documents"]
    assert (found["read"], found["kept"], found["dropped"]["duplicate"]) == (74, 30, 43)
    # The same config again, elsewhere, makes the same again; one after both has nothing left.
    (folder / "third.yaml").write_text(completed(block).replace("2048", "1024"), encoding="utf-8")
    third = krill("preprocess", "third.yaml", "--set", "dataset_prepared_path=./third", cwd=folder)
    assert third.code == 3, third.err
    assert "73 duplicates" in third.err


def typed(folder: Path, script: str) -> str:
    """What a shell prints that is given these lines."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euc", script],
        cwd=folder,
        env={**os.environ, "PATH": path, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def commands() -> list[str]:
    return [block for block in blocks("000", "bash") if "krill preprocess" in block]


@pytest.mark.parametrize("number", range(len(commands())))
def test_the_commands_of_the_guide_run_as_typed(folder: Path, krill: Any, number: int) -> None:
    block = commands()[number]
    # "# ... other config": what is added stands there. `/tmp` would be everybody's.
    (said,) = re.findall(r"<< EOF\n(.*?)EOF", block, re.DOTALL)
    filled = completed(said).replace("/tmp/", f"{folder}/tmp/")
    assert "# ... other config\n" in said
    (folder / "tokenizer.yaml").write_text(filled)
    assert krill("train-tokenizer", "tokenizer.yaml", "--quiet", cwd=folder).code == 0
    printed = typed(folder, block.replace(said, filled))
    assert "Memory Summary:" in printed
    manifest = json.loads((folder / "artifacts/dataset/krill-run.json").read_bytes())
    assert manifest["documents"]["dropped"] == {"too_short": 1, "duplicate": 1}
    assert ("dedup_cache_dir" in said) == bool(list(folder.glob("tmp/dedup_cache/*.generation")))


def test_a_distributed_block_runs_on_datatroves_executors_and_says_so(folder: Path, krill: Any) -> None:
    (block,) = blocks("003", "yaml")
    assert "distributed: false\n" in block
    (folder / "config.yaml").write_text(completed(block))
    alone = prepare(folder, "config.yaml", krill)
    (folder / "config.yaml").write_text(
        completed(block).replace("distributed: false", "distributed: true").replace("webtext-8k", "shared")
    )
    outcome = krill("preprocess", "config.yaml", "--set", "engine.workers=1", "--threads=1", cwd=folder)
    assert outcome.code == 0, outcome.err
    assert "Krill runs these steps itself, on datatrove's executors (`engine: datatrove`)" in outcome.err
    one, other = (folder / "artifacts" / name / "data-00000.arrow" for name in ("webtext-8k", "shared"))
    assert one.read_bytes() == other.read_bytes()
    shared = json.loads((folder / "artifacts/shared/krill-run.json").read_bytes())
    assert shared["engine"]["name"] == "datatrove"
    assert shared["documents"] == alone["documents"]


@pytest.mark.parametrize("enabled", ["true", "false"])
def test_the_program_of_the_guide_asks_the_config_and_runs_as_typed(
    folder: Path, krill: Any, enabled: str
) -> None:
    (config,) = blocks("003", "yaml")
    (program,) = [block for block in blocks("003", "python") if "config.datatrove.enabled" in block]
    text = completed(config).replace("enabled: true", f"enabled: {enabled}")
    (folder / "config.yaml").write_text(text)
    assert krill("train-tokenizer", "config.yaml", "--quiet", cwd=folder).code == 0
    before = """
import yaml
from krill import KrillConfig, run_datatrove_pipeline, tokenize_and_pack
def current_pipeline(config):  # the guide's own, in whose place there is one pipeline
    print("current")
    return run_datatrove_pipeline(config)
"""
    after = """
config = KrillConfig(**yaml.safe_load(open("config.yaml")))
print(config.datatrove.enabled)
print(do_preprocess(config).to_json()["documents"]["kept"])
"""
    done = preloaded.run([], script=before + program + after, cwd=folder)
    assert done.code == 0, done.err
    expected = ["True", "40"] if enabled == "true" else ["False", "current", "42"]
    assert done.out.splitlines() == expected
    assert (folder / "artifacts/webtext-8k/krill-run.json").is_file()
