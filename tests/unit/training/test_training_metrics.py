"""Lines of metrics: weighted by tokens, none twice, none missing, none torn."""

from __future__ import annotations

import json
import math
import resource
import signal
from dataclasses import asdict

import pytest

from krill.training.metrics import MetricsFile, StepWindow


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_window_weighs_every_token_the_same_and_leaves_skipped_steps_out():
    window = StepWindow()
    window.add(loss=2.0, grad_norm=1.0, tokens=10, text_bytes=40.0, skipped=False)
    window.add(loss=math.inf, grad_norm=math.inf, tokens=999, text_bytes=9.0, skipped=True)
    window.add(loss=5.0, grad_norm=3.0, tokens=20, text_bytes=20.0, skipped=False)
    assert window.loss == pytest.approx(4.0)
    assert window.bits_per_byte == pytest.approx(120 / math.log(2) / 60)
    assert window.line() == {
        "loss": window.loss,
        "bits_per_byte": window.bits_per_byte,
        "grad_norm": 2.0,
        "skipped_steps": 1,
    }
    assert StepWindow(**json.loads(json.dumps(asdict(window)))) == window


def test_an_empty_window_has_no_loss():
    assert StepWindow().line() == {"loss": None, "bits_per_byte": None, "grad_norm": None}


def test_lines_after_the_step_that_a_run_goes_on_from_are_removed(tmp_path):
    path = tmp_path / "metrics.jsonl"
    first = MetricsFile(path, 0, note=print)
    for step in (10, 20, 30):
        first.write(step, "train", {"loss": step / 10})
    first.close()
    with path.open("ab") as file:
        file.write(b'{"step":40,"kind":"tr')  # torn off by a full disk
    second = MetricsFile(path, 20, note=print)
    second.write(30, "train", {"loss": 3.5})
    second.sync()
    second.close()
    assert lines(path) == [
        {"step": 10, "kind": "train", "loss": 1.0},
        {"step": 20, "kind": "train", "loss": 2.0},
        {"step": 30, "kind": "train", "loss": 3.5},
    ]


def test_a_line_is_there_as_soon_as_it_is_written(tmp_path):
    metrics = MetricsFile(tmp_path / "metrics.jsonl", 0, note=print)
    metrics.write(1, "validation", {"loss": 1.5, "bits_per_byte": None})
    assert lines(tmp_path / "metrics.jsonl") == [
        {"step": 1, "kind": "validation", "loss": 1.5, "bits_per_byte": None}
    ]
    metrics.close()


def test_loggers_get_the_numbers_of_each_line(tmp_path):
    class Kept:
        def __init__(self):
            self.seen, self.closed = [], False

        def log(self, step, figures):
            self.seen.append((step, figures))

        def close(self):
            self.closed = True

    logger = Kept()
    metrics = MetricsFile(tmp_path / "metrics.jsonl", 0, note=print, loggers=(logger,))
    metrics.write(7, "train", {"loss": 2.5, "tokens": 64, "bits_per_byte": None})
    metrics.close()
    assert logger.seen == [(7, {"train/loss": 2.5, "train/tokens": 64.0})]
    assert logger.closed


def test_a_full_disk_is_told_once_and_its_lines_come_when_there_is_room(tmp_path):
    """The limit on a file's size is as real as a full disk, and can be lifted again."""
    path = tmp_path / "metrics.jsonl"
    told = []
    metrics = MetricsFile(path, 0, note=told.append)
    metrics.write(1, "train", {"loss": 1.0})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 5, before[1]))
    try:
        metrics.write(2, "train", {"loss": 2.0})
        metrics.write(3, "train", {"loss": 3.0})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert [line["step"] for line in lines(path)] == [1]
    assert len(told) == 1
    assert "training goes on" in told[0]
    metrics.write(4, "train", {"loss": 4.0})
    metrics.close()
    assert [line["step"] for line in lines(path)] == [1, 2, 3, 4]
