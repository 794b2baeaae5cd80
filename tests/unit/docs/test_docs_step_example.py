"""The worked examples of CONTRIBUTING.md, a step and a stage, carried out on a copy of the package."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from docs_pages import DATA, ROOT, Block, blocks_of

import krill
from krill import _native

STEPS = [block for block in blocks_of(ROOT / "CONTRIBUTING.md") if "file" in block.notes]

# The copy comes before whatever is installed, also before the finder of an install in place.
_PRELUDE = """
import sys
sys.meta_path = [finder for finder in sys.meta_path if "ScikitBuild" not in type(finder).__name__]
sys.path[:0] = ["src", "tests"]
import krill
assert krill.__file__.startswith(sys.argv[1]), krill.__file__
"""
_TEST = _PRELUDE + "import pytest; sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', 'tests']))"
_RUN = (
    _PRELUDE
    + "sys.argv[1:] = ['preprocess', 'config.yaml', '--json', '-q']; import krill.cli; krill.cli.main()"
)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package with the example's files and changes in it."""
    root = tmp_path_factory.mktemp("copy").resolve()
    package = root / "src" / "krill"
    shutil.copytree(Path(krill.__file__).parent, package)  # with the bytecode of what stays as it is
    shutil.copytree(ROOT / "tests" / "oracles", root / "tests" / "oracles")
    native = Path(_native.__file__)
    shutil.copy(native, package / native.name)
    for block in STEPS:
        file = root / block.notes["file"]
        if block.language == "diff":
            file.write_text(changed(file.read_text(encoding="utf-8"), block), encoding="utf-8")
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.content, encoding="utf-8")
    return root


def changed(text: str, block: Block) -> str:
    """A file with the block's `-` lines replaced by its `+` lines, at the one place where they fit."""
    lines = block.content.splitlines()
    before = "".join(f"{line[1:]}\n" for line in lines if not line.startswith("+"))
    after = "".join(f"{line[1:]}\n" for line in lines if not line.startswith("-"))
    assert text.count(before) == 1, f"{block} no longer fits {block.notes['file']}"
    return text.replace(before, after)


def in_copy(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, str(folder)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100, check=False)


def test_the_examples_own_test_passes(copy: Path) -> None:
    done = in_copy(_TEST, copy)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


def test_the_step_drops_and_counts_in_a_run(copy: Path) -> None:
    DATA["documents"](copy)
    numbers = {"id": 0, "text": "1234567890 " * 50}
    (copy / "data" / "numbers.jsonl").write_text(json.dumps(numbers) + "\n")
    done = in_copy(_RUN, copy)
    assert done.returncode == 0, done.stderr
    documents = json.loads(done.stdout)["documents"]
    assert documents["dropped"] == {"mostly_digits": 1, "duplicate": 40}
    assert documents["kept"] == 360
