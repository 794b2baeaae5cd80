"""What the documentation shows is what happens: configs load, commands and Python blocks run."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from docs_pages import DATA, PAGES, Block, blocks_of

import preloaded
from krill.config import load_config, to_dict
from krill.errors import ConfigError
from measured import Outcome

CONFIGS = [block for page in PAGES for block in blocks_of(page) if block.language == "yaml"]
# The page on the dataset's format has a test of its own.
SESSIONS = [
    page
    for page in PAGES
    if page.name != "dataset-format.md"
    and any(block.commands or block.language == "python" for block in blocks_of(page))
]


def load(block: Block, folder: Path):
    """Load a block as the file that it would be."""
    path = folder / "config.yaml"
    path.write_text(block.content, encoding="utf-8")
    return load_config(path, environ={})


@pytest.mark.parametrize("block", CONFIGS, ids=str)
def test_every_config_loads_or_is_refused_as_the_page_says(block: Block, tmp_path: Path) -> None:
    if "refused" in block.notes:
        with pytest.raises(ConfigError, match=re.escape(block.notes["refused"])):
            load(block, tmp_path)
    else:
        assert load(block, tmp_path).model_fields_set


def test_older_and_newer_forms_of_a_config_mean_the_same(tmp_path: Path) -> None:
    pairs = [(old, new) for old, new in pairwise(CONFIGS) if "older" in old.notes]
    assert len(pairs) == 2
    for old, new in pairs:
        assert "newer" in new.notes, f"{old} has no newer form behind it"
        assert to_dict(load(old, tmp_path)) == to_dict(load(new, tmp_path))


@pytest.mark.parametrize("page", SESSIONS, ids=lambda page: page.name)
def test_every_command_and_python_block_runs(
    page: Path, krill: Callable[..., Outcome], tmp_path: Path
) -> None:
    waiting: list[Block] = []
    for block in blocks_of(page):
        if "data" in block.notes:
            DATA[block.notes["data"]](tmp_path)
        if "file" in block.notes:
            (tmp_path / block.notes["file"]).write_text(block.content, encoding="utf-8")
        elif "skip" in block.notes:
            continue
        elif block.language == "python":
            waiting.append(block)
        elif block.commands:
            run_python(waiting, tmp_path)
            waiting = []
            run_commands(block, krill, tmp_path)
    run_python(waiting, tmp_path)


def run_commands(block: Block, krill: Callable[..., Outcome], folder: Path) -> None:
    """The block's calls of Krill; all but the last must succeed."""
    codes = [0] * (len(block.commands) - 1) + [int(block.notes.get("exit", "0"))]
    for command, code in zip(block.commands, codes, strict=True):
        words = shlex.split(command)
        at = next(at for at, word in enumerate(words) if word in ("krill", "kr"))
        outcome = krill(*words[at + 1 :], cwd=folder)
        assert outcome.code == code, f"{block}: {command}\n{outcome.out}{outcome.err}"
        assert ("error: " in outcome.err) == bool(code), f"{block}: {command}\n{outcome.err}"
        if "time -v" in command:  # what it would print is what the test's launcher reads
            assert outcome.peak <= budget_of_last_run(folder), f"{block}: {command}"


def budget_of_last_run(folder: Path) -> int:
    """The budget that the newest manifest speaks of."""
    newest = max(folder.rglob("krill-run.json"), key=lambda path: path.stat().st_mtime)
    return int(json.loads(newest.read_bytes())["budget"]["limit"])


def run_python(blocks: list[Block], folder: Path) -> None:
    """Blocks that follow each other are one program: later ones use the names of earlier ones."""
    if not blocks:
        return
    program = "\n".join(block.content for block in blocks)
    done = preloaded.run([], script=program, cwd=folder, timeout=100)
    assert done.code == 0, f"{blocks[0]} and on\n{done.err}"
