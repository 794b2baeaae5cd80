"""Every command writes what it wrote in 0.1, byte for byte: the digests of `golden.json`.

Also through several tasks, Ray, datatrove, and in runs that were killed and went on.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from golden_cases import DATASETS, EXPORTS, FEATURES, TOKENIZERS, commands, digests, stored, write_config
from golden_inputs import write_inputs

import preloaded
from krill_process import KrillProcess
from measured import Outcome
from ray_cluster import RayCluster

pytest_plugins = ["ray_fixtures"]

GOLDEN = stored()
SHARED = ["minhash, bfd, both", "mixture"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The inputs, and the trained tokenizer that some cases use."""
    made = tmp_path_factory.mktemp("golden")
    write_inputs(made)
    run(made, *commands("tokenizer", "gpt2")[0])
    return made


def run(folder: Path, *arguments: str) -> Outcome:
    outcome = preloaded.run([*arguments, "--quiet"], cwd=folder, timeout=120)
    assert outcome.code == 0, outcome.err
    return outcome


def place_of(name: str) -> str:
    return "datasets/" + name.replace(" ", "-").replace(",", "")


@pytest.fixture(scope="module")
def dataset(folder: Path) -> Callable[[str], Path]:
    """A dataset, made once for all tests that use it."""

    def make(name: str) -> Path:
        output = folder / place_of(name)
        if not output.exists():
            run(folder, "preprocess", write_config(folder, name, place_of(name)))
        return output

    return make


def check(kind: str, name: str, output: Path) -> None:
    assert digests(output) == GOLDEN[f"{kind}: {name}"]


def test_every_golden_output_has_its_case() -> None:
    named = {"tokenizer": TOKENIZERS, "dataset": DATASETS, "export": EXPORTS, "feature": FEATURES}
    assert set(GOLDEN) == {f"{kind}: {name}" for kind, table in named.items() for name in table}


@pytest.mark.parametrize("name", DATASETS)
def test_a_dataset_is_what_it_was(dataset: Callable[[str], Path], name: str) -> None:
    check("dataset", name, dataset(name))


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_tokenizer_is_what_it_was(folder: Path, name: str) -> None:
    command, place = commands("tokenizer", name)
    if name != "gpt2":
        run(folder, *command)
    check("tokenizer", name, folder / place)


@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_is_what_it_was(folder: Path, dataset: Callable[[str], Path], name: str) -> None:
    dataset("validation")
    command, place = commands("export", name)
    run(folder, *command)
    check("export", name, folder / place)


@pytest.mark.parametrize("name", FEATURES)
def test_features_are_what_they_were(folder: Path, name: str) -> None:
    command, place = commands("feature", name)
    run(folder, *command)
    check("feature", name, folder / place)


@pytest.mark.parametrize("name", SHARED)
def test_several_tasks_make_it_too(folder: Path, name: str) -> None:
    config = write_config(folder, name, "tasks/out")
    shares = [KrillProcess(folder, "preprocess", config, "--task", f"{number}/2") for number in (1, 2)]
    assert [share.wait() for share in shares] == [0, 0], [share.output for share in shares]
    run(folder, "preprocess", config, "--task", "finish")
    check("dataset", name, folder / "tasks/out")
    (folder / "tasks/out").rename(folder / f"tasks/{SHARED.index(name)}")


@pytest.mark.parametrize("name", SHARED)
@pytest.mark.parametrize("engine", ["ray", "datatrove"])
def test_an_engine_makes_it_too(request: Any, folder: Path, name: str, engine: str) -> None:
    place = f"{engine}/{SHARED.index(name)}"
    config = write_config(folder, name, place)
    more = ["--workers", "2"]
    if engine == "ray":
        cluster: RayCluster = request.getfixturevalue("ray_cluster")
        more += ["--address", cluster.address]
    run(folder, "preprocess", config, "--engine", engine, "--memory", "300MB", "--threads", "1", *more)
    check("dataset", name, folder / place)


@pytest.mark.parametrize("name", SHARED)
@pytest.mark.parametrize("records", [2, 9])
def test_a_killed_run_that_goes_on_makes_it_too(tmp_path: Path, name: str, records: int) -> None:
    write_inputs(tmp_path)
    config = write_config(tmp_path, name, "out")
    killed = KrillProcess(tmp_path, "preprocess", config, "--threads", "1")
    killed.wait_until(lambda: len(list(killed.work.glob("stages/*/*.json"))) >= records)
    os.kill(killed.process.pid, signal.SIGKILL)
    killed.wait()
    run(tmp_path, "preprocess", config)
    check("dataset", name, tmp_path / "out")
