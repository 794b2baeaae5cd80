"""What training a reader holds does not grow with its documents' segments, and is what the plan said."""

from __future__ import annotations

import pytest

from tiny_readers import write_recall

MB = 10**6
SIZES = ("--hidden", "64", "--layers", "1", "--batch-size", "8", "--max-steps", "2")
LIMITS = ("--memory", "450MB", "--threads", "1", "--json")

pytestmark = pytest.mark.usefixtures("jax_as_installed")


@pytest.fixture
def peak(fresh_krill, tmp_path):
    """The most that a training on documents of so many segments held, which is what the plan said."""

    def measure(segments: int) -> int:
        name = f"of-{segments}"
        write_recall(tmp_path, name, 16, segments=(segments, segments), seed=1)
        files = ("--tokenizer", "tokenizer.json", "--output-dir", f"model-{segments}")
        made = fresh_krill("qa", "train", name, *files, *SIZES, *LIMITS, cwd=tmp_path)
        assert made.code == 0, made.err
        budget = made.result["budget"]
        assert made.peak <= budget["limit"] == 450 * MB
        assert 0.7 * budget["predicted_peak"] <= made.peak <= budget["predicted_peak"]
        return made.peak

    return measure


def test_the_peak_is_inside_the_plan(peak):
    """That the step itself is flat in the segments is seen in its program: `test_model_recurrent.py`."""
    peak(32)


@pytest.mark.soak
def test_the_peak_is_flat_in_the_segments(peak):
    assert peak(32) < 1.2 * peak(2)
