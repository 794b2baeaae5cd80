"""A command that works without a word says so before ten seconds are over."""

from __future__ import annotations

import io
import time

import pytest

from krill.budget import MemoryMonitor
from krill.cli import progress


def test_silence_is_broken_before_a_stage_and_within_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.3)
    monkeypatch.setattr(progress, "TICK_SECONDS", 0.05)
    stream = io.StringIO()
    lines = progress.ProgressLines(stream, 10**9, MemoryMonitor(stream))
    with lines.kept_alive():
        time.sleep(0.45)
        lines.begin("scan", None)
        time.sleep(0.45)
    said = stream.getvalue().splitlines()
    assert said[0].startswith("looking at the input: still at work, memory ")
    assert any(line.startswith("scan: still at work, memory ") for line in said)
    before = stream.getvalue()
    time.sleep(0.4)
    assert stream.getvalue() == before
