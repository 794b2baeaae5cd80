"""What a run held over time: a fixed number of samples, which keep the peaks and go on after a kill."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from krill.budget import Meter, timeline
from krill.budget.timeline import MOST_GAPS, MOST_SAMPLES, Timeline
from krill.errors import StorageError
from krill.storage.folder_storage import FolderStorage
from krill.storage.outputs import OutputKind
from krill.storage.run import Run


class Clock:
    """Time as the test sets it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(timeline, "time", made)
    return made


def fill(line: Timeline, clock: Clock, samples: int, *, peak_at: int = -1) -> None:
    for number in range(samples):
        line.advance(10)
        line.sample(900 if number == peak_at else 100)
        clock.now += 0.05


@pytest.mark.parametrize("samples", [1, MOST_SAMPLES, MOST_SAMPLES + 1, 9_000])
def test_samples_are_thinned_to_even_intervals_and_no_peak_is_lost(clock: Clock, samples: int) -> None:
    line = Timeline()
    fill(line, clock, samples, peak_at=samples // 3)
    found = line.to_json()
    assert len(found["samples"]) <= MOST_SAMPLES
    assert len(found["samples"]) >= min(samples, MOST_SAMPLES // 2)
    assert max(held for _, held, _ in found["samples"]) == 900
    steps = [b[0] - a[0] for a, b in zip(found["samples"], found["samples"][1:], strict=False)]
    assert all(0.9 * found["interval"] <= step <= 1.1 * found["interval"] for step in steps[:-1])
    assert [done for _, _, done in found["samples"]] == sorted(done for _, _, done in found["samples"])
    assert found["samples"][-1][2] == 10 * samples


def test_stages_say_when_they_began_and_ended(clock: Clock) -> None:
    line = Timeline()
    with line.stage("scan"):
        clock.now += 2
    with line.stage("encode"):
        assert line.to_json()["stages"][1] == {"name": "encode", "begun": 2.0, "ended": None}
        clock.now += 3
    assert line.to_json()["stages"] == [
        {"name": "scan", "begun": 0.0, "ended": 2.0},
        {"name": "encode", "begun": 2.0, "ended": 5.0},
    ]


def test_a_run_that_goes_on_continues_after_a_gap(clock: Clock) -> None:
    kept: list[dict[str, Any]] = []
    first = Timeline()
    first.keep_by(kept.append, None)
    with pytest.raises(KeyboardInterrupt), first.stage("scan"):
        fill(first, clock, 20)
        raise KeyboardInterrupt
    clock.now += 3600
    second = Timeline()
    second.sample(70)
    second.keep_by(kept.append, kept[-1])
    with second.stage("scan"):
        clock.now += 1
        second.advance(5)
        second.sample(80)
    found = second.to_json()
    assert [held for _, held, _ in found["samples"]] == [100] * 20 + [None, 70, 80]
    assert found["samples"][-1][2] == 205
    assert found["samples"][-1][0] == 2.0
    assert [stage["name"] for stage in found["stages"]] == ["scan", "scan"]
    assert found["stages"][0]["ended"] <= found["stages"][1]["begun"]


def test_a_run_that_is_killed_again_and_again_stays_bounded(clock: Clock) -> None:
    found: dict[str, Any] | None = None
    for _ in range(MOST_SAMPLES + 100):
        line = Timeline()
        line.keep_by(lambda _: None, found)
        fill(line, clock, 5)
        found = line.to_json()
    assert found is not None
    assert len(found["samples"]) <= MOST_SAMPLES
    assert sum(held is None for _, held, _ in found["samples"]) <= MOST_GAPS
    assert found["samples"][-1][2] == 50 * (MOST_SAMPLES + 100)


@pytest.mark.parametrize("damaged", [{}, {"samples": 3}, {"samples": [[1]], "stages": [], "interval": 1}])
def test_what_was_kept_and_is_damaged_is_left_out(clock: Clock, damaged: dict[str, Any]) -> None:
    line = Timeline()
    line.keep_by(lambda _: None, damaged)
    line.sample(1)
    assert line.to_json()["samples"] == [[0.0, 1, 0]]
    assert line.to_json()["stages"] == []


def test_a_folder_that_cannot_be_written_hides_no_other_error(clock: Clock) -> None:
    def refuse(_: object) -> None:
        raise StorageError("the disk is full", hint="free some")

    line = Timeline()
    line.keep_by(refuse, None)
    with pytest.raises(ValueError, match="the cause"), line.stage("scan"):
        raise ValueError("the cause")


def test_an_unfinished_run_in_a_folder_keeps_it(tmp_path: Path) -> None:
    description = {"krill": "1", "identity": "a", "config": {}}
    kind = OutputKind("preprocess", lambda _: ())

    def storage() -> FolderStorage:
        return FolderStorage(tmp_path / "out", setting="output", kind=kind)

    with Meter(10**12) as meter, pytest.raises(KeyboardInterrupt), Run(storage()) as run:
        assert run.begin(description, overwrite=False) == "start"
        run.watch(meter)
        (run.stages / "scan").mkdir()
        (run.stages / "scan" / "0.json").write_text("{}")
        with meter.stage("scan"):
            raise KeyboardInterrupt
    with Meter(10**12) as meter, Run(storage()) as run:
        assert run.begin(description, overwrite=False) == "continue"
        run.watch(meter)
        found = meter.timeline.to_json()
        assert [stage["name"] for stage in found["stages"]] == ["scan"]
        assert None in [held for _, held, _ in found["samples"]]
        run.publish({**description, "timeline": found})
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]
    assert (tmp_path / "out/krill-run.json").read_text().count("\n") < 20
