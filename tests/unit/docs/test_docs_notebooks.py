"""The notebooks run from first cell to last, are kept without outputs, and are pages of the site."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest
from docs_pages import ROOT

import preloaded

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
# `!` is Jupyter's: a line for the shell.
SHELL = "import shlex as _shlex, subprocess as _subprocess, sys as _sys"
CALL = "_subprocess.run([_sys.executable, '-m', *_shlex.split({!r})], check=True, stdout=_subprocess.DEVNULL)"


def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("notebook_pages", ROOT / "docs" / "notebook_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def program_of(notebook: Path) -> str:
    cells = [text for kind, text in hook().cells_of(notebook) if kind == "code"]
    lines = [SHELL, *(line for text in cells for line in text.splitlines())]
    return "\n".join(CALL.format(line[1:]) if line.startswith("!krill ") else line for line in lines) + "\n"


def test_there_are_three() -> None:
    assert [notebook.stem for notebook in NOTEBOOKS] == ["chat-data", "text-to-model", "tokenizer"]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_a_notebook_runs_in_an_empty_folder(notebook: Path, tmp_path: Path) -> None:
    done = preloaded.run([], script=program_of(notebook), cwd=tmp_path, timeout=300)
    assert done.code == 0, done.err


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_a_notebook_is_kept_without_outputs(notebook: Path) -> None:
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_a_page_has_every_cell_and_links_to_pages(notebook: Path) -> None:
    page = hook().render(notebook)
    for kind, text in hook().cells_of(notebook):
        assert kind == "markdown" or f"```python\n{text}\n```" in page
    assert set(re.findall(r"\]\(([\w-]+\.ipynb)\)", page)) == {notebook.name}
    for link in re.findall(r"\]\(\.\./([\w-]+\.md)[#)]", page):
        assert (ROOT / "docs" / link).is_file(), link
