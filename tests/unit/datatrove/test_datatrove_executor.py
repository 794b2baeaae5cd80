"""Steps on datatrove's own executor, in processes of its pool; and without datatrove, an error that helps."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("datatrove")

from datatrove_samples import some_documents

from krill.datatrove import Filters, KrillReader, MinhashSignatures

# In a process of its own: the executor's pool forks, and pytest has threads.
PIPELINE = """
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.writers import JsonlWriter
from krill.datatrove import Filters, KrillReader, MinhashSignatures

if __name__ == "__main__":
    steps = [
        KrillReader("data"),
        Filters("fineweb", exclusion_writer=JsonlWriter("dropped", compression=None)),
        MinhashSignatures("signatures"),
    ]
    LocalPipelineExecutor(steps, tasks=2, workers=2, logging_dir="logs").run()
"""


def test_a_pool_of_processes_gives_what_the_steps_give_here(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    documents = some_documents(60, step=50)
    for rank in range(2):
        lines = [json.dumps({"id": document.id, "text": document.text}) for document in documents[rank::2]]
        (tmp_path / "data" / f"{rank}.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "pipeline.py").write_text(PIPELINE)
    done = subprocess.run(
        [sys.executable, "pipeline.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    kept = 0
    for rank in range(2):
        here = list(Filters("fineweb").run(KrillReader(str(tmp_path / "data")).run(None, rank, 2)))
        MinhashSignatures(str(tmp_path / "here")).run(iter(here), rank, 2)
        kept += len(here)
    assert files_of(tmp_path / "signatures") == files_of(tmp_path / "here")
    dropped = [json.loads(line) for path in (tmp_path / "dropped").iterdir() for line in path.open()]
    assert 0 < len(dropped) == 60 - kept
    reasons = {entry["metadata"]["filter_reason"] for entry in dropped}
    assert reasons <= {"line_punct_ratio", "short_line_ratio", "char_dup_ratio", "list_ratio"}
    stats = json.loads((tmp_path / "logs" / "stats.json").read_text())
    counted = {entry["name"]: entry["stats"] for entry in stats}["krill: filters"]
    assert (counted["total"], counted["dropped"]) == (60, len(dropped))


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.sig")}


def test_without_datatrove_the_extra_is_named() -> None:
    program = "import sys; sys.modules['datatrove'] = None\nimport krill.datatrove"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "MissingExtra: `krill.datatrove` needs the extra `datatrove`" in done.stderr
    assert "hint: pip install 'krill-lm[datatrove]'" in done.stderr
