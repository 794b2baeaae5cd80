"""Memory that grows in spite of the plan ends the command before the limit, not after it."""

import re
import sys

import pytest
import yaml

from measured import run_measured

MB = 10**6
BUDGET = 200 * MB
# Steps of a user's own, which no plan can know: many small objects, and a native loop that keeps the
# interpreter's lock, so that no thread of Python's can look.
GROWTH = {
    "objects": "[[str(i)] for i in range(10**7)]",
    "native": "bytes(itertools.repeat(65, 10**9))",
}
STEP = "import itertools\ndef step(batch):\n    grown = {}\n    return batch\n"


@pytest.mark.parametrize("kind", GROWTH)
def test_growth_that_nobody_foresaw_stops_under_the_limit_and_what_was_committed_is_kept(
    fresh_krill, tmp_path, kind
):
    (tmp_path / "own.py").write_text(STEP.format(GROWTH[kind]))
    lines = (f'{{"text": "document {i} {"some words " * 30}"}}\n' for i in range(20_000))
    (tmp_path / "in.jsonl").write_text("".join(lines))
    config = {
        "datasets": [{"path": "in.jsonl"}],
        "tokenizer": {"builtin": "bytes"},
        "preprocess": {"prepared_path": "out", "sequence_len": 1024, "filters": ["own:step"]},
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    outcome = fresh_krill(
        "preprocess", "config.yaml", "--memory", BUDGET, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}
    )
    assert outcome.code == 4, outcome.err
    assert outcome.peak <= BUDGET
    assert "Traceback" not in outcome.err
    assert re.search(r"error: memory reached the budget in spite of the plan: .*200 MB given", outcome.err)
    assert "hint: what was" in outcome.err
    assert not (tmp_path / "out").exists()

    (tmp_path / "own.py").write_text(STEP.format("None"))
    again = fresh_krill(
        "preprocess", "config.yaml", "--memory", BUDGET, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}
    )
    assert (again.code, again.peak <= BUDGET) == (0, True), again.err
    assert (tmp_path / "out" / "krill-run.json").is_file()


# Loads libraries, then grows by the megabytes that are given: the limit is 2 MB above what it held.
GROWING = """
import sys
import pyarrow.parquet, pyarrow.compute, numpy
from krill import _native
pyarrow.compute.sum(pyarrow.array(numpy.arange(10)))
guard = _native.MemoryGuard(_native.resident_bytes() + 2 * 10**6, "the end\\n", 4)
assert guard.start()
held = [b"x" * 10**6 for _ in range(int(sys.argv[1]))]
print(pyarrow.compute.sum(pyarrow.array(numpy.arange(10))).as_py(), len(held))
guard.stop()
"""


def test_code_that_is_no_longer_used_is_let_go_before_a_process_is_ended():
    grown, ended = (run_measured([sys.executable, "-c", GROWING, str(size)]) for size in (10, 200))
    assert (grown.code, grown.out) == (0, "45 10\n"), grown.err
    assert (ended.code, ended.err) == (4, "the end\n")
