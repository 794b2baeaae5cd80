"""A whole run in a folder, as `pipeline.job` does it: two units, a shard each, the manifest, publication.

As a script, with `CHANGE OUTPUT CONTENT SPILL_DIR OVERWRITE`, it does it in this process, which is killed
before its change number `CHANGE` of the file system.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from krill.storage.folder_storage import FolderStorage
from krill.storage.outputs import OutputKind
from krill.storage.run import Run

CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate", "shutil.rmtree"}
KILLED = 9
KIND = OutputKind("test", lambda manifest: ("shard-0", "shard-1"))


def opened(output: Path, spill_dir: Path | None = None, **options: Any) -> Run:
    return Run(FolderStorage(output, spill_dir, setting="output", **{"kind": KIND, **options}))


def describe(content: str) -> dict:
    return {"identity": content, "krill": "1", "config": {"key": content}, "inputs": [], "tokenizer": None}


def run(output: Path, content: str, *, overwrite: bool = False, spill_dir: Path | None = None) -> str:
    with opened(output, spill_dir) as folder:
        state = folder.begin(describe(content), overwrite=overwrite)
        if state in ("finished", "published"):
            return state
        log = folder.stages / "scan"
        log.mkdir(exist_ok=True)
        for unit in ("0", "1"):
            if not (log / f"{unit}.json").exists():
                (folder.dataset / f"shard-{unit}").write_text(content)
                (log / f"{unit}.json").write_text("{}")
        manifest = {**describe(content), "command": "test", "tokenizer_fingerprint": None}
        (folder.dataset / "krill-run.json").write_text(json.dumps(manifest))
        folder.publish()
    return state


def run_until(change: int, output: Path, content: str, spill_dir: Path | None, **options: Any) -> None:
    """Ends this process: with 0 if the run ended, else at its change number `change`."""
    left = change

    def hook(event: str, arguments: tuple) -> None:
        nonlocal left
        writes = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if event in CHANGES or writes:
            left -= 1
            if left < 0:
                os._exit(KILLED)

    sys.addaudithook(hook)
    run(output, content, spill_dir=spill_dir, **options)
    os._exit(0)


if __name__ == "__main__":
    number, place, new, spilled, overwriting = sys.argv[1:]
    spill = Path(spilled) if spilled else None
    run_until(int(number), Path(place), new, spill, overwrite=overwriting == "overwrite")
