"""COMPAT, as typed: every command and every block of the guide to memory-optimised training."""

from __future__ import annotations

import json
import re
import shutil
from itertools import islice
from pathlib import Path

import pytest

import krill
import preloaded
from krill.cli.commands import app
from krill.cli.train import FLAG_RUN
from krill.config import load_config, to_dict
from real_text import real_texts

ROOT = Path(__file__).resolve().parents[2]
SEED = ROOT.parent / "shared" / "seeds" / "004_training.md"
HUB_ID = "skeskinen/TinyStories-Instruct-hf"

pytestmark = pytest.mark.skipif(not SEED.exists(), reason="the guide is not here")


def blocks_with(name: str) -> list[str]:
    """Python blocks that import a name from the loader's module; none where the guide is absent."""
    if not SEED.exists():
        return []
    text = SEED.read_text(encoding="utf-8", errors="replace")
    found = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [block for block in found if f"from streaming_data_loader import {name}\n" in block]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder with the shims, a tokenizer, and local text where the guide has a hub's dataset."""
    folder = tmp_path_factory.mktemp("guide")
    shutil.copytree(ROOT / "examples" / "seeds", folder, dirs_exist_ok=True)
    data = folder / HUB_ID
    data.mkdir(parents=True)
    (data / "train.txt").write_text("<|endoftext|>".join(islice(real_texts(), 40)), encoding="utf-8")
    krill.tokenizer.train([str(data / "train.txt")], vocab_size=500, output=folder / "trained")
    shutil.copy(folder / "trained" / "tokenizer.json", folder / "tokenizer.json")
    return folder


def commands() -> list[list[str]]:
    """Every call of the training scripts, as words; comments behind them are left out."""
    if not SEED.exists():
        return []
    text = SEED.read_text(encoding="utf-8", errors="replace")
    found = re.findall(r"^python (train_\w+\.py(?:[^\n]*\\\n)*[^\n]*)$", text, re.MULTILINE)
    lines = (re.sub(r"#.*", "", command.replace("\\\n", " ")) for command in found)
    return [line.split() for line in lines]


def run(folder: Path, program: str, *words: str, **environment: str) -> list[str]:
    """The lines that a program in the folder prints, given these arguments; it must succeed."""
    beside_it = 'import sys; sys.path[0] = ""\n'
    environment |= {"HF_HUB_OFFLINE": "1"}
    done = preloaded.run(words, script=beside_it + program, cwd=folder, env=environment)
    assert done.code == 0, f"{program} {words}\n{done.err}"
    return done.out.splitlines()


def run_script(folder: Path, script: str, *words: str, **environment: str) -> list[str]:
    """The same for a file with a program."""
    program = f"sys.argv[0] = {script!r}\nimport runpy; runpy.run_path({script!r}, run_name='__main__')"
    return run(folder, program, *words, **environment)


def test_the_guide_has_the_blocks_that_are_tested() -> None:
    assert len(blocks_with("StreamingDataLoader")) == 2
    assert len(blocks_with("estimate_memory_usage")) == 1


def test_streaming_batch_by_batch_runs_as_typed(folder: Path) -> None:
    """The first block names no dataset and leaves tokenizer, state and step to its reader."""
    before = """
from tokenizers import Tokenizer
tokenizer, state, seen = Tokenizer.from_file("tokenizer.json"), None, []
def train_step(state, batch):
    seen.append((batch["input_ids"].shape, batch["labels"].shape, str(batch["labels"].dtype)))
"""
    block = blocks_with("StreamingDataLoader")[0].replace('dataset_id="..."', f'dataset_id="{HUB_ID}"')
    lines = run(folder, before + block + "\nprint(len(seen), set(seen))")
    count, _, shapes = lines[-1].partition(" ")
    assert int(count) > 5
    assert shapes == "{((32, 128), (32, 128), 'int32')}"


def test_basic_usage_runs_as_typed(folder: Path) -> None:
    lines = run(folder, blocks_with("StreamingDataLoader")[1])
    assert len(lines) > 5
    assert set(lines) == {"(32, 128)"}


def test_the_estimate_runs_as_typed_and_prints_the_numbers_of_the_guide(folder: Path) -> None:
    lines = run(folder, blocks_with("estimate_memory_usage")[0])
    # "~100 MB", "~0.03 MB" and "99.97%" there.
    assert lines == ["Full load: 102.4 MB", "Streaming: 0.032768 MB", "Savings: 99.97%"]


# What a flag of the guide sets in the config, and to what. A flag without a value says so by itself.
KEYS = {
    "--target-params": ("train", "target_params"),
    "--batch-size": ("train", "batch_size"),
    "--gradient-accumulation-steps": ("train", "gradient_accumulation_steps"),
    "--epochs": ("train", "epochs"),
    "--shuffle-buffer-size": ("train", "shuffle_buffer_size"),
    "--seq-len": ("train", "seq_len"),
    "--stride": ("train", "stride"),
    "--use-streaming": ("train", "streaming", True),
    "--use-mixed-precision": ("train", "mixed_precision", "bf16"),
    "--use-8bit-optimizer": ("train", "optimizer", "adamw8bit"),
}


def config_of(words: list[str]) -> dict:
    """What `krill train` makes of flags; the data is not looked at."""
    _, bound, _ = app.parse_args(["train", *words], exit_on_error=False, print_error=False)
    keys = bound.arguments["flags"].keys()
    return to_dict(load_config(FLAG_RUN, environ={}, **keys))


def check_flags(words: list[str]) -> None:
    config = config_of(words)
    for place, word in enumerate(words):
        if word in KEYS:
            section, key, *value = KEYS[word]
            assert config[section][key] == (value[0] if value else int(words[place + 1])), word
        else:
            assert not word.startswith("--") or word in ("--dataset-id", "--max-examples"), word


def test_the_guide_has_the_commands_that_are_tested() -> None:
    scripts = [words[0] for words in commands()]
    assert (scripts.count("train_optimized.py"), scripts.count("train_model.py")) == (10, 1)


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_flag_of_every_command_sets_its_key(words: list[str]) -> None:
    missing = [] if "--dataset-id" in words else ["--dataset-id", "your-dataset"]
    check_flags([*words[1:], *missing])


def test_the_single_flags_of_the_guide_act() -> None:
    text = SEED.read_text(encoding="utf-8", errors="replace")
    lines = re.findall(r"^(--[\w-]+ \d+)", text, re.MULTILINE)
    assert lines == ["--seq-len 64", "--target-params 500000", "--stride 128", "--max-examples 100000"]
    words = [word for line in lines for word in line.split()]
    check_flags(["--dataset-id", "your-dataset", *words])
    assert config_of(["--dataset-id", "a", *words])["datasets"][0]["split"] == "train[:100000]"


def test_the_defaults_are_those_of_the_script() -> None:
    config = config_of(["--dataset-id", "a"])
    train, tokenizer = config["train"], config["tokenizer"]
    assert (train["epochs"], train["seq_len"], train["batch_size"], train["learning_rate"]) == (
        3,
        128,
        32,
        5e-4,
    )
    assert (train["shuffle_buffer_size"], train["log_every"], train["save_every"]) == (10_000, 10, 1000)
    assert (train["output_dir"], train["streaming"]) == ("output_optimized", True)
    assert (tokenizer["vocab_size"], config["seed"]) == (10_000, 42)


def check_trains(folder: Path, words: list[str], output: str) -> dict:
    """Run a command as typed, over local text, for two steps over short rows; the manifest it leaves."""
    typed = [HUB_ID if word == "your-dataset" else word for word in words]
    shutil.rmtree(folder / output, ignore_errors=True)
    run_script(
        folder,
        *typed,
        KRILL_TRAIN__MAX_STEPS="2",
        KRILL_TRAIN__TARGET_PARAMS="100000",
        KRILL_TRAIN__SEQ_LEN="32",
        KRILL_TOKENIZER__VOCAB_SIZE="500",
        KRILL_MEMORY="1GB",
    )
    manifest = json.loads((folder / output / "krill-run.json").read_bytes())
    assert manifest["steps"] == 2
    assert (folder / output / "model.safetensors").stat().st_size == pytest.approx(
        4 * manifest["parameters"], rel=0.02
    )
    return manifest


def test_the_quick_start_trains_as_typed(folder: Path) -> None:
    manifest = check_trains(folder, commands()[0], "output_optimized")
    assert manifest["parameters"] == pytest.approx(1_000_000, rel=0.02)
    assert (manifest["plan"]["rows"], manifest["plan"]["microbatch"]) == (64, 16)
    assert manifest["settings"]["tokenizer"]["path"] == "output_optimized/tokenizer"


def test_the_older_script_prepares_its_data_first(folder: Path) -> None:
    words = next(words for words in commands() if words[0] == "train_model.py")
    manifest = check_trains(folder, words, "output")
    assert manifest["settings"]["train"]["streaming"] is False
    assert json.loads((folder / "output/dataset/krill-run.json").read_bytes())["dataset"]["rows"] > 64


@pytest.mark.soak
@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_command_trains_as_typed(folder: Path, words: list[str]) -> None:
    output = "output" if words[0] == "train_model.py" else "output_optimized"
    missing = [] if "--dataset-id" in words else ["--dataset-id", "your-dataset"]
    check_trains(folder, [*words, *missing], output)
