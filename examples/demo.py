"""`make demo`: the main job on text that every machine has, the Python standard library's own sources."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import yaml

FOLDER = Path("demo")
MEMORY = "256MB"
VOCAB_SIZE = 8000


def standard_library() -> list[dict[str, str]]:
    """The library's own modules and packages, without what was installed beside them."""
    home = Path(sysconfig.get_path("stdlib"))
    packages = sorted(
        path
        for path in home.iterdir()
        if path.is_dir() and path.name not in ("site-packages", "dist-packages")
    )
    globs = [home / "*.py", *(path / "**" / "*.py" for path in packages if any(path.rglob("*.py")))]
    return [{"path": str(glob)} for glob in globs]


def main() -> int:
    """Write a config and run it as a user would."""
    FOLDER.mkdir(exist_ok=True)
    config = {
        "memory": MEMORY,
        "datasets": standard_library(),
        "tokenizer": {"path": str(FOLDER / "tokenizer"), "vocab_size": VOCAB_SIZE},
        "preprocess": {"prepared_path": str(FOLDER / "dataset"), "sequence_len": 2048},
    }
    file = FOLDER / "config.yaml"
    file.write_text("# Written by `make demo`; yours to change.\n" + yaml.safe_dump(config, sort_keys=False))
    krill = str(Path(sys.executable).with_name("krill"))
    print(f"$ krill run {file}    # a tokenizer, then the dataset; the budget is {MEMORY}", flush=True)
    return subprocess.call([krill, "run", str(file), "--overwrite"])


if __name__ == "__main__":
    sys.exit(main())
