"""A report stays under 200 MB, and ten times the run takes hardly more memory."""

from __future__ import annotations

import pytest
import yaml

import preloaded

MB = 10**6
BUDGET = 200 * MB


@pytest.fixture(scope="module")
def runs(tmp_path_factory, grown):
    """Runs over 3 and over 30 MB of text, with everything that a report shows."""
    folder = tmp_path_factory.mktemp("runs")
    made = []
    for size in (3, 30):
        config = {
            "datasets": [{"path": str(grown(size))}],
            "tokenizer": {"builtin": "bytes"},
            "preprocess": {
                "prepared_path": str(folder / str(size)),
                "output": "both",
                "rejected": True,
                "statistics": True,
                "filters": ["web-any", {"language": {"allow": ["en"]}}],
                "dedup": {"method": "minhash"},
            },
        }
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        outcome = preloaded.run(["preprocess", folder / "config.yaml", "--quiet"])
        assert outcome.code == 0, outcome.err
        made.append(folder / str(size))
    return made


def test_the_budget_holds_and_ten_times_the_run_takes_hardly_more(fresh_krill, runs, tmp_path):
    small, large = (
        fresh_krill("report", run, "--output", tmp_path / "report.html", "--memory", "200MB", "--json")
        for run in runs
    )
    for outcome in (small, large):
        assert outcome.code == 0, outcome.err
        assert outcome.peak <= BUDGET
        assert outcome.result["bytes"] <= 2 * MB
    assert large.peak <= 1.15 * small.peak


def test_runs_beside_each_other_hold_the_budget(fresh_krill, runs, tmp_path):
    outcome = fresh_krill(
        "report", *runs, "--output", tmp_path / "report.html", "--memory", "200MB", "--json"
    )
    assert outcome.code == 0, outcome.err
    assert outcome.peak <= BUDGET
    assert "cannot be read" not in (tmp_path / "report.html").read_text()
