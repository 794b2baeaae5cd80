"""Reports of real trainings: finished, killed, over each other; and of readers of questions."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import preloaded
from report_runs import make_training
from tiny_readers import write_recall

TITLES = ["Loss", "Validation loss", "Learning rate", "Gradient norm", "Tokens a second", "Memory"]


def page_of(*paths: Path) -> str:
    output = paths[0].parent / "report.html"
    made = preloaded.run(["report", *paths, "--output", output])
    assert made.code == 0, made.err
    return output.read_text(encoding="utf-8")


def table_of(page: str, title: str) -> list[list[str]]:
    figure = re.search(rf"<figcaption>{title}</figcaption>.*?</figure>", page, re.DOTALL)
    assert figure is not None
    rows = re.findall(r"<tr><td.*?</tr>", figure[0])
    return [re.findall(r"<td[^>]*>([^<]*)</td>", row) for row in rows]


def test_trainings_are_drawn_alone_and_over_each_other(tmp_path: Path) -> None:
    whole = make_training(tmp_path / "whole")
    killed = make_training(tmp_path / "killed", finished=False, learning_rate=0.02)
    check_curves(whole)
    page = page_of(killed)
    assert "This run is not finished" in page
    assert len(table_of(page, "Loss")) > 20
    page = page_of(whole, killed)
    compared = html.unescape(page[: page.index('id="run1"')])
    assert re.findall(r"<figcaption>(.*?)</figcaption>", compared)[: len(TITLES)] == TITLES
    first, *_ = table_of(compared, "Loss")
    assert len(first) == 3
    differing = compared.partition("Keys of the config that differ")[2]
    assert re.search(r"<td>train.learning_rate</td><td>0.01</td><td>0.02</td>", differing)


def check_curves(run: Path) -> None:
    """The page of a finished training has the figures of its metrics and of its manifest."""
    page = page_of(run)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if line["kind"] == "train"]
    measured = {line["step"]: f"{line['loss']:.4g}" for line in lines if line["kind"] == "validation"}
    assert len(steps) == 30 and len(measured) >= 3
    assert table_of(page, "Loss") == [
        [f"{line['step']}", f"{line['loss']:.4g}", measured.get(line["step"], "-")] for line in steps
    ]
    assert [row[1] for row in table_of(page, "Gradient norm")] == [f"{s['grad_norm']:.4g}" for s in steps]
    manifest = json.loads((run / "krill-run.json").read_text())
    assert f"<dt>parameters</dt><dd>{manifest['parameters']:,}</dd>" in page
    assert "Memory over time" in page


def test_readers_of_questions_and_their_features_have_reports(tmp_path: Path) -> None:
    features = write_recall(tmp_path, "features", 10, segments=(2, 4), seed=3)
    sizes = ["--hidden", 16, "--layers", 1, "--batch-size", 4, "--max-steps", 4, "--threads", 1]
    files = ["--tokenizer", tmp_path / "tokenizer.json", "--output-dir", tmp_path / "model"]
    trained = preloaded.run(["qa", "train", features, *files, *sizes, "--quiet"])
    assert trained.code == 0, trained.err
    page = page_of(tmp_path / "model")
    assert "<h1>model: krill qa train</h1>" in page
    assert table_of(page, "Loss")
    prepared = page_of(features)
    number = json.loads((features / "krill-run.json").read_text())["features"]
    assert "<h1>features: krill qa prepare</h1>" in prepared
    assert f"<dt>features</dt><dd>{number:,}</dd>" in prepared
